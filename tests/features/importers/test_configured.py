"""Configurations of clients, and descriptions of registries, as drafts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub import clients
from mcphub.features.importers.configured import drafts, jsonc, secrecy, sources
from mcphub.features.importers.configured.drafts import Draft, DraftRefused
from mcphub.features.importers.documents import DocumentRefused
from tests.features.importers import configurations as told
from tools_catalog.upstream import spec


def read(text: Any) -> dict[str, Draft]:
    found = sources.read(text if isinstance(text, str | bytes) else json.dumps(text))
    assert found.refused == ()
    return {draft.name: draft for draft in found.drafts}


def filled(draft: Draft, **values: str) -> drafts.Filled:
    return drafts.filled(draft, values)


def secrets_of(made: drafts.Filled) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {each.name: (each.value, each.places) for each in made.secrets}


def test_claude_desktop_starts_programs_and_its_tokens_become_secrets() -> None:
    found = read(told.CLAUDE_DESKTOP)
    files, github = filled(found["files"]), filled(found["github"])
    assert (files.command, files.arguments) == ("npx", ("-y", "@modelcontextprotocol/server-filesystem", "/srv/shared"))
    assert github.environment == {"GITHUB_TOKEN": "{secret:github.GITHUB_TOKEN}", "LOG_LEVEL": "debug"}
    assert secrets_of(github) == {"github.GITHUB_TOKEN": (told.TOKEN, ("environment.GITHUB_TOKEN",))}


def test_claude_code_has_usual_values_and_variables_to_fill_in() -> None:
    draft = read(told.CLAUDE_CODE)["issues"]
    assert [blank.name for blank in draft.missing] == ["ISSUES_TOKEN"]
    made = filled(draft, ISSUES_TOKEN="abc")
    assert made.url == "https://issues.example/mcp"
    assert made.headers == {"Authorization": "Bearer {secret:issues.ISSUES_TOKEN}"}


def test_claude_code_repeats_a_server_in_each_project_and_it_is_read_once() -> None:
    found = read(told.CLAUDE_CODE_USER)
    assert [(each.name, each.transport) for each in found.values()] == [("shared", spec.STDIO), ("own", spec.SSE)]


def test_cursor_names_folders_of_the_client_which_are_filled_in() -> None:
    found = read(told.CURSOR)
    assert [blank.name for blank in found["local"].missing] == ["workspaceFolder", "LOCAL_API_KEY"]
    made = filled(found["local"], workspaceFolder="/srv/project", LOCAL_API_KEY="k")
    assert made.arguments == ("/srv/project/server.py",)
    assert filled(found["far"]).headers == {"X-Api-Key": "{secret:far.X-Api-Key}"}


def test_vs_code_writes_comments_and_asks_for_inputs() -> None:
    found = read(told.VS_CODE)
    blanks = {blank.name: blank for blank in found["perplexity"].blanks}
    assert (blanks["perplexity-key"].is_secret, blanks["perplexity-key"].words) == (True, "Perplexity API key")
    assert (blanks["mode"].value, blanks["mode"].choices) == ("read", ("read", "write"))
    assert any("envFile: ${workspaceFolder}/.env is not read" in note for note in found["fetch"].notes)
    with pytest.raises(DraftRefused, match="choose one of read, write"):
        filled(found["perplexity"], mode="other", **{"perplexity-key": "k"})
    assert list(read(told.VS_CODE_SETTINGS)) == ["time"]


def test_zed_writes_a_command_as_a_text_or_as_an_object() -> None:
    found = read(told.ZED)
    assert filled(found["new"]).arguments == ("--stdio",)
    assert (filled(found["old"]).command, filled(found["old"]).environment) == ("old-server", {"A": "b"})
    assert [blank.name for blank in found["far"].missing] == ["Authorization"]
    assert (found["off"].enabled, found["new"].enabled) == (False, True)


def test_codex_writes_toml_and_names_variables_of_its_environment() -> None:
    found = read(told.CODEX)
    docs = filled(found["docs"], DOCS_TOKEN="d")
    assert docs.environment == {"LEVEL": "info", "DOCS_TOKEN": "{secret:docs.DOCS_TOKEN}"}
    assert docs.directory == "/srv/docs"
    far = filled(found["far"], FAR_TOKEN="f", TEAM_KEY="t")
    assert far.headers == {
        "X-Region": "eu",
        "X-Team-Key": "{secret:far.TEAM_KEY}",
        "Authorization": "Bearer {secret:far.FAR_TOKEN}",
    }


def test_other_clients_call_the_same_members_otherwise() -> None:
    assert filled(read(told.WINDSURF)["far"], FAR_KEY="k").url == "https://far.example/mcp"
    assert read(told.CLINE)["w"].enabled is False
    assert read(told.ROO)["far"].transport == spec.STREAMABLE_HTTP
    gemini = read(told.GEMINI)
    assert (gemini["new"].transport, gemini["old"].transport) == (spec.STREAMABLE_HTTP, spec.SSE)
    assert [blank.name for blank in gemini["local"].missing] == ["LOCAL_TOKEN"]
    opencode = read(told.OPENCODE)
    assert filled(opencode["local"]).arguments == ("-y", "thing")
    assert [blank.name for blank in opencode["far"].missing] == ["FAR"]


def test_a_bridge_to_an_address_becomes_a_connection_to_that_address() -> None:
    draft = read(told.BRIDGED)["far"]
    made = filled(draft)
    assert (draft.transport, made.url) == (spec.STREAMABLE_HTTP, "https://far.example/mcp")
    assert made.headers == {"Authorization": "Bearer {secret:far.Authorization}"}
    assert secrets_of(made)["far.Authorization"][0] == told.TOKEN


@pytest.mark.parametrize(
    ("words", "readable"),
    [
        (["/srv/project/weather/build/index.js"], ("/srv/project/weather",)),
        (["/opt/x/node_modules/@a/b/dist/index.js"], ("/opt/x/node_modules",)),
        (["-u", "/home/me/servers/notes/server.py", "--all"], ("/home/me/servers/notes",)),
        (["/home/me/server.py"], ()),
        (["/srv/a/../../etc/x.py"], ()),
        (["server.js"], ()),
        (["-m", "mcp_server_fetch"], ()),
    ],
)
def test_a_script_may_read_the_project_that_it_stands_in(words: list[str], readable: tuple[str, ...]) -> None:
    command = "node" if words[0].endswith(".js") else "python3"
    draft = read({"mcpServers": {"a": {"command": command, "args": words}}})["a"]
    assert filled(draft, folder="/srv/asked").readable == readable


def test_a_shell_of_windows_is_left_out() -> None:
    draft = read(told.WINDOWS)["w"]
    assert (filled(draft).command, filled(draft).arguments) == ("npx", ("-y", "thing"))


@pytest.mark.parametrize(
    "text",
    [
        '"mcpServers": {"a": {"command": "x"}}',
        '{"a": {"command": "x"}}',
        '{"name": "a", "command": "x"}',
        '\ufeff// mine\n{"mcpServers": {"a": {"command": "x",}},}',
    ],
)
def test_a_piece_of_a_configuration_is_enough(text: str) -> None:
    assert list(read(text)) == ["a"]


@pytest.mark.parametrize(
    ("words", "exposed"),
    [
        (["server", "postgresql://user:password@db/x"], "argument 2"),
        (["server", "--api-key", "abcdef"], "api-key"),
        (["server", "--token=abcdef"], "token"),
        (["server", "--header", "Authorization: Bearer ${AUTH_TOKEN}"], "AUTH_TOKEN"),
        (["run", "-e", f"GITHUB_TOKEN={told.TOKEN}", "image"], "e"),
    ],
)
def test_a_credential_in_a_command_line_is_a_problem_that_says_what_to_do(words: list[str], exposed: str) -> None:
    draft = read({"mcpServers": {"a": {"command": "uvx", "args": words}}})["a"]
    assert f"({exposed})" in draft.problem
    assert "under env" in draft.problem
    with pytest.raises(DraftRefused, match="command line"):
        drafts.filled(draft, {blank.name: "x" for blank in draft.blanks})
    shown = [drafts.words_shown(draft, word) for word in draft.arguments]
    assert "password" not in str(shown)
    assert told.TOKEN not in str(shown)


@pytest.mark.parametrize(
    "url", ["https://x.example/mcp?apiKey=abc", "https://u:p@x.example/mcp", f"https://x/{told.TOKEN}"]
)
def test_a_credential_in_an_address_is_a_problem(url: str) -> None:
    assert "the address has a credential" in read({"mcpServers": {"a": {"url": url}}})["a"].problem


def test_a_server_of_a_registry_is_run_by_its_package() -> None:
    draft = read(told.SERVER_JSON)["io.github.example/weather"]
    assert (draft.slug, [blank.name for blank in draft.missing]) == ("weather", ["city", "WEATHER_KEY"])
    made = filled(draft, city="Berlin", WEATHER_KEY="k")
    assert made.arguments == ("-y", "@example/weather@1.2.0", "--units", "metric", "Berlin")
    assert made.environment == {"WEATHER_KEY": "{secret:weather.WEATHER_KEY}", "WEATHER_LOG": "level=info"}


def test_a_server_of_a_registry_is_reached_at_its_address() -> None:
    draft = read({"servers": [{"server": told.REMOTE_JSON, "_meta": {}}]})["com.example/weather"]
    made = filled(draft, tenant="acme", **{"X-Weather-Key": "k"})
    assert (draft.transport, made.url) == (spec.STREAMABLE_HTTP, "https://acme.weather.example/mcp")
    assert made.headers == {"X-Weather-Key": "{secret:weather.X-Weather-Key}", "X-Region": "eu"}


def test_a_description_of_an_older_revision_is_read_too() -> None:
    draft = read(told.OLD_SERVER_JSON)["io.github.example/old"]
    assert filled(draft, OLD_KEY="k").arguments == ("old-server==0.5.0",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "It is empty"),
        ("{\n  'a': 1}", "Line 2, column 3"),
        ('{"mcpServers": {"a": {"command": "x"}}', "this is not valid JSON"),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "twice"),
        ("[mcp_servers.a]\ncommand = ", "Line 2"),
        ("{}", "There are no servers in it"),
        ("[1, 2]", "Line 1"),
        (b"\xff\xfe", "no text in UTF-8"),
        ("{" * 5000, "not valid JSON"),
        (json.dumps({"mcpServers": {f"s{n}": {"command": "x"} for n in range(101)}}), "reads 100 at once"),
        (" " * (sources.MAX_BYTES + 1), "more than 1048576 bytes"),
    ],
)
def test_what_is_no_configuration_is_refused_with_the_place(text: str | bytes, words: str) -> None:
    with pytest.raises(DocumentRefused, match=words):
        sources.read(text)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("npx", "must be an object"),
        ({}, "neither a command nor an address"),
        ({"command": 1}, "command: "),
        ({"command": "x", "args": "y"}, "args: "),
        ({"command": "x", "args": ["\x00"]}, "NUL"),
        ({"command": "x", "args": ["y"] * 201}, "at most 200"),
        ({"command": "x", "env": ["A=b"]}, "env: "),
        ({"command": "x", "env": {"A": {}}}, "env.A: "),
        ({"command": "-rf"}, "name a program"),
        ({"url": "ftp://x"}, "https://"),
        ({"type": "ws", "url": "https://x"}, "does not speak"),
        ({"command": 'x "y'}, "cannot be split"),
    ],
)
def test_a_server_that_cannot_be_read_is_told_by_name_and_the_others_are_read(entry: Any, words: str) -> None:
    found = sources.read(json.dumps({"mcpServers": {"bad": entry, "good": {"command": "x"}}}))
    assert [draft.name for draft in found.drafts] == ["good"]
    assert [name for name, _why in found.refused] == ["bad"]
    assert words in found.refused[0][1]


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "apiKey", "X-Api-Key", "DB_PASS", "GITHUB_PAT", "SUBSCRIPTION_KEY"])
def test_names_of_credentials_are_known(name: str) -> None:
    assert secrecy.is_named_so(name)


@pytest.mark.parametrize("name", ["LOG_LEVEL", "KEY_COUNT", "PUBLIC_KEY", "BOARDING_TIME", "PATTERN", "MONKEY_SIZE"])
def test_other_names_are_not_taken_for_them(name: str) -> None:
    assert not secrecy.is_named_so(name)


@pytest.mark.parametrize("name", sorted(told.ALL))
def test_nothing_that_is_shown_holds_a_secret(name: str) -> None:
    for draft in sources.read(told.ALL[name]).drafts:
        shown = [
            drafts.words_shown(draft, text)
            for text in (
                *draft.arguments,
                draft.url,
                draft.directory,
                *dict(draft.environment + draft.headers).values(),
            )
        ]
        assert told.TOKEN not in str(shown)


def test_a_secret_that_is_there_may_be_named_instead_of_told() -> None:
    draft = read(told.CLAUDE_CODE)["issues"]
    made = filled(draft, ISSUES_TOKEN="{secret:ISSUES}")
    assert (made.headers["Authorization"], made.secrets) == ("Bearer {secret:ISSUES}", ())


TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
MEMBERS = """
mcpServers servers context_servers mcp inputs projects command args env url type headers name packages remotes server
registryType identifier ${A} a
"""
NAMES = st.sampled_from(MEMBERS.split())
SHAPED = st.recursive(
    JSON, lambda inner: st.dictionaries(NAMES, inner, max_size=5) | st.lists(inner, max_size=3), max_leaves=20
)


@given(st.dictionaries(NAMES, SHAPED, max_size=5) | TEXTS)
def test_any_text_is_read_or_refused(document: Any) -> None:
    text = document if isinstance(document, str) else json.dumps(document)
    try:
        found = sources.read(text)
    except DocumentRefused:
        return
    assert all(why for _name, why in found.refused)
    for draft in found.drafts:
        try:
            made = drafts.filled(draft, {blank.name: "v" for blank in draft.missing})
        except DraftRefused:
            continue
        # What is written into rows is read again as it was meant.
        if draft.runs_program:
            assert spec.parse_arguments(list(made.arguments)) == made.arguments


@given(st.dictionaries(TEXTS, JSON, max_size=4))
def test_json_reads_as_itself(value: Any) -> None:
    assert jsonc.loads(json.dumps(value)) == value
    assert jsonc.loads(json.dumps(value, indent=1, ensure_ascii=False)) == value


@given(st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=4))
def test_comments_and_last_commas_change_nothing(value: dict[str, str]) -> None:
    lines = [f'  {json.dumps(name)}: {json.dumps(text)}, // said "so"' for name, text in value.items()]
    assert jsonc.loads("/* a */ {\n" + "\n".join(lines) + "\n/* b, */ }") == value


@given(st.dictionaries(st.from_regex(r"[A-Z][A-Z_]{0,8}\Z"), TEXTS, max_size=4))
def test_the_environment_of_a_program_arrives_as_the_file_says(variables: dict[str, str]) -> None:
    found = sources.read(json.dumps({"mcpServers": {"a": {"command": "x", "env": variables}}}))
    if found.refused:
        assert "${" in json.dumps(variables)
        return
    draft = found.drafts[0]
    try:
        made = drafts.filled(draft, {blank.name: "v" for blank in draft.missing})
        parsed = dict(spec.parse_environment(dict(made.environment)))
    except (DraftRefused, ValueError):
        return
    values = {each.name: each.value for each in made.secrets}
    for name, template in parsed.items():
        text = "".join(part if isinstance(part, str) else values[part[1]] for part in template.parts)
        plain = not set("${%<~.") & set(variables[name]) and not secrecy.is_to_fill_in(variables[name])
        if plain:
            assert text == variables[name]


@pytest.mark.parametrize("key", [*clients.CLIENTS])
def test_the_hub_reads_the_configuration_that_it_prints_for_each_client(key: str) -> None:
    url = "https://hub.example/mcp"
    made = [*clients.address_only(url), *clients.snippets(url, "YOUR-KEY")]
    for snippet in (each for each in made if each.key == key and key not in ("claude", "inspector")):
        (draft,) = sources.read(snippet.text).drafts
        assert draft.url == (url,)


def test_words_of_a_command_may_be_numbers_and_switches_or_absent() -> None:
    entries = {"a": {"command": "x", "args": ["--port", 80, True]}, "b": {"command": "x", "args": None, "env": None}}
    found = sources.read(json.dumps({"mcpServers": entries}))
    assert [drafts.filled(draft, {}).arguments for draft in found.drafts] == [("--port", "80", "true"), ()]


def test_a_clients_list_of_servers_is_no_registrys() -> None:
    listed = [{"name": "a", "command": "x"}, {"name": "b", "url": "https://b.example/mcp"}]
    assert list(read({"servers": listed})) == list(read({"mcpServers": listed})) == ["a", "b"]
