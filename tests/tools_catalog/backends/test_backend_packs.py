"""The packs that ship with the hub: what they list exists, and answers as promised."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module, resources
from typing import Any

import jsonschema
import pytest
from backend_peers import Received, Script, ScriptedContext, always, reply, serving

from sessions_app.protocol import errors
from tests.servers import FIXTURES
from tools_catalog.backends import python
from tools_catalog.call.base import NOTHING, ToolResult
from tools_catalog.egress import guard as egress
from tools_catalog.packs.starter.html_text import readable

STARTER = "tools_catalog.packs.starter.tools"
CONFORMANCE = f"{FIXTURES}.tools"


def call(reference: str, context: ScriptedContext | None = None, **arguments: Any) -> ToolResult:
    python.discover(["starter"])
    import_module(CONFORMANCE)
    backend = python.PythonBackend(reference)
    result = asyncio.run(backend.call(arguments, context or ScriptedContext()))
    schema = python.definition(reference).get("outputSchema")
    if schema is not None:
        jsonschema.validate(result.structured, schema)
    return result


def text_of(result: ToolResult) -> str:
    return result.content[0]["text"]


@pytest.mark.parametrize("module", [STARTER, CONFORMANCE])
def test_bundle_lists_exactly_the_pack_s_tools(module: str) -> None:
    package = import_module(module).__package__
    assert package is not None
    bundle = json.loads((resources.files(package) / "bundle.json").read_bytes())
    assert bundle["format"] == "mcphub-bundle/1"
    listed = [entry["configuration"]["function"] for entry in bundle["tools"] if entry["backend"] == "python"]
    own = {reference for reference in listed if reference.startswith(f"{package}.")}
    assert own == {reference for reference in python.registry if reference.startswith(f"{package}.")}
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("module", [STARTER, CONFORMANCE])
def test_every_tool_has_words_and_valid_schemas(module: str) -> None:
    python.discover(["starter"])
    import_module(CONFORMANCE)
    package = module.rpartition(".")[0]
    for reference in [key for key in python.registry if key.startswith(f"{package}.")]:
        given = python.definition(reference)
        assert given["description"]
        assert given["title"]
        for name in ("inputSchema", "outputSchema"):
            if name in given:
                assert given[name]["type"] == "object"
                jsonschema.Draft202012Validator.check_schema(given[name])


def test_add_gives_the_bare_number_and_the_wrapped_value() -> None:
    result = call(f"{STARTER}:add", a=19, b=23)
    assert text_of(result) == "42"
    assert result.structured == {"result": 42}
    assert text_of(call(f"{STARTER}:add", a=0.5, b=1)) == "1.5"


def test_add_beyond_all_numbers_is_a_failure_in_words() -> None:
    with pytest.raises(errors.ExecutionError, match="too large"):
        call(f"{STARTER}:add", a=1e308, b=1e308)


def test_echo_repeats() -> None:
    result = call(f"{STARTER}:echo", text="ä\n{}")
    assert text_of(result) == "ä\n{}"
    assert result.structured is NOTHING


def test_current_time_names_its_offset() -> None:
    assert call(f"{STARTER}:current_time").structured["utc_offset"] == "+00:00"
    tokyo = call(f"{STARTER}:current_time", timezone="Asia/Tokyo").structured
    assert tokyo["utc_offset"] == "+09:00"
    assert tokyo["iso"].endswith("+09:00")


@pytest.mark.parametrize("zone", ["Mars/Base", "../../etc/passwd", "/etc/localtime", "", "Europe", "a\x00b"])
def test_unknown_time_zone_is_a_failure_in_words(zone: str) -> None:
    with pytest.raises(errors.ExecutionError, match="IANA"):
        call(f"{STARTER}:current_time", timezone=zone)


def fetch(script: Script, **arguments: Any) -> ToolResult:
    python.discover(["starter"])

    async def go() -> ToolResult:
        async with serving(script) as peer:
            try:
                backend = python.PythonBackend(f"{STARTER}:fetch_url")
                return await backend.call({"url": f"{peer.url}/page", **arguments}, ScriptedContext())
            finally:
                await egress.close_shared_client()

    return asyncio.run(go())


HTML = b"""<!doctype html><html><head><title>T &amp; t</title><style>no{}</style></head><body>
<script>no()</script><h1>Head</h1><p>One <b>two</b>  three <a href="/next">link</a>
<a href="javascript:x">js</a><ul><li>a<li>b</ul><img alt="pic"><pre>x
y</pre></body>"""


@pytest.fixture
def _loopback_allowed(settings: Any) -> None:
    settings.MCPHUB_EGRESS_ALLOW = ("127.0.0.1",)


@pytest.mark.usefixtures("_loopback_allowed")
def test_fetched_page_is_readable_text() -> None:
    result = fetch(always(reply(200, HTML, "text/html; charset=utf-8")))
    assert result.structured["status"] == 200
    assert result.structured["truncated"] is False
    text = result.structured["text"]
    assert "T & t" in text
    assert "# Head" in text
    assert "One two three [link](http://127.0.0.1:" in text
    assert "- a\n- b" in text
    assert "js" in text
    assert "no" not in text
    assert "javascript" not in text
    assert text_of(result).startswith("HTTP 200, text/html; charset=utf-8, http://127.0.0.1:")


@pytest.mark.usefixtures("_loopback_allowed")
def test_fetched_text_is_cut_at_max_bytes() -> None:
    result = fetch(always(reply(404, b"x" * 100, "text/plain")), max_bytes=10)
    assert (result.structured["status"], result.structured["text"]) == (404, "x" * 10)
    assert result.structured["truncated"] is True


@pytest.mark.usefixtures("_loopback_allowed")
def test_fetched_binary_is_only_named() -> None:
    result = fetch(always(reply(200, b"\x00\x01", "image/png")))
    assert result.structured["text"] == "(2 bytes of image/png, not shown)"


@pytest.mark.usefixtures("_loopback_allowed")
def test_fetch_follows_no_redirect_inside() -> None:
    with pytest.raises(egress.EgressRefused):
        fetch(always(reply(302, Location="http://169.254.169.254/latest/meta-data/")))


@pytest.mark.usefixtures("_loopback_allowed")
def test_broken_site_is_a_transport_error() -> None:
    def breaks(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.close()

    with pytest.raises(errors.TransportError):
        fetch(breaks)


def test_fetch_refuses_private_addresses_and_odd_urls() -> None:
    with pytest.raises(egress.EgressRefused, match="MCPHUB_EGRESS_ALLOW"):
        fetch(always(reply()))
    for url in ("file:///etc/passwd", "http://[::1]/", "http://0x7f.1/", "nonsense", "http://a b/"):
        with pytest.raises(egress.EgressRefused):
            fetch(always(reply()), url=url)


@pytest.mark.parametrize("html", ["", "<", "<a", "<script>", "</script>x", "<a href='http://[x'>t</a>", "&#xD800;"])
def test_broken_markup_never_fails(html: str) -> None:
    assert isinstance(readable(html, "http://x/"), str)


def test_conformance_texts() -> None:
    assert text_of(call(f"{CONFORMANCE}:test_simple_text")) == "This is a simple text response for testing."
    with pytest.raises(errors.ExecutionError) as caught:
        call(f"{CONFORMANCE}:test_error_handling")
    assert str(caught.value) == "This tool intentionally returns an error for testing"


def test_conformance_content_blocks() -> None:
    assert call(f"{CONFORMANCE}:test_image_content").content[0]["mimeType"] == "image/png"
    assert call(f"{CONFORMANCE}:test_audio_content").content[0]["mimeType"] == "audio/wav"
    assert call(f"{CONFORMANCE}:test_embedded_resource").content == [
        {
            "type": "resource",
            "resource": {
                "uri": "test://embedded-resource",
                "mimeType": "text/plain",
                "text": "This is an embedded resource content.",
            },
        }
    ]
    mixed = call(f"{CONFORMANCE}:test_multiple_content_types").content
    assert [block["type"] for block in mixed] == ["text", "image", "resource"]


def test_conformance_progress_and_logging() -> None:
    context = ScriptedContext()
    call(f"{CONFORMANCE}:test_tool_with_progress", context)
    assert [entry[1:3] for entry in context.sent] == [(0, 100), (50, 100), (100, 100)]
    context = ScriptedContext()
    call(f"{CONFORMANCE}:test_tool_with_logging", context)
    assert [entry[2] for entry in context.sent] == [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ]


def test_conformance_capability_is_required() -> None:
    with pytest.raises(errors.MissingClientCapability) as caught:
        call(f"{CONFORMANCE}:test_missing_capability")
    assert caught.value.spec_data == {"requiredCapabilities": {"sampling": {}}}
    call(f"{CONFORMANCE}:test_missing_capability", ScriptedContext(client_capabilities={"sampling": {}}))


def test_conformance_header_and_schema_tools() -> None:
    import_module(CONFORMANCE)
    header = python.definition(f"{CONFORMANCE}:test_x_mcp_header")["inputSchema"]
    assert header["properties"]["region"]["x-mcp-header"] == "Region"
    schema = python.definition(f"{CONFORMANCE}:json_schema_2020_12_tool")["inputSchema"]
    assert schema["$defs"]["address"]["$anchor"] == "addressDef"
    assert {"$schema", "allOf", "if", "then", "else"} <= schema.keys()
    assert "name" in text_of(call(f"{CONFORMANCE}:json_schema_2020_12_tool", name="x", email="y"))


def test_conformance_notifications_only() -> None:
    for name in ("test_streaming_elicitation", "test_logging_tool"):
        context = ScriptedContext()
        call(f"{CONFORMANCE}:{name}", context)
        assert {entry[0] for entry in context.sent} <= {"progress", "log"}
