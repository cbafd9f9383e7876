"""Servers that break the rules in the ways that published ones do, over each transport: what the hub makes of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from backend_peers import Received, ScriptedContext, reply, serving

from sessions_app.protocol import errors
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.upstream.account import AccountRefused
from tools_catalog.upstream.client import UpstreamClient
from tools_catalog.upstream.listing import TOOL
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import ConnectionSpec, LaunchSpec
from tools_catalog.upstream.transports import reading
from tools_catalog.upstream.transports.base import OutgoingRequest, SessionLost
from tools_catalog.upstream.transports.refusals import TransportRefusal
from tools_catalog.upstream.transports.shared import SharedStream

GOOD = {"content": [{"type": "text", "text": "good"}]}
ECHO = {"name": "echo", "inputSchema": {"type": "object"}}
Answer = Callable[[dict[str, Any]], bytes]


class Caller(ScriptedContext):
    log_level = None


class Odd:
    """A server with sessions whose answers to some methods are not as they should be."""

    def __init__(self, session: str = "", **odd: Answer) -> None:
        self.session = session
        self.odd = {name.replace("_", "/"): answer for name, answer in odd.items()}
        self.capabilities: Any = {"tools": {}}
        self.seen: list[str] = []

    def __call__(self, request: Received, writer: Any) -> None:
        if request.method != "POST":
            writer.write(reply(405))
            return
        asked = json.loads(request.body)
        method = asked.get("method", "")
        self.seen.append(method)
        if (answer := self.odd.get(method)) is not None:
            writer.write(answer(asked))
        elif method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": self.capabilities, "serverInfo": {"name": "n"}}
            named = {"Mcp_Session_Id": self.session} if self.session else {}
            writer.write(answered(asked, result, **named))
        elif method == "tools/list":
            writer.write(answered(asked, {"tools": [ECHO]}))
        elif method in ("tools/call", "ping"):
            writer.write(answered(asked, GOOD))
        elif "id" not in asked:
            writer.write(reply(202))
        else:
            writer.write(answered(asked, None, error={"code": -32601, "message": "Method not found"}))


def message(asked: dict[str, Any], result: Any = GOOD, **members: Any) -> dict[str, Any]:
    base = {"jsonrpc": "2.0", "id": asked.get("id")}
    return {**base, **({} if result is None else {"result": result}), **members}


def answered(asked: dict[str, Any], result: Any = GOOD, *, error: Any = None, **headers: str) -> bytes:
    found = message(asked, result, **({"error": error} if error else {}))
    return reply(200, json.dumps(found).encode(), "application/json", **headers)


def plain(document: Any, kind: str = "application/json") -> bytes:
    return reply(200, document if isinstance(document, bytes) else json.dumps(document).encode(), kind)


def events(*blocks: bytes) -> bytes:
    return reply(200, b"".join(block + b"\n\n" for block in blocks), "text/event-stream")


def data(document: Any) -> bytes:
    return b"data: " + json.dumps(document).encode()


def used(server: Any, use: Callable[[UpstreamClient], Any], account: Any = None, **members: Any) -> Any:
    """Connect and use the session; return what came of it, an error as it was raised. `members` are of the spec."""

    async def run() -> Any:
        async with serving(server) as peer:
            patient = {"connect_seconds": PATIENCE_SECONDS, **members}
            spec = ConnectionSpec(id=1, slug="up", transport="streamable-http", url=f"{peer.url}/mcp", **patient)
            policy = EgressPolicy(allow=("127.0.0.1",))
            client = UpstreamClient(spec, Scrubber(lambda name, host: ""), "1", policy=policy, account=account)
            try:
                await client.open()
                return await use(client)
            except (errors.HubError, SessionLost) as error:
                return error
            finally:
                await client.close()

    return asyncio.run(run())


async def called(client: UpstreamClient) -> Any:
    return await client.request("tools/call", {"name": "echo", "arguments": {}}, Caller())


async def listed(client: UpstreamClient) -> Any:
    return await client.list_offers(TOOL), client.cut.get(TOOL, "")


# Messages that are none, or are written oddly ------------------------------------------------------------------

TAKEN: dict[str, Answer] = {
    "an event named ping before the answer": lambda m: events(b"event: ping\ndata: ping", data(message(m))),
    "a keepalive as data": lambda m: events(b"data: keepalive", data(message(m))),
    "a heartbeat of JSON": lambda m: events(data({"type": "heartbeat", "timestamp": "now"}), data(message(m))),
    "another event with a message of its own": lambda m: events(
        b"event: status\n" + data({**message(m), "result": {}}), data(message(m))
    ),
    "blank data": lambda m: events(b"data: ", data(message(m))),
    "a response to another request first": lambda m: events(data(message({"id": 999}, {})), data(message(m))),
    "the id as a text": lambda m: plain(message({"id": str(m["id"])})),
    "the id as a text in an event": lambda m: events(data(message({"id": str(m["id"])}))),
    "the id as a fraction": lambda m: plain(message({"id": float(m["id"])})),
    "an array of one": lambda m: plain([message(m)]),
    "an array with a notification": lambda m: events(
        data([{"jsonrpc": "2.0", "method": "notifications/x"}, message(m)])
    ),
    "an empty error beside the result": lambda m: plain({**message(m), "error": None}),
    "no id": lambda m: plain(message({"id": None})),
    "no jsonrpc": lambda m: plain({"id": m["id"], "result": GOOD}),
    "a byte order mark": lambda m: plain(b"\xef\xbb\xbf" + json.dumps(message(m)).encode()),
    "JSON that is called text": lambda m: plain(message(m), "text/plain; charset=utf-8"),
}


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("method", ["initialize", "tools_call"])
def test_an_answer_is_taken_however_it_is_written(kind: str, method: str) -> None:
    def answer(asked: dict[str, Any]) -> bytes:
        if method == "tools_call":
            return TAKEN[kind](asked)
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        document, good = TAKEN[kind](asked), json.dumps(GOOD).encode()
        head, _, body = document.replace(good, json.dumps(result).encode()).partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
        return b"\r\n".join([*lines, b"Content-Length: %d" % len(body)]) + b"\r\n\r\n" + body

    assert used(Odd(**{method: answer}), called) == GOOD


def test_members_of_a_result_that_are_null_are_left_out() -> None:
    empty = {"isError": None, "structuredContent": None, "_meta": None}
    assert used(Odd(tools_call=lambda m: plain(message(m, {**GOOD, **empty}))), called) == GOOD


@pytest.mark.parametrize("member", ["isError", "_meta"])
def test_members_of_a_result_that_are_of_another_kind_are_named(member: str) -> None:
    found = used(Odd(tools_call=lambda m: plain(message(m, {**GOOD, member: "yes"}))), called)
    assert isinstance(found, errors.ResultInvalid)
    assert member in str(found)


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "a number that is none": (b'{"jsonrpc":"2.0","id":%d,"result":{"x":NaN}}', "cannot be read"),
    "an integer of 81 bits": (b'{"jsonrpc":"2.0","id":%d,"result":{"x":1208925819614629174706176}}', "2^64"),
    "a name twice": (b'{"jsonrpc":"2.0","id":%d,"result":{"x":1,"x":2}}', "occurs twice"),
    "bytes that are no text": (b'{"jsonrpc":"2.0","id":%d,"result":{"x":"\xff"}}', "not UTF-8"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_answer_that_cannot_be_read_fails_its_call_and_says_why(kind: str) -> None:
    line, words = UNREADABLE[kind]
    found = used(Odd(tools_call=lambda m: plain(line % m["id"])), called)
    assert isinstance(found, errors.ResultInvalid)
    assert words in str(found)


def test_half_a_surrogate_pair_is_delivered_as_the_replacement_character() -> None:
    raw = rb'{"jsonrpc":"2.0","id":1,"result":{"a":"\ud83d","b":"\ude00!","c":"\ud83d\ude00","d":"\\ud83d"}}'
    (found,) = reading.read(raw)
    assert found["result"] == {"a": "\ufffd", "b": "\ufffd!", "c": "\U0001f600", "d": "\\ud83d"}


# One stream for all --------------------------------------------------------------------------------------------


class Pipe(SharedStream):
    """A stream whose other side writes one line at each request."""

    def __init__(self, *lines: bytes) -> None:
        super().__init__(self, 100)
        self.lines = list(lines)
        self.took: list[Any] = []

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    def abort(self) -> None: ...
    def send_soon(self, message: bytes) -> None: ...
    def lost(self, why: str) -> None: ...
    def call_at_address(self, elicitation_id: Any) -> None: ...

    async def take(self, message: Any, request: Any) -> None:
        self.took.append(message)

    async def send(self, message: bytes) -> None:
        for line in self.lines:
            for each in await self.read(line):
                await self.route(each)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"jsonrpc":"2.0","id":3,"result":{"x":NaN}}', "cannot be read"),
        (b'{"jsonrpc":"2.0","result":{"x":"\xff"},"id":3}', "not UTF-8"),
        (b'{"jsonrpc":"2.0","id":null,"result":{}}', "its id is null"),
        (b'{"jsonrpc":"2.0","result":{"x":1e999}}', "cannot be read"),
        (b'{"jsonrpc":"2.0","id":3,"result":{"x":1}', "column 41). It begins with:"),  # advice is for the sender
    ],
)
def test_a_line_that_cannot_be_read_ends_the_one_call_under_way_at_once(line: bytes, words: str) -> None:
    async def run() -> str:
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(errors.ResultInvalid) as failed:
                await Pipe(b"Listening on stdio", b'{"level":"info"}', line).exchange(OutgoingRequest(3, "ping", {}))
            return str(failed.value)

    assert words in asyncio.run(run())


@pytest.mark.parametrize(
    "line",
    [
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":3,"result":{"a":1}}',
        b'{"jsonrpc":"2.0","id":"3","result":{"a":1}}',
        b'[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":3.0,"result":{"a":1}}]',
    ],
)
def test_a_line_is_read_as_over_http(line: bytes) -> None:
    async def run() -> Any:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await Pipe(line).exchange(OutgoingRequest(3, "ping", {}))

    assert asyncio.run(run())["result"] == {"a": 1}


@pytest.mark.parametrize(
    "line",
    [
        b'Debugger attached.{"jsonrpc":"2.0","id":3,"result":{"a":1}}',
        b'\x1b[2m10:02\x1b[0m sends { "jsonrpc":"2.0","id":3,"result":{"a":1}}\r\n',
        b'answers {"jsonrpc":"2.0","id":3,"result":{"a":"cut off...',
        b'[info] received {"jsonrpc":"2.0","id":3,"method":"ping"} gives {"result":1}',
        b'takes {"jsonrpc":"2.0","id":3,"method":"ping"}',
    ],
)
def test_a_line_of_a_log_fails_no_call_and_an_answer_at_its_end_is_one(line: bytes) -> None:
    async def run() -> tuple[Any, list[Any]]:
        pipe = Pipe(line, b'{"jsonrpc":"2.0","id":3,"result":{"a":1}}')
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await pipe.exchange(OutgoingRequest(3, "ping", {}))), pipe.took

    answer, took = asyncio.run(run())
    assert answer["result"] == {"a": 1}
    assert took == []  # nothing that a log quotes was taken for the server's own request


def test_an_unreadable_line_that_names_another_call_fails_only_that_one() -> None:
    async def run() -> Any:
        pipe = Pipe(b'{"jsonrpc":"2.0","id":4,"result":{"x":NaN}}', b'{"jsonrpc":"2.0","id":3,"result":{}}')
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await pipe.exchange(OutgoingRequest(3, "ping", {}))

    assert asyncio.run(run())["result"] == {}


# Sessions that the server forgot ---------------------------------------------------------------------------------

GONE: dict[str, tuple[int, bytes]] = {
    "404 without words": (404, b""),
    "410": (410, b"gone"),
    "the TypeScript examples": (
        400,
        b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}',
    ),
    "not initialized": (
        400,
        b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}',
    ),
    "plain words": (400, b"Invalid session ID\n"),
    "no active session": (400, b'{"error":"No active session"}'),
    "a problem document": (409, b'{"title":"Conflict","detail":"The session has expired"}'),
    "a page": (500, b"<html><head><title>Unknown session</title></head></html>"),
    "an error of 500": (500, b'{"jsonrpc":"2.0","error":{"code":-32603,"message":"Session does not exist"},"id":null}'),
    "unauthorized": (401, b'{"error":"Unauthorized: Invalid session"}'),
    "unauthorized without words": (401, b""),
    "forbidden": (403, b"Session terminated"),
}


@pytest.mark.parametrize("kind", GONE)
def test_a_session_that_the_server_lost_took_no_call_whatever_it_says(kind: str) -> None:
    status, body = GONE[kind]
    server = Odd("s1", tools_call=lambda m: reply(status, body, "application/json"))
    assert isinstance(used(server, called), SessionLost)


@pytest.mark.parametrize(
    ("code", "words", "is_lost"),
    [
        (-32600, "Session not found", True),
        (-32600, "Invalid Request: missing session ID", True),
        (-32002, "Server not initialized", True),
        (-32600, "Invalid Request", False),
        (-32002, "Resource not found: session.log", False),
        (-32603, "Session not found in the browser", False),
        (-32000, "No such session", False),
    ],
)
def test_an_answer_loses_the_session_by_a_code_that_no_tool_gives(code: int, words: str, is_lost: bool) -> None:
    async def use(client: UpstreamClient) -> Any:
        with pytest.raises(SessionLost if is_lost else errors.UpstreamError) as raised:
            await called(client)
        told = raised.value.refusal if isinstance(raised.value, SessionLost) else raised.value
        return str(told), client.closed.is_set()

    server = Odd("s1", tools_call=lambda m: answered(m, None, error={"code": code, "message": words}))
    assert used(server, use) == (f"The upstream answered with error {code}: {words}", is_lost)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "nope"),
        (422, "Unexpected message, expect initialize request"),  # rmcp, the Rust SDK
        (400, "sessionId \u4e0d\u5b58\u5728"),
        (400, "Transport not found"),
        (409, "bad_session"),
    ],
)
def test_a_refusal_without_a_reason_is_the_session_s_where_a_ping_is_refused_too(status: int, words: str) -> None:
    refuse = always(reply(status, words.encode()))
    assert isinstance(used(Odd("s1", tools_call=refuse, ping=refuse), called), SessionLost)
    found = used(Odd("s1", tools_call=refuse), called)
    assert isinstance(found, errors.UpstreamError)
    assert words in str(found)


def test_a_server_that_breaks_at_all_requests_is_left_and_the_call_is_not_repeated() -> None:
    async def use(client: UpstreamClient) -> Any:
        with pytest.raises(errors.UpstreamError):
            await called(client)
        return client.closed.is_set()

    broken = always(reply(500, b"oops"))
    assert used(Odd("s1", tools_call=broken, ping=broken), use) is True


def test_an_error_of_the_tool_is_no_loss_of_the_session() -> None:
    words = {"code": -32603, "message": "Session not found in the browser"}
    server = Odd("s1", tools_call=lambda m: reply(500, json.dumps(message(m, None, error=words)).encode(), "text/json"))
    found = used(server, called)
    assert isinstance(found, errors.UpstreamError)
    assert "in the browser" in str(found)


def always(raw: bytes) -> Answer:
    return lambda asked: raw


# Negotiation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 406, 415, 422, 429, 500, 501])
def test_a_probe_that_is_refused_in_any_way_falls_back(status: int) -> None:
    server = Odd(server_discover=always(reply(status, b'{"message": "not allowed here"}', "application/json")))
    assert used(server, called) == GOOD


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "refuses the hub's credentials"),
        (403, "not allowed here"),
        (404, "Set the era of the connection"),
        (429, "takes no more requests now"),
        (500, "status 500"),
        (503, "status 503"),
    ],
)
def test_an_upstream_known_to_have_no_sessions_that_fails_is_not_taken_for_one_that_has_some(
    status: int, words: str
) -> None:
    server = Odd(server_discover=always(reply(status, b'{"message": "not allowed here"}', "application/json")))
    assert words in str(used(server, called, era="stateless"))


class NoTokens:
    """An account whose issuer does not let it in."""

    async def token(self) -> str:
        raise AccountRefused("The company does not vouch for you.")


def test_an_account_that_is_refused_is_named_where_the_upstream_is_known_to_have_no_sessions() -> None:
    found = used(Odd(), called, NoTokens(), era="stateless")
    assert str(found) == "The company does not vouch for you."


@pytest.mark.parametrize("header", ["20", "Wed, 21 Oct 2065 07:28:00 GMT"])
def test_a_limit_keeps_its_words_and_its_time(header: str) -> None:
    body = b'{"error":{"message":"Rate limit exceeded, retry in 20 s"}}'
    limited = Odd(tools_call=always(reply(429, body, "application/json", Retry_After=header)))
    found = used(limited, called)
    assert "Rate limit exceeded, retry in 20 s. Try again in " in str(found)
    assert found.was_not_made
    assert found.retry_after_seconds == (20 if header == "20" else 3600)


@pytest.mark.parametrize("session", ["", "s1"])
def test_a_limit_is_one_whatever_message_comes_with_it(session: str) -> None:
    def limited(asked: dict[str, Any]) -> bytes:
        error = message(asked, None, error={"code": -32000, "message": "Quota is spent"})
        return reply(429, json.dumps(error).encode(), "application/json", Retry_After="12")

    found = used(Odd(session, tools_call=limited), called)
    words = "The upstream takes no more requests now (status 429). It says: Quota is spent. Try again in 12 s."
    assert str(found) == words
    assert found.was_not_made
    assert found.retry_after_seconds == 12


def test_another_refusal_names_the_time_that_it_asks_for() -> None:
    found = used(
        Odd(tools_call=always(reply(503, b'{"detail":"Deploying"}', "application/json", Retry_After="7"))), called
    )
    words = "The upstream answered with status 503 and no MCP. It says: Deploying. It asks to be left alone for 7 s."
    assert str(found) == words
    assert not found.was_not_made


def test_an_answer_that_is_no_http_names_the_address_as_the_mend() -> None:
    found = used(Odd(tools_call=always(b"SSH-2.0-OpenSSH_9.6\r\n")), called)
    assert str(found) == "The upstream's answer is no HTTP. Check the address and port of the connection."


@pytest.mark.parametrize("there", ["https://elsewhere.example/mcp", "/mcp"])
def test_a_redirect_that_is_not_followed_says_where_it_leads(there: str) -> None:
    found = used(Odd(tools_call=always(reply(307, Location=there))), called)
    assert isinstance(found, errors.UpstreamError)
    assert f"sends the request on to {there}," in str(found)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":"denied","error_description":"The token has no audience"}', "The token has no audience"),
        (b'{"errors":[{"message":"first"},{"message":"second"}]}', "first"),
        (b'{"fault":{"x":1},"detail":{"reason":"deep"}}', "deep"),
        (b"<html><title>502 &amp; more</title><p>no</p>", "502 & more"),
        (b"\x00plain\x07 words\n", "plain words"),
        (b"", ""),
    ],
)
def test_the_words_of_a_refusal_are_found_in_any_shape(body: bytes, words: str) -> None:
    assert TransportRefusal(400, body).words == words


# Lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capabilities", [{"tools": []}, {"tools": True}, {"tools": [ECHO]}, {}, [], None, True])
def test_tools_are_listed_in_whatever_shape_the_capability_is(capabilities: Any) -> None:
    server = Odd()
    server.capabilities = capabilities
    assert used(server, listed) == ([ECHO], "")


def test_what_an_upstream_declares_not_to_have_is_not_asked_for() -> None:
    server = Odd()
    server.capabilities = {"prompts": {}}
    assert used(server, listed) == ([], "")
    assert "tools/list" not in server.seen


def pages(*found: dict[str, Any]) -> Answer:
    left = list(found)
    return lambda asked: answered(asked, left.pop(0) if len(left) > 1 else left[0])


TWO = {"name": "two", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    ("answer", "names", "words"),
    [
        (pages({"tools": [ECHO], "nextCursor": ""}), ["echo"], ""),
        (pages({"tools": [ECHO], "nextCursor": None}), ["echo"], ""),
        (pages({"tools": [ECHO], "nextCursor": "a"}), ["echo"], "repeat"),
        (pages({"tools": [ECHO], "nextCursor": "a"}, {"tools": [ECHO, TWO]}), ["echo", "two"], ""),
        (pages({"tools": {"0": ECHO, "2": TWO}}), ["echo", "two"], ""),
        (pages({"tools": None}), [], ""),
    ],
)
def test_pages_are_read_until_they_repeat_and_what_came_is_kept(answer: Answer, names: list[str], words: str) -> None:
    found, cut = used(Odd(tools_list=answer), listed)
    assert [tool["name"] for tool in found] == names
    assert (words in cut) if words else not cut


def test_a_page_that_fails_keeps_what_came_before_it() -> None:
    turns = iter([{"tools": [ECHO], "nextCursor": "a"}])

    def answer(asked: dict[str, Any]) -> bytes:
        page = next(turns, None)
        return answered(asked, page) if page else answered(asked, None, error={"code": -1, "message": "no more"})

    found, cut = used(Odd(tools_list=answer), listed)
    assert [tool["name"] for tool in found] == ["echo"]
    assert "no more" in cut


def test_a_program_that_is_slow_to_start_is_reported_with_its_last_line() -> None:
    async def run() -> str:
        launch = LaunchSpec(name="slow", command="/usr/bin/npx", is_unconfined=True)
        spec = ConnectionSpec(id=1, slug="up", transport="stdio", launch=launch, connect_seconds=30)
        client = UpstreamClient(spec, Scrubber(lambda name, host: ""), "1")
        client.last_words.add(b"npm warn old\nfetching packages\n")
        return str(client._failure(TimeoutError()))

    words = asyncio.run(run())
    assert "within 30 s" in words
    assert "fetching packages" in words
    assert "connect_seconds" in words


@pytest.mark.program
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("raise SystemExit(0)", "The upstream's program ended with status 0."),
        ("raise SystemExit(7)", "The upstream's program ended with status 7."),
        ("import os; os.kill(os.getpid(), 9)", "The upstream's program was ended by SIGKILL."),
        ("import os, sys; os.close(1); sys.stdin.read()", "The upstream's program closed its standard output."),
    ],
)
def test_a_program_that_ends_as_it_begins_is_reported_with_its_end(script: str, words: str) -> None:
    async def run() -> str:
        launch = LaunchSpec(name="odd", command=sys.executable, arguments=("-c", script), is_unconfined=True)
        members = {"era": "handshake", "connect_seconds": PATIENCE_SECONDS}
        spec = ConnectionSpec(id=1, slug="up", transport="stdio", launch=launch, **members)
        client = UpstreamClient(spec, Scrubber(lambda name, host: ""), "1")
        try:
            with pytest.raises(errors.ConnectionFailed) as failed:
                await client.open()
            return str(failed.value)
        finally:
            await client.close()

    assert asyncio.run(run()) == words
