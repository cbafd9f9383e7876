"""A bundle carries the whole catalogue from one hub to another, and says beforehand what it would change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.factories import McpConnectionFactory
from tests.servers import Hub
from tests.tools_catalog.proposals import definition, offers
from tools_catalog.bundles import bundle
from tools_catalog.models import HttpService, McpToolDefinition, McpToolset

WHOLE: dict[str, Any] = {
    "format": bundle.FORMAT,
    "services": [
        {
            "slug": "git",
            "title": "Git",
            "url": "https://git.example/rest",
            "kind": "git",
            "version": "8.2",
            "headers": {"Authorization": "Basic {basic:git}"},
            "enabled": False,
        }
    ],
    "tools": [
        {
            "name": "git.read",
            "description": "Reads.",
            "inputSchema": {"type": "object"},
            "backend": "http",
            "configuration": {"service": "git", "url": "/a", "retries": 1},
            "retry_safe": True,
            "requirements": {"kind": "git"},
            "groups": ["Staff"],
        }
    ],
    "resources": [{"uri": "docs://start", "name": "start", "content": "Begin."}],
    "prompts": [{"name": "greet", "messages": [{"role": "user", "content": "Hello"}]}],
    "connections": [{"slug": "far", "transport": "streamable-http", "url": "https://far.example/mcp"}],
    "toolsets": [{"slug": "few", "mode": "search", "patterns": "git.*", "tools": ["git.read"], "groups": ["Staff"]}],
    "error_mappings": [
        {
            "internal_code": "timeout",
            "json_rpc_code": -31050,
            "message_template": "Too slow: {message}",
            "retryable": True,
        }
    ],
}


@pytest.mark.program
def test_a_whole_catalogue_goes_from_one_hub_to_another(tmp_path: Path) -> None:
    one, other = (Hub(tmp_path / name) for name in ("one", "other"))
    for hub in (one, other):
        hub.folder.mkdir()
    one.command("catalog", "load", "-", stdin=json.dumps(WHOLE))
    dumped = one.command("catalog", "dump")
    there = json.loads(dumped)
    for kind, entries in WHOLE.items():
        if isinstance(entries, list):
            known = [{name: found.get(name) for name in entry} for entry in entries for found in there[kind]]
            assert all(entry in known for entry in entries), kind
    told = other.command("catalog", "load", "-", "--dry-run", stdin=dumped)
    assert "+ git.read" in told
    assert 'message_template: "' in told
    assert "dry run, nothing was changed" in told
    other.command("catalog", "load", "-", stdin=dumped)
    assert other.command("catalog", "dump") == dumped
    again = other.command("catalog", "load", "-", stdin=dumped)
    assert again.startswith("0 new, 0 changed")


@pytest.mark.django_db
def test_a_dry_run_changes_nothing_and_tells_the_difference() -> None:
    report = bundle.load(WHOLE, reason="bundle x", dry_run=True)
    assert set(report.created) >= {"git", "git.read", "few", "far"}
    assert not McpToolDefinition.objects.filter(name="git.read").exists()
    assert not HttpService.objects.exists()
    bundle.load(WHOLE, reason="bundle x")
    changed = json.loads(json.dumps(WHOLE))
    changed["tools"][0]["description"] = "Reads more."
    changed["toolsets"][0]["patterns"] = "git.*  docs.*"
    report = bundle.load(changed, reason="bundle x", dry_run=True)
    assert report.differences["git.read"] == {"description": ("Reads.", "Reads more.")}
    assert McpToolDefinition.objects.get(name="git.read").description == "Reads."
    assert report.changed == ["git.read", "few"]


@pytest.mark.django_db
def test_a_toolset_of_a_tool_that_is_not_there_is_refused() -> None:
    given = {"format": bundle.FORMAT, "toolsets": [{"slug": "few", "tools": ["nowhere"]}]}
    assert bundle.load(given, reason="bundle x").refused == [
        ("few", "tools: there is no 'nowhere' in the catalogue or in the bundle.")
    ]
    assert not McpToolset.objects.exists()


@pytest.mark.django_db
def test_what_upstreams_offer_stays_behind_and_comes_into_its_toolsets_when_it_is_approved() -> None:
    connection = McpConnectionFactory(slug="wiki", policy="trust")
    page = {"uri": "wiki://page", "name": "page"}
    offers(connection, tool=[definition()], resource=[page], prompt=[{"name": "greet"}])
    toolset = McpToolset.objects.create(slug="few", patterns="own.*")
    toolset.tools.set(McpToolDefinition.objects.filter(name="wiki_search"))
    dumped = json.loads(json.dumps(bundle.dump()))
    assert [dumped[kind] for kind in ("tools", "resources", "prompts")] == [[], [], []]
    assert dumped["toolsets"][0]["upstream_tools"] == ["wiki_search"]
    report = bundle.load(dumped, reason="bundle x")
    assert (report.refused, report.created, report.changed, report.kept) == ([], [], [], [])

    # As in a hub where nobody has approved them yet.
    dumped["toolsets"][0] |= {"slug": "more", "upstream_tools": ["wiki_later"]}
    assert bundle.load(dumped, reason="bundle x").created == ["more"]
    assert "more" in bundle.load(dumped, reason="bundle x").unchanged
    toolset = McpToolset.objects.get(slug="more")
    assert (toolset.patterns, toolset.tools.count()) == ("own.* wiki_later", 0)

    offers(connection, tool=[definition(), definition("later")])
    assert bundle.load(dumped, reason="bundle x").changed == ["more"]
    assert [tool.name for tool in toolset.tools.all()] == ["wiki_later"]


@pytest.mark.django_db
@pytest.mark.parametrize("given", ["wiki_search", [5], ["a b"], ["*"]])
def test_what_is_no_list_of_names_is_refused(given: Any) -> None:
    toolset = {"slug": "few", "upstream_tools": given}
    report = bundle.load({"format": bundle.FORMAT, "toolsets": [toolset]}, reason="bundle x")
    assert report.refused == [("toolsets[0]", "upstream_tools: it must be a list of names of tools.")]


@pytest.mark.django_db
def test_a_shipped_error_mapping_follows_and_an_edited_one_is_kept() -> None:
    from invocations.models import McpErrorMapping

    assert bundle.load(WHOLE, reason="bundle x").changed == ["timeout"]
    row = McpErrorMapping.objects.get(internal_code="timeout")
    row.message_template = "Ours"
    row.save()
    assert bundle.load(WHOLE, reason="bundle y").kept == ["timeout"]
