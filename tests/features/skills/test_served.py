"""Skills at the wire: listed, got, read and recorded, by those who may see them alone (SEP-2640)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import operations, workspace_operations
from tests.features.skills import operations as skills
from tests.features.skills.operations import ENTRY, FILES
from tests.servers import Hub, until
from tests.wire.speech import LEGACY, Speaker, hello

pytestmark = pytest.mark.program

LOADING = Path(__file__).parent / "bundle.json"
URI = "skill://acme/refunds/SKILL.md"
PARTIAL = "skill://acme/refunds/partial/SKILL.md"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {"MCPHUB_LIMITS": "list_page_size=2"}
    with Hub(tmp_path_factory.mktemp("hub"), bundle=LOADING, environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def keys(hub: Hub) -> dict[str, str]:
    made: dict[str, str] = hub.operate(workspace_operations.make, ["ours", "theirs"])
    made["in a group"] = hub.operate(operations.issue_key, "in a group", ["tools:list", "tools:call"])
    hub.operate(skills.make_toolsets)
    hub.operate(skills.add, "acme/refunds", FILES, ["partial"])
    hub.operate(skills.add, "owned", {"SKILL.md": ENTRY.format(name="owned")}, workspace="ours")
    hub.operate(skills.add, "grouped", {"SKILL.md": ENTRY.format(name="grouped")}, groups=["ours members"])
    hub.operate(skills.add, "chosen", {"SKILL.md": ENTRY.format(name="chosen")}, toolsets=["none"])
    hub.settle()
    return made


@pytest.fixture
def speaker(hub: Hub, keys: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(hub.url, keys["stranger"]) as made:
        yield made


def ask(speaker: Speaker, method: str, path: str = "/mcp", **params: Any) -> dict[str, Any]:
    body, headers = speaker.modern_body(method, params), speaker.modern_headers(method, params)
    found: dict[str, Any] = speaker.post(body, path, **headers).json()
    return found


def listed(speaker: Speaker, path: str = "/mcp") -> dict[str, Any]:
    found: dict[str, Any] = {}
    cursor: dict[str, str] = {}
    while True:
        result = ask(speaker, "skills/list", path, **cursor)["result"]
        assert result["resultType"] == "complete"
        assert result["ttlMs"] > 0
        assert len(result["skills"]) <= 2
        found |= {skill["uri"]: skill for skill in result["skills"]}
        if "nextCursor" not in result:
            return found
        cursor = {"cursor": result["nextCursor"]}


def test_the_extension_is_declared_where_capabilities_have_extensions(speaker: Speaker) -> None:
    capabilities = ask(speaker, "server/discover")["result"]["capabilities"]
    assert capabilities["extensions"]["io.modelcontextprotocol/skills"] == {"directoryRead": True}
    assert "resources" in capabilities


def test_an_entry_is_a_manifest_of_what_reads_return(speaker: Speaker) -> None:
    skill = listed(speaker)[URI]
    assert skill["frontmatter"] == {
        "name": "refunds",
        "description": "About refunds.",
        "license": "MIT",
        "metadata": {"since": "2026-01-02"},
    }
    assert {each["uri"] for each in skill["resources"]} == {
        URI,
        PARTIAL,
        "skill://acme/refunds/references/RULES.md",
        "skill://acme/refunds/references/a%20b.txt",
        "skill://acme/refunds/partial/x.txt",
    }
    for file in skill["resources"]:
        content = ask(speaker, "resources/read", uri=file["uri"])["result"]["contents"][0]
        raw = content["text"].encode() if "text" in content else base64.b64decode(content["blob"])
        assert (file["digest"], file["size"]) == (f"sha256:{hashlib.sha256(raw).hexdigest()}", len(raw))
    got = ask(speaker, "skills/get", uri=URI)["result"]
    assert got["skill"] == skill
    assert {"resultType", "ttlMs", "cacheScope"} <= set(got)
    assert "nextCursor" not in got


def test_a_nested_skill_is_an_entry_of_its_own_with_its_files(speaker: Speaker) -> None:
    skill = listed(speaker)[PARTIAL]
    assert skill["frontmatter"]["name"] == "partial"
    assert {each["uri"] for each in skill["resources"]} == {PARTIAL, "skill://acme/refunds/partial/x.txt"}


def test_a_skill_that_is_not_served_is_an_invalid_parameter(speaker: Speaker) -> None:
    for method, uri in (
        ("skills/get", "skill://acme/none/SKILL.md"),
        ("skills/get", "skill://acme/refunds/references/RULES.md"),
        ("skills/get", "skill://acme/refunds"),
        ("resources/read", "skill://acme/refunds/none.md"),
        ("resources/read", "skill://acme/refunds/../refunds/SKILL.md"),
        ("resources/directory/read", URI),
        ("resources/directory/read", "skill://acme/refunds/"),
        ("resources/directory/read", "skill://none"),
    ):
        assert ask(speaker, method, uri=uri)["error"]["code"] == -32602, (method, uri)
    assert ask(speaker, "skills/get")["error"]["code"] == -32602
    assert ask(speaker, "skills/list", cursor="x")["error"]["code"] == -32602


def test_a_directory_has_its_direct_children_page_by_page(speaker: Speaker) -> None:
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        result = ask(speaker, "resources/directory/read", uri="skill://acme/refunds", **cursor)["result"]
        found += result["resources"]
        assert result["ttlMs"] > 0
        assert result["cacheScope"] == "private"
        if "nextCursor" not in result:
            break
        cursor = {"cursor": result["nextCursor"]}
    assert {child["uri"]: child["mimeType"] for child in found} == {
        URI: "text/markdown",
        "skill://acme/refunds/partial": "inode/directory",
        "skill://acme/refunds/references": "inode/directory",
    }
    above = ask(speaker, "resources/directory/read", uri="skill://acme")["result"]["resources"]
    assert above == [{"uri": "skill://acme/refunds", "name": "refunds", "mimeType": "inode/directory"}]


def test_lists_of_resources_have_the_entries_alone(speaker: Speaker) -> None:
    named: dict[str, dict[str, Any]] = {}
    cursor: dict[str, str] = {}
    while True:
        result = ask(speaker, "resources/list", **cursor)["result"]
        named |= {each["uri"]: each for each in result["resources"]}
        if "nextCursor" not in result:
            break
        cursor = {"cursor": result["nextCursor"]}
    assert {uri for uri in named if uri.startswith("skill:")} == {URI, PARTIAL, "skill://chosen/SKILL.md"}
    assert (named[URI]["name"], named[URI]["mimeType"]) == ("refunds", "text/markdown")
    assert named[URI]["description"] == "About refunds."


def test_another_callers_skill_is_as_not_there(hub: Hub, keys: dict[str, str]) -> None:
    hidden = {"skill://owned/SKILL.md", "skill://grouped/SKILL.md"}
    with Speaker(hub.url, keys["stranger"]) as stranger, Speaker(hub.url, keys["ours person"]) as member:
        assert not hidden & set(listed(stranger))
        assert hidden <= set(listed(member))
        for uri in hidden:
            unknown = uri.replace("SKILL", "NONE")
            for method in ("skills/get", "resources/read"):
                refused = ask(stranger, method, uri=uri)["error"]
                as_unknown = ask(stranger, method, uri=unknown)["error"]
                assert refused["code"] == as_unknown["code"] == -32602
                assert refused["message"].replace("SKILL", "NONE") == as_unknown["message"]
            directory = uri.removesuffix("/SKILL.md")
            assert ask(stranger, "resources/directory/read", uri=directory)["error"]["code"] == -32602
            assert ask(member, "skills/get", uri=uri)["result"]["skill"]["uri"] == uri
            assert ask(member, "resources/read", uri=uri)["result"]["contents"]
    with Speaker(hub.url, keys["theirs"]) as other:
        assert not hidden & set(listed(other, "/w/theirs/mcp"))


def test_a_toolset_has_the_skills_that_it_chooses(speaker: Speaker) -> None:
    assert set(listed(speaker, "/mcp/s/all")) == {URI, PARTIAL, "skill://chosen/SKILL.md"}
    assert set(listed(speaker, "/mcp/s/some")) == {URI, PARTIAL}
    assert set(listed(speaker, "/mcp/s/none")) == {"skill://chosen/SKILL.md"}
    rules = "skill://acme/refunds/references/RULES.md"
    assert ask(speaker, "resources/read", "/mcp/s/some", uri=rules)["result"]["contents"][0]["text"] == "Rules\r\n"
    assert ask(speaker, "resources/read", "/mcp/s/none", uri=rules)["error"]["code"] == -32602


def test_each_read_of_a_file_is_on_record(hub: Hub, speaker: Speaker) -> None:
    uri = "skill://acme/refunds/references/RULES.md"
    ask(speaker, "resources/read", uri=uri)
    row = hub.rows(client=speaker.name)[0]
    assert (row["method"], row["target"]) == ("resources/read", uri)


def test_a_session_has_skills_too(speaker: Speaker) -> None:
    capabilities = speaker.post(hello(LEGACY, speaker.name)).json()["result"]["capabilities"]
    assert capabilities["extensions"]["io.modelcontextprotocol/skills"] == {"directoryRead": True}
    session = speaker.open_session(LEGACY)
    got = speaker.in_session(session, "skills/get", {"uri": URI}).json()["result"]
    assert set(got) == {"skill"}


def test_a_new_version_is_served_at_once_and_a_removed_skill_is_gone(hub: Hub, speaker: Speaker) -> None:
    uri = "skill://moving/SKILL.md"
    files = {"SKILL.md": ENTRY.format(name="moving"), "old.md": "old"}
    assert hub.operate(skills.add, "moving", files) == 1
    until(lambda: uri in listed(speaker))
    before = listed(speaker)[uri]
    assert hub.operate(skills.add, "moving", {"SKILL.md": files["SKILL.md"], "new.md": "new"}) == 2
    until(lambda: listed(speaker)[uri] != before)
    assert ask(speaker, "resources/read", uri="skill://moving/old.md")["error"]["code"] == -32602
    assert ask(speaker, "resources/read", uri="skill://moving/new.md")["result"]["contents"][0]["text"] == "new"
    assert hub.operate(skills.add, "moving", files) == 1
    until(lambda: listed(speaker)[uri] == before)
    hub.operate(skills.remove, "moving")
    until(lambda: uri not in listed(speaker))


def test_a_skill_is_a_prompt_where_an_operator_wants_it(hub: Hub, speaker: Speaker) -> None:
    files = {"SKILL.md": ENTRY.format(name="asked"), "RULES.md": "Rules"}
    hub.operate(skills.add, "acme/asked", files, as_prompt=True)
    until(lambda: "skill://acme/asked/SKILL.md" in listed(speaker))
    prompts = {each["name"]: each for each in ask(speaker, "prompts/list")["result"]["prompts"]}
    assert prompts["asked"]["description"] == "About asked."
    assert "refunds" not in prompts
    body, addresses = ask(speaker, "prompts/get", name="asked")["result"]["messages"]
    assert body["content"]["text"] == files["SKILL.md"]
    assert addresses["content"]["text"].splitlines()[1:] == ["skill://acme/asked/RULES.md"]
    assert ask(speaker, "prompts/get", "/mcp/s/none", name="asked")["error"]["code"] == -32602
    hub.operate(skills.add, "acme/asked", files)
    until(lambda: "error" in ask(speaker, "prompts/get", name="asked"))
    hub.operate(skills.remove, "acme/asked")
    hub.settle()


def test_the_tool_loads_the_skills_that_its_caller_may_read(hub: Hub, keys: dict[str, str], speaker: Speaker) -> None:
    listed = texts(load(speaker))[0].splitlines()
    assert {"acme/refunds: About refunds.", "acme/refunds/partial: About partial."} <= set(listed)
    assert not any(line.startswith(("owned", "grouped")) for line in listed)
    assert texts(load(speaker, search="ABOUT PARTIAL")) == ["acme/refunds/partial: About partial."]
    entry, others = texts(load(speaker, skill="refunds"))
    assert entry == FILES["SKILL.md"]
    assert "references/a b.txt" in others
    assert texts(load(speaker, skill="acme/refunds", file="references/a b.txt")) == ["é"]
    assert texts(load(speaker, skill=PARTIAL, file="x.txt")) == ["x"]
    with Speaker(hub.url, keys["in a group"]) as other:
        assert "acme/refunds" in texts(load(other))[0]
        refused = load(other, skill="owned")
        assert refused["isError"]
        assert "no skill 'owned' here" in texts(refused)[0]
    row = hub.rows(tool="load_skill", limit=1)[0]
    assert (row["arguments"], row["status"]) == ({"skill": "owned"}, "error")


def test_the_tool_keeps_to_the_choice_of_a_toolset(speaker: Speaker) -> None:
    assert texts(load(speaker, "/mcp/s/none")) == ["chosen: About chosen."]
    assert [line.partition(":")[0] for line in texts(load(speaker, "/mcp/s/some"))[0].splitlines()] == [
        "acme/refunds",
        "acme/refunds/partial",
    ]
    assert load(speaker, "/mcp/s/some", skill="chosen")["isError"]


@pytest.mark.parametrize("file", ["none.txt", "../refunds/SKILL.md", "/etc/passwd", "SKILL.md/", ""])
def test_the_tool_names_the_files_where_it_has_none(speaker: Speaker, file: str) -> None:
    refused = load(speaker, skill="acme/refunds", file=file)
    assert refused["isError"]
    assert "Its files: SKILL.md, " in texts(refused)[0]


def load(speaker: Speaker, path: str = "/mcp", **arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(speaker, "tools/call", path, name="load_skill", arguments=arguments)["result"]
    return found


def texts(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"]]
