"""HTTP tools against a real server: requests as configured, answers as content, failures by their kind."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from typing import Any

import pytest
from backend_peers import Peer, Received, Script, ScriptedContext, always, reply, serving

from sessions_app.protocol import errors
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.backends.http.backend import HttpBackend, HttpConfiguration
from tools_catalog.bindings import Destination
from tools_catalog.call.base import NOTHING, ToolResult
from tools_catalog.egress import guard as egress
from tools_catalog.egress.rules import EgressPolicy

SECRETS = {"KEY": "s3cr3t-value", "BROKEN": "line\r\nbreak"}


def secret(name: str, to: Destination) -> str:
    if not to.origin.startswith("http://127.0.0.1:"):
        raise errors.ExecutionError(f"{name} is not for {to.origin}")
    return SECRETS[name]


def call(
    script: Script,
    arguments: dict[str, Any] | None = None,
    *,
    path: str = "/",
    seconds: float = PATIENCE_SECONDS,
    **more: Any,
) -> tuple[ToolResult, Peer]:
    async def go() -> tuple[ToolResult, Peer]:
        async with serving(script) as peer, egress.client(EgressPolicy(allow=("127.0.0.1",))) as client:
            configuration = HttpConfiguration.parse({"url": f"{peer.url}{path}", **more})
            backend = HttpBackend(configuration, secret=secret, client=client)
            result = await backend.call(arguments or {}, ScriptedContext(seconds=seconds))
            await backend.aclose()
            return result, peer

    return asyncio.run(go())


def test_request_carries_what_the_configuration_says() -> None:
    result, peer = call(
        always(reply(201, b'{"ok":true}', "application/json")),
        {"id": "a/b", "q": "ä&", "who": "me", "rest": [1]},
        method="POST",
        path="/v1/{id}",
        query={"q": "{q}", "none": "{none}"},
        headers={"Authorization": "Bearer {secret:KEY}", "X-Who": "{who}", "X-None": "{none}", "X-Lit": "1"},
        body="arguments",
    )
    request = peer.received[0]
    assert (request.method, request.target) == ("POST", "/v1/a%2Fb?q=%C3%A4%26")
    assert request.headers["authorization"] == "Bearer s3cr3t-value"
    assert request.headers["x-who"] == "me"
    assert request.headers["x-lit"] == "1"
    assert "x-none" not in request.headers
    assert request.headers["content-type"] == "application/json"
    assert request.body == b'{"rest":[1]}'
    assert result.structured == {"ok": True}
    assert result.content == [{"type": "text", "text": '{"ok":true}'}]


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\x00", "ключ"])
def test_header_argument_cannot_start_another_header(value: str) -> None:
    with pytest.raises(errors.ArgumentsInvalid, match="who"):
        call(always(reply()), {"who": value}, headers={"X-Who": "{who}"})


def test_secret_with_line_break_is_not_sent_and_not_shown() -> None:
    with pytest.raises(errors.ExecutionError) as caught:
        call(always(reply()), headers={"X": "{secret:BROKEN}"})
    assert "line" not in str(caught.value)


@pytest.mark.parametrize(
    "place",
    [
        {"headers": {"X": "{secret:KEY}"}},
        {"query": {"k": "{secret:KEY}"}},
        {"method": "POST", "body": {"k": "{secret:KEY}"}},
    ],
)
def test_nothing_is_sent_to_a_host_that_the_secret_is_not_for(place: dict[str, Any]) -> None:
    async def go() -> Peer:
        async with (
            serving(always(reply())) as peer,
            egress.client(EgressPolicy(allow=("127.0.0.1", "localhost"))) as client,
        ):
            url = peer.url.replace("127.0.0.1", "LocalHost")
            backend = HttpBackend(HttpConfiguration.parse({"url": url, **place}), secret=secret, client=client)
            with pytest.raises(errors.ExecutionError, match="KEY is not for http://localhost:"):
                await backend.call({}, ScriptedContext())
            return peer

    assert asyncio.run(go()).connections == 0


def test_private_address_is_refused_without_an_allow_entry() -> None:
    async def go() -> None:
        async with serving(always(reply())) as peer, egress.client(EgressPolicy()) as client:
            configuration = HttpConfiguration.parse({"url": peer.url})
            backend = HttpBackend(configuration, secret=secret, client=client)
            await backend.call({}, ScriptedContext())

    with pytest.raises(egress.EgressRefused):
        asyncio.run(go())


def test_shared_client_follows_the_settings(settings: Any) -> None:
    settings.MCPHUB_EGRESS_ALLOW = ("127.0.0.1",)

    async def go() -> Peer:
        async with serving(always(reply(200, b"1", "application/json"))) as peer:
            backend = HttpBackend(HttpConfiguration.parse({"url": peer.url}), secret=secret)
            for _ in range(3):
                await backend.call({}, ScriptedContext())
            await egress.close_shared_client()
            return peer

    assert asyncio.run(go()).connections == 1


@pytest.mark.parametrize(
    ("answer", "options", "content", "structured"),
    [
        (reply(200, b"[1, 2]", "application/json"), {}, [{"type": "text", "text": "[1,2]"}], [1, 2]),
        (reply(200, b"null", "application/hal+json"), {}, [{"type": "text", "text": "null"}], None),
        (reply(200, b'{"a":1}'), {}, [{"type": "text", "text": '{"a":1}'}], {"a": 1}),
        (reply(200, b"{broken", "application/json"), {}, [{"type": "text", "text": "{broken"}], NOTHING),
        (reply(200, b"plain"), {}, [{"type": "text", "text": "plain"}], NOTHING),
        (reply(200, b"\xe4", "text/plain; charset=latin-1"), {}, [{"type": "text", "text": "ä"}], NOTHING),
        (reply(200, b"x", "text/plain; charset=nonsense"), {}, [{"type": "text", "text": "x"}], NOTHING),
        (reply(200, b"{}", "application/json"), {"as": "text"}, [{"type": "text", "text": "{}"}], NOTHING),
        (
            reply(200, b'{"d":[{"a/b":"deep"}]}', "text/plain"),
            {"pick": "/d/0/a~1b"},
            [{"type": "text", "text": "deep"}],
            "deep",
        ),
        (
            reply(200, b"\x89PNG", "image/png"),
            {},
            [{"type": "image", "data": base64.b64encode(b"\x89PNG").decode(), "mimeType": "image/png"}],
            NOTHING,
        ),
        (
            reply(200, b"RIFF", "audio/wav"),
            {},
            [{"type": "audio", "data": base64.b64encode(b"RIFF").decode(), "mimeType": "audio/wav"}],
            NOTHING,
        ),
        (
            reply(200, b"%PDF", "application/pdf"),
            {},
            [
                {"type": "text", "text": "The service answered 4 bytes of application/pdf."},
                {
                    "type": "resource",
                    "resource": {"uri": "http://peer/", "mimeType": "application/pdf", "blob": "JVBERg=="},
                },
            ],
            NOTHING,
        ),
        (
            reply(200, b"PK", "text/plain"),
            {"as": "binary"},
            [
                {"type": "text", "text": "The service answered 2 bytes of text/plain."},
                {"type": "resource", "resource": {"uri": "http://peer/", "mimeType": "text/plain", "blob": "UEs="}},
            ],
            NOTHING,
        ),
        (
            reply(200, b'{"v":[{"a":{"b":1},"c":2},{"c":3}]}', "application/json"),
            {"pick": "/v", "fields": {"b": "/a/b", "c": "/c"}},
            [{"type": "text", "text": '[{"b":1,"c":2},{"c":3}]'}],
            [{"b": 1, "c": 2}, {"c": 3}],
        ),
        (
            reply(200, b'{"v":[{"n":"x","t":[{"k":1},{}]},{}]}', "application/json"),
            {"pick": "/v/*/t/*/k"},
            [{"type": "text", "text": "[[1]]"}],
            [[1]],
        ),
        (reply(204), {}, [{"type": "text", "text": "The service answered with status 204 and no content."}], NOTHING),
    ],
)
def test_answer_becomes_content(answer: bytes, options: Any, content: Any, structured: Any) -> None:
    result, peer = call(always(answer), response=options)
    for block in result.content:
        if block["type"] == "resource":
            block["resource"]["uri"] = block["resource"]["uri"].replace(peer.url, "http://peer")
    assert result.content == content
    assert result.structured == structured


def test_compressed_answer_is_read() -> None:
    body = gzip.compress(b'{"a":1}')
    result, _ = call(always(reply(200, body, "application/json", Content_Encoding="gzip")))
    assert result.structured == {"a": 1}


@pytest.mark.parametrize("options", [{"as": "json"}, {"pick": "/a"}])
def test_answer_that_is_not_the_promised_json_is_invalid(options: Any) -> None:
    with pytest.raises(errors.ResultInvalid):
        call(always(reply(200, b"<html>", "text/html")), response=options)


def test_missing_part_of_the_answer_is_named() -> None:
    with pytest.raises(errors.ResultInvalid, match="/a/b"):
        call(always(reply(200, b'{"a":[]}', "application/json")), response={"pick": "/a/b"})


def test_error_status_carries_a_bounded_excerpt_without_the_secret() -> None:
    body = b"denied for s3cr3t-value " + b"x" * 100_000
    with pytest.raises(errors.UpstreamError) as caught:
        call(always(reply(403, body, "text/plain")), headers={"X-Key": "{secret:KEY}"})
    assert caught.value.details["status"] == 403
    assert caught.value.details["excerpt"].startswith("denied for [secret]")
    assert len(caught.value.details["excerpt"]) <= 2048


def test_secret_repeated_by_the_service_does_not_reach_the_model() -> None:
    def echo(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(200, request.headers["x-key"].encode(), "text/plain"))

    result, _ = call(echo, headers={"X-Key": "{secret:KEY}"})
    assert result.content == [{"type": "text", "text": "[secret]"}]


def test_success_statuses_are_configured() -> None:
    result, _ = call(always(reply(404, b"gone", "text/plain")), success=["2xx", 404])
    assert result.content[0]["text"] == "gone"
    with pytest.raises(errors.UpstreamError):
        call(always(reply(200)), success=[201])


def test_answer_above_the_limit_is_invalid_and_names_the_limit() -> None:
    with pytest.raises(errors.ResultInvalid, match="1000 bytes"):
        call(always(reply(200, b"x" * 1001, "text/plain")), max_response_bytes=1000)
    result, _ = call(always(reply(200, b"x" * 1000, "text/plain")), max_response_bytes=1000)
    assert len(result.content[0]["text"]) == 1000


def test_endless_answer_is_cut_at_the_limit() -> None:
    async def pour(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    with pytest.raises(errors.ResultInvalid):
        call(pour)


def test_gzip_bomb_is_cut_after_decompression() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    with pytest.raises(errors.ResultInvalid):
        call(always(reply(200, bomb, "text/plain", Content_Encoding="gzip")))


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"])
def test_silent_server_is_a_timeout(head: bytes) -> None:
    async def stall(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.target == "/first":
            writer.write(reply())
            return
        writer.write(head)
        await writer.drain()
        await asyncio.Event().wait()

    async def go(seconds: float, **more: Any) -> None:
        async with serving(stall) as peer, egress.client(EgressPolicy(allow=("127.0.0.1",))) as client:
            # The silence comes on a connection that stands: to make one may take longer than the call has.
            first = HttpConfiguration.parse({"url": f"{peer.url}/first"})
            await HttpBackend(first, secret=secret, client=client).call({}, ScriptedContext())
            backend = HttpBackend(HttpConfiguration.parse({"url": peer.url, **more}), secret=secret, client=client)
            with pytest.raises(errors.ToolTimeout):
                await backend.call({}, ScriptedContext(seconds=seconds))

    asyncio.run(go(PATIENCE_SECONDS, timeout_seconds=0.05))
    asyncio.run(go(0.05))


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", b"garbage\r\n\r\n"])
def test_broken_connection_is_a_transport_error(answer: bytes) -> None:
    def breaks(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    with pytest.raises(errors.TransportError):
        call(breaks)


def test_damaged_compression_is_a_transport_error() -> None:
    with pytest.raises(errors.TransportError):
        call(always(reply(200, b"not gzip", "text/plain", Content_Encoding="gzip")))


def test_closed_port_is_a_failed_connection() -> None:
    async def go() -> None:
        async with serving(always(reply())) as peer:
            url = peer.url
        async with egress.client(EgressPolicy(allow=("127.0.0.1",))) as client:
            backend = HttpBackend(HttpConfiguration.parse({"url": url}), secret=secret, client=client)
            await backend.call({}, ScriptedContext())

    with pytest.raises(errors.ConnectionFailed) as caught:
        asyncio.run(go())
    assert not isinstance(caught.value, egress.EgressRefused)


def test_cancelled_call_is_cancelled() -> None:
    async def go() -> None:
        asked = asyncio.Event()

        async def stall(request: Received, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await asyncio.Event().wait()

        async with serving(stall) as peer, egress.client(EgressPolicy(allow=("127.0.0.1",))) as client:
            backend = HttpBackend(HttpConfiguration.parse({"url": peer.url}), secret=secret, client=client)
            task = asyncio.create_task(backend.call({}, ScriptedContext()))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(go())


def in_turn(*answers: bytes) -> Script:
    """Answer one request after the other; the last answer stays."""
    left = list(answers)
    return lambda request, writer: writer.write(left.pop(0) if len(left) > 1 else left[0])


def page(**members: Any) -> bytes:
    return reply(200, json.dumps(members).encode(), "application/json")


def test_pages_are_read_on_by_the_address_that_the_service_names() -> None:
    result, peer = call(
        in_turn(page(values=[{"id": 1, "x": 0}], next="?page=2&q=a"), page(values=[{"id": 2}])),
        path="/items",
        query={"q": "a"},
        pages={"items": "/values", "next": "/next"},
        response={"fields": {"id": "/id"}},
    )
    assert result.structured == {"items": [{"id": 1}, {"id": 2}], "more": False}
    assert [request.target for request in peer.received] == ["/items?q=a", "/items?page=2&q=a"]


def test_pages_are_read_on_by_a_cursor_and_end_at_their_limit() -> None:
    result, peer = call(
        in_turn(page(values=[1], at=25), page(values=[2], at=50), page(values=[3], at=75)),
        pages={"items": "/values", "cursor": "/at", "query": "start", "most": 2},
    )
    assert result.structured == {"items": [1, 2], "more": True}
    assert [request.target for request in peer.received] == ["/", "/?start=25"]


def test_pages_are_read_on_by_number_until_the_last_or_an_empty_one() -> None:
    last = {"items": "/values", "number": 1, "query": "page", "last": "/done"}
    result, peer = call(in_turn(page(values=[1], done=False), page(values=[2], done=True)), pages=last)
    assert result.structured == {"items": [1, 2], "more": False}
    assert [request.target for request in peer.received] == ["/?page=1", "/?page=2"]
    result, _ = call(in_turn(page(values=[1]), page(values=[])), pages={"items": "/values", "number": 0, "query": "p"})
    assert result.structured == {"items": [1], "more": False}


@pytest.mark.parametrize(
    "there", ["https://evil.example/items", "/other", "//evil.example/items", "http://u@127.0.0.1/", 5, "http://["]
)
def test_a_next_page_at_another_address_is_not_followed(there: Any) -> None:
    with pytest.raises(errors.ResultInvalid, match="next page"):
        call(always(page(values=[1], next=there)), path="/items", pages={"items": "/values", "next": "/next"})


def test_all_pages_together_stay_below_the_limit() -> None:
    big = page(values=["x" * 600], next="?more")
    with pytest.raises(errors.ResultInvalid, match="1000 bytes"):
        call(always(big), pages={"items": "/values", "next": "/next"}, max_response_bytes=1000)


def again(script: Script, *, safe: bool, **more: Any) -> tuple[ToolResult, Peer]:
    async def go() -> tuple[ToolResult, Peer]:
        async with serving(script) as peer, egress.client(EgressPolicy(allow=("127.0.0.1",))) as client:
            backend = HttpBackend({"url": peer.url, "retries": 2, **more}, secret=secret, client=client, retries=safe)
            try:
                return await backend.call({}, ScriptedContext(seconds=PATIENCE_SECONDS)), peer
            except errors.HubError as error:
                error.add_note(f"{len(peer.received)} requests")
                raise

    return asyncio.run(go())


def test_what_may_pass_is_tried_again_where_that_is_safe() -> None:
    script = in_turn(reply(503), reply(429, b"", None, Retry_After="0"), reply(200, b"1", "application/json"))
    result, peer = again(script, safe=True)
    assert (result.structured, len(peer.received)) == (1, 3)


@pytest.mark.parametrize(
    ("safe", "answer", "requests"),
    [(False, reply(503), 1), (True, reply(500), 1), (True, reply(503), 3), (True, reply(503, Retry_After="900"), 1)],
)
def test_nothing_is_tried_again_that_is_not_safe_or_will_not_pass(safe: bool, answer: bytes, requests: int) -> None:
    with pytest.raises(errors.UpstreamError) as caught:
        again(always(answer), safe=safe)
    assert caught.value.__notes__ == [f"{requests} requests"]


def test_basic_credentials_are_coded_and_scrubbed() -> None:
    def echo(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(200, request.headers["authorization"].encode(), "text/plain"))

    coded = base64.b64encode(SECRETS["KEY"].encode()).decode()
    result, peer = call(echo, headers={"Authorization": "Basic {basic:KEY}"})
    assert peer.received[0].headers["authorization"] == f"Basic {coded}"
    assert result.content[0]["text"] == "Basic [secret]"
