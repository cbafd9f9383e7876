"""Addresses, commands and lines of clients, as people paste them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.importers.configured import drafts, lines, sources
from mcphub.features.importers.configured.drafts import Draft
from mcphub.features.importers.documents import DocumentRefused
from tools_catalog.upstream import spec


def read(text: str) -> Draft:
    found = sources.read(text)
    assert found.refused == ()
    (draft,) = found.drafts
    return draft


@pytest.mark.parametrize(
    ("text", "name", "url"),
    [
        ("https://mcp.linear.app/mcp", "linear", "https://mcp.linear.app/mcp"),
        ("  http://127.0.0.1:9000/mcp\n", "server", "http://127.0.0.1:9000/mcp"),
        ("https://tools.shop.example/mcp", "shop", "https://tools.shop.example/mcp"),
        ("http://localhost:3000/mcp", "server", "http://localhost:3000/mcp"),
    ],
)
def test_an_address_alone_is_a_server(text: str, name: str, url: str) -> None:
    draft = read(text)
    assert (draft.name, draft.transport) == (name, spec.STREAMABLE_HTTP)
    assert drafts.filled(draft, {}).url == url


@pytest.mark.parametrize(
    ("text", "name", "command", "arguments"),
    [
        (
            "npx -y @modelcontextprotocol/server-memory@latest",
            "memory",
            "npx",
            "-y @modelcontextprotocol/server-memory@latest",
        ),
        ("$ uvx mcp-server-git --repository '/srv/a b'", "git", "uvx", "mcp-server-git|--repository|/srv/a b"),
        ("docker run -i --rm mcp/fetch", "fetch", "docker", "run -i --rm mcp/fetch"),
        ("python3 /srv/notes/server.py", "server", "python3", "/srv/notes/server.py"),
        ("/opt/weather-mcp --stdio", "weather", "/opt/weather-mcp", "--stdio"),
        ("npx \\\n  -y \\\n  thing", "thing", "npx", "-y thing"),
    ],
)
def test_a_command_is_a_server(text: str, name: str, command: str, arguments: str) -> None:
    draft = read(text)
    made = drafts.filled(draft, {})
    expected = arguments.split("|" if "|" in arguments else " ")
    assert (draft.name, made.command, list(made.arguments)) == (name, command, expected)


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("./server.py --all", "/srv/mine/server.py --all"),
        ("../server", "/srv/server"),
        ("bin/notes --level 2", "/srv/mine/bin/notes --level 2"),
        ("LEVEL=debug ./server.py", "/srv/mine/server.py"),
        ("python3 src/server.py", "python3 /srv/mine/src/server.py"),
    ],
)
def test_a_relative_command_starts_in_the_folder_or_asks_for_it(text: str, runs: str) -> None:
    (draft,) = sources.read(text, folder="/srv/mine").drafts
    made = drafts.filled(draft, {})
    assert " ".join((made.command, *made.arguments)) == runs
    assert [blank.name for blank in read(text).missing] == ["folder"]


def test_a_script_that_runs_itself_reads_its_modules() -> None:
    (draft,) = sources.read("./server.py", folder="/srv/mine/notes").drafts
    assert drafts.filled(draft, {}).readable == ("/srv/mine/notes",)


def test_the_name_of_a_registry_is_no_path() -> None:
    assert lines.entry_of("io.github.example/notes") is None


def test_variables_before_a_command_are_its_environment_and_tokens_are_secrets() -> None:
    made = drafts.filled(
        read("GITHUB_TOKEN=ghp_0123456789abcdefghijklmnopqrstuvwxyz LEVEL=debug npx -y github-mcp"), {}
    )
    assert made.environment == {"GITHUB_TOKEN": "{secret:github.GITHUB_TOKEN}", "LEVEL": "debug"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'claude mcp add --transport http stripe https://mcp.stripe.com --header "X-Region: eu"',
            ("stripe", "https://mcp.stripe.com", {"X-Region": "eu"}),
        ),
        (
            "claude mcp add --scope user -t sse asana https://mcp.asana.com/sse",
            ("asana", "https://mcp.asana.com/sse", {}),
        ),
        ("codex mcp add docs --url https://docs.example/mcp", ("docs", "https://docs.example/mcp", {})),
        ("gemini mcp add far https://far.example/mcp", ("far", "https://far.example/mcp", {})),
        (
            """code --add-mcp '{"name": "far", "url": "https://far.example/mcp"}'""",
            ("far", "https://far.example/mcp", {}),
        ),
        (
            """claude mcp add-json far '{"type": "http", "url": "https://far.example/mcp"}'""",
            ("far", "https://far.example/mcp", {}),
        ),
    ],
)
def test_the_line_that_adds_an_address_to_a_client_is_read(text: str, expected: Any) -> None:
    draft = read(text)
    made = drafts.filled(draft, {})
    assert (draft.name, made.url, dict(made.headers)) == expected
    assert draft.transport == (spec.SSE if "asana" in text else spec.STREAMABLE_HTTP)


@pytest.mark.parametrize(
    "text",
    [
        "claude mcp add -e LEVEL=info notes -- npx -y notes-server --all",
        "codex mcp add notes --env LEVEL=info -- npx -y notes-server --all",
        "gemini mcp add -e LEVEL=info notes npx -y notes-server --all",
    ],
)
def test_the_line_that_adds_a_program_to_a_client_is_read(text: str) -> None:
    draft = read(text)
    made = drafts.filled(draft, {})
    assert (draft.name, made.command, made.arguments) == ("notes", "npx", ("-y", "notes-server", "--all"))
    assert made.environment == {"LEVEL": "info"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("npx -y 'thing", "cannot be split into words"),
        ("claude mcp add", "lacks the name"),
        ("claude mcp add far", "lacks the address or the command"),
        ("claude mcp list", "reads `claude mcp add NAME …`"),
        ("code .", "reads `code --add-mcp"),
        ("hello there", "neither JSON nor TOML, nor an address, nor a command"),
        ("ftp://far.example/mcp", "neither JSON nor TOML, nor an address"),
        ("", "Paste an address, a command or the configuration"),
    ],
)
def test_what_is_no_such_line_is_said(text: str, words: str) -> None:
    with pytest.raises(DocumentRefused, match=words):
        sources.read(text)


def test_one_line_of_toml_stays_toml() -> None:
    draft = read('mcp_servers.docs.command = "docs-server"')
    assert (draft.name, draft.command) == ("docs", ("docs-server",))
    assert read('mcp_servers={docs={command="docs-server", args=["-x"]}}').command == ("docs-server",)


@given(st.text(alphabet=st.sampled_from("np x-y@/:=.'\"\\\n{}claude mcp add http")) | st.text(max_size=200))
def test_any_text_is_a_line_or_none_or_refused(text: str) -> None:
    with suppress(DocumentRefused):
        found = lines.entry_of(text)
        assert found is None or (found[0] and found[1])
