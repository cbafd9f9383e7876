"""Bundles: what a load creates, follows, keeps and refuses."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from tests.servers import FIXTURES
from tools_catalog.bundles import bundle
from tools_catalog.models import McpPrompt, McpResource, McpToolDefinition, McpToolVersion, Secret

pytestmark = pytest.mark.django_db

_ECHO = "tools_catalog.packs.starter.tools:echo"


@pytest.fixture(autouse=True)
def _functions() -> None:
    import_module(f"{FIXTURES}.tools")


def _python(**more: Any) -> dict[str, Any]:
    return {"backend": "python", "configuration": {"function": _ECHO}, **more}


def _http(**more: Any) -> dict[str, Any]:
    return {
        "backend": "http",
        "name": "weather",
        "description": "Say how the weather is.",
        "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
        "configuration": {
            "method": "GET",
            "url": "https://weather.example/v1/{city}",
            "headers": {"Authorization": "Bearer {secret:weather_key}"},
        },
        **more,
    }


def _load(*tools: Any, reason: str = "pack x", overwrite: bool = False) -> bundle.Report:
    return bundle.load({"format": bundle.FORMAT, "tools": list(tools)}, reason=reason, overwrite=overwrite)


def test_a_python_tool_takes_from_its_function_what_the_bundle_leaves_out() -> None:
    assert _load(_python(name="say", timeout_seconds=5)).created == ["say"]
    tool = McpToolDefinition.objects.get(name="say")
    assert tool.title == "Echo"
    assert tool.read_only
    assert tool.timeout_seconds == 5
    assert "text" in tool.input_schema["properties"]


def test_a_second_load_changes_nothing_and_makes_no_version() -> None:
    _load(_python(), _http())
    versions = McpToolVersion.objects.count()
    report = _load(_python(), _http())
    assert report.unchanged == ["echo", "weather"]
    assert not report.changed
    assert McpToolVersion.objects.count() == versions


def test_a_tool_follows_its_source_with_the_reason_in_its_version() -> None:
    _load(_http())
    assert _load(_http(description="Forecast.")).changed == ["weather"]
    newest = McpToolDefinition.objects.get(name="weather").versions.first()
    assert newest is not None
    assert (newest.version, newest.reason) == ("2", "pack x")


def test_what_was_edited_here_is_kept_until_overwrite() -> None:
    _load(_http())
    tool = McpToolDefinition.objects.get(name="weather")
    tool.description = "Our words."
    tool.save()
    assert _load(_http(title="Weather")).kept == ["weather"]
    tool.refresh_from_db()
    assert (tool.description, tool.title) == ("Our words.", "")
    assert _load(_http(title="Weather"), overwrite=True).changed == ["weather"]
    tool.refresh_from_db()
    assert (tool.description, tool.title) == ("Say how the weather is.", "Weather")


def test_a_tool_of_another_source_is_kept() -> None:
    _load(_http())
    assert _load(_http(title="Weather"), reason="pack y").kept == ["weather"]


def test_switches_of_an_existing_tool_are_the_operators() -> None:
    _load(_http(enabled=True, groups=["Staff"]))
    tool = McpToolDefinition.objects.get(name="weather")
    tool.enabled = False
    tool.save(update_fields=["enabled"])
    tool.groups.clear()
    assert _load(_http(enabled=True, groups=["Staff"])).unchanged == ["weather"]
    tool.refresh_from_db()
    assert not tool.enabled
    assert _load(_http(enabled=True, groups=["Staff"]), overwrite=True).changed == ["weather"]
    tool.refresh_from_db()
    assert tool.enabled
    assert [group.name for group in tool.groups.all()] == ["Staff"]


def test_nothing_is_loaded_when_one_entry_is_refused() -> None:
    report = _load(_python(), _http(inputSchema={"type": "array"}))
    assert [name for name, _ in report.refused] == ["weather"]
    assert report.refused[0][1].startswith("inputSchema: ")
    assert not report.created
    assert not McpToolDefinition.objects.exists()


@pytest.mark.parametrize(
    ("entry", "label", "field"),
    [
        (7, "tools[0]", "it must be an object"),
        ({}, "tools[0]", "backend"),
        (_http(nmae="x"), "tools[0]", "nmae"),
        (_http(name=""), "", "name"),
        (_http(name="two words"), "two words", "name"),
        (_http(description=7), "tools[0]", "description"),
        (_http(timeout_seconds=True), "tools[0]", "timeout_seconds"),
        (_http(timeout_seconds=-1), "weather", "timeout_seconds"),
        (_http(enabled="yes"), "tools[0]", "enabled"),
        (_http(groups=[1]), "tools[0]", "groups"),
        (_http(backend="magic"), "weather", "backend"),
        (_http(configuration={"method": "GET", "url": "ftp://x"}), "weather", "configuration"),
        (_python(configuration={"function": "os:system"}), "tools[0]", "configuration"),
        (_python(configuration={}), "tools[0]", "configuration"),
        (_http(read_only=True, destructive=True), "weather", "__all__"),
    ],
)
def test_a_refusal_names_the_entry_and_the_field(entry: Any, label: str, field: str) -> None:
    [(name, why), *_] = _load(entry).refused
    assert name == label
    assert why.startswith(field)


def _offers(**more: Any) -> dict[str, Any]:
    return {
        "format": bundle.FORMAT,
        "resources": [
            {"uri": "docs://start", "name": "start", "content": "Begin.", "groups": ["Staff"], **more},
            {"function": f"{FIXTURES}.offers:template_data"},
        ],
        "prompts": [{"name": "greet", "messages": [{"role": "user", "content": "Hello"}]}],
    }


def test_an_app_that_is_a_single_module_is_no_pack(settings: Any) -> None:
    settings.MCPHUB_APPS = ["json.decoder"]
    assert "json.decoder" not in bundle.packs()


def test_an_app_with_a_bundle_is_a_pack_of_its_name(settings: Any) -> None:
    with pytest.raises(LookupError):
        bundle.read_pack(FIXTURES)
    settings.MCPHUB_APPS = (FIXTURES, "tests.clients")
    assert bundle.packs() == ["bitbucket", "starter", "transcript", FIXTURES]
    report = bundle.load(bundle.read_pack(FIXTURES), reason=f"pack {FIXTURES}")
    assert report.refused == []
    assert "test_simple_text" in report.created


def test_resources_and_prompts_travel_whole() -> None:
    document = _offers()
    assert bundle.load(document, reason="pack x").created == ["docs://start", "test://template/{id}/data", "greet"]
    resource = McpResource.objects.get(uri="docs://start")
    assert [group.name for group in resource.groups.all()] == ["Staff"]
    assert bundle.load(document, reason="pack x").unchanged == ["docs://start", "test://template/{id}/data", "greet"]
    dumped = bundle.dump()
    McpResource.objects.all().delete()
    McpPrompt.objects.all().delete()
    assert len(bundle.load(dumped, reason="bundle all.json").created) == 3
    assert bundle.dump() == dumped


def test_a_resource_follows_its_source_until_somebody_edits_it() -> None:
    bundle.load(_offers(), reason="pack x")
    assert bundle.load(_offers(content="New."), reason="pack x").changed == ["docs://start"]
    assert bundle.load(_offers(content="Other."), reason="pack y").kept == ["docs://start"]
    resource = McpResource.objects.get(uri="docs://start")
    resource.content = "Ours."
    resource.save()
    assert bundle.load(_offers(content="Newer."), reason="pack x").kept == ["docs://start"]
    assert bundle.load(_offers(content="Newer.", enabled=False), reason="pack x", overwrite=True).changed
    resource.refresh_from_db()
    assert (resource.content, resource.enabled) == ("Newer.", False)


@pytest.mark.parametrize(
    ("kind", "entry", "label", "field"),
    [
        ("resources", 7, "resources[0]", "it must be an object"),
        ("resources", {"uri": "x://a"}, "resources[0]", "name"),
        ("resources", {"uri": "x://a", "name": "a", "text": "b"}, "resources[0]", "text"),
        ("resources", {"uri": "relative", "name": "a"}, "relative", "uri"),
        ("resources", {"uri": "x://a", "name": "a", "mimeType": "text"}, "x://a", "mimeType"),
        ("resources", {"uri": "x://a", "name": "a", "content": 7}, "resources[0]", "content"),
        ("resources", {"function": "os:system"}, "resources[0]", "function"),
        ("prompts", {"name": "a"}, "a", "__all__"),
        ("prompts", {"name": "a", "messages": [{"role": "x", "content": ""}]}, "a", "messages"),
        ("prompts", {"name": "a", "groups": [1]}, "prompts[0]", "groups"),
    ],
)
def test_a_refused_resource_or_prompt_is_named(kind: str, entry: Any, label: str, field: str) -> None:
    [(name, why), *_] = bundle.load({"format": bundle.FORMAT, kind: [entry]}, reason="pack x").refused
    assert name == label
    assert why.startswith(field)
    assert not McpResource.objects.exists()


def test_the_same_name_twice_is_refused() -> None:
    assert _load(_python(), _python()).refused == [("echo", "name: the bundle has this tool twice.")]


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"tools": []},
        {"format": "mcphub-bundle/2", "tools": []},
        {"format": bundle.FORMAT},
        {"format": bundle.FORMAT, "tools": [], "x": 1},
    ],
)
def test_a_document_that_is_no_bundle_is_refused(document: Any) -> None:
    [(name, _)] = bundle.load(document, reason="pack x").refused
    assert name == "bundle"


def test_a_dump_names_secrets_without_containing_them_and_loads_again() -> None:
    secret = Secret(name="weather_key", origins="weather.example", users="tool:weather")
    secret.set_value("hunter2-hunter2")
    secret.save()
    assert _load(_python(), _http(groups=["Staff"], calls_per_minute=9)).missing_secrets == []
    dumped = bundle.dump()
    assert "hunter2" not in str(dumped)
    assert "{secret:weather_key}" in str(dumped)
    assert dumped["tools"][1]["groups"] == ["Staff"]
    assert bundle.load(dumped, reason="bundle all.json", overwrite=True).unchanged[:2] == ["echo", "weather"]


def test_secrets_that_are_not_there_yet_are_named() -> None:
    assert _load(_http()).missing_secrets == ["weather_key"]


@pytest.mark.parametrize("pack", bundle.packs())
def test_every_pack_that_ships_loads(pack: str) -> None:
    report = bundle.load(bundle.read_pack(pack), reason=f"pack {pack}")
    assert not report.refused
    assert report.created
