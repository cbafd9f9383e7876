"""The hub's entry points, for the rig of spoilt requests: what a good request is there, and how answers come."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.rigs.judging import Wrong, judge_frame, judge_message, judge_rest, judge_rpc
from tests.rigs.mutating import Call, Header, Mutator
from tests.rigs.raw import Answer, Broken, Connection
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.piped import beside
from tests.wire.speech import META, MODERN, Speaker, hello, request

HANDSHAKES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
_REOPEN_EVERY = 250

METHODS: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"name": "echo", "arguments": {"text": "a"}}),
    ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2.5}, "_meta": {"progressToken": "p"}}),
    ("tools/call", {"name": "test_x_mcp_header", "arguments": {"region": "eu"}}),
    ("tools/call", {"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": 1}}),
    ("tools/call", {"name": "json_schema_2020_12_tool", "arguments": {"phone": "1", "contactMethod": "phone"}}),
    ("tools/list", {}),
    ("tools/list", {"cursor": "x"}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "test://static-text"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}),
]
OF_SESSIONS: list[tuple[str, dict[str, Any]]] = [
    ("ping", {}),
    ("logging/setLevel", {"level": "info"}),
    ("resources/subscribe", {"uri": "test://x"}),
    ("tools/call", {"name": "echo", "arguments": {"text": "a"}, "task": {"ttl": 1000}}),
    ("tasks/get", {"taskId": "x"}),
    ("tasks/result", {"taskId": "x"}),
    ("tasks/cancel", {"taskId": "x"}),
    ("tasks/list", {}),
    ("notifications/initialized", {}),
    ("notifications/cancelled", {"requestId": 1, "reason": "x"}),
    ("notifications/progress", {"progressToken": 1, "progress": 1}),
]
OF_NOBODY: list[tuple[str, dict[str, Any]]] = [
    ("server/discover", {}),
    ("tasks/get", {"taskId": "x"}),
    ("tasks/update", {"taskId": "x", "inputResponses": {"a": {"action": "accept"}}}),
    ("tools/call", {"name": "test_input_required_result_elicitation", "arguments": {}}),
    (
        "tools/call",
        {
            "name": "test_input_required_result_elicitation",
            "arguments": {},
            "requestState": "x",
            "inputResponses": {"a": {"action": "accept", "content": {}}},
        },
    ),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    ("notifications/cancelled", {"requestId": 1}),
]


@dataclass
class Tally:
    """What came of one entry point."""

    statuses: Counter[int] = field(default_factory=Counter)
    offences: list[str] = field(default_factory=list)

    def offend(self, call: Call, why: str) -> None:
        head = f"{call.method} {call.path[:80]} [{', '.join(call.how)}] {call.body[:300]!r}"
        self.offences.append(f"{why}\n    {head}\n    {[each for each in call.headers if each[0] != b'authorization']}")


class EntryPoint:
    """One entry point over HTTP: what a good request is there, and what an answer must be."""

    judge: Callable[[Call, Answer], None] = staticmethod(judge_rpc)

    def __init__(self, hub: Hub, key: str, mutator: Mutator) -> None:
        self.hub = hub
        self.mutator = mutator
        self.speaker = Speaker(hub.url, key)
        self.ids = itertools.count(1)

    def run(self, count: int, tally: Tally, half_way: Callable[[], None]) -> None:
        """Send `count` spoilt requests and judge the answers."""
        connection = Connection(self.hub.url)
        for number in range(count):
            if number % _REOPEN_EVERY == 0:
                self.begin()
            if number == count // 2:
                half_way()
            call = self.mutator.spoil(*self.good())
            try:
                answer = connection.ask(call)
                tally.statuses[answer.status] += 1
                self.judge(call, answer)
            except (Wrong, Broken, OSError) as wrong:
                tally.offend(call, f"{type(wrong).__name__}: {wrong}")
        connection.close()
        self.end(tally)

    def begin(self) -> None:
        """Called before the first request and now and then after: sessions may have been ended by then."""

    def good(self) -> tuple[str, str, list[Header], Any]:
        raise NotImplementedError

    def end(self, tally: Tally) -> None:
        self.speaker.http.close()

    def headers(self, **more: str | None) -> list[Header]:
        named = self.speaker.headers(host="127.0.0.1", **more)
        return [(name.encode(), value.encode()) for name, value in named.items()]

    def message(self, choices: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
        method, params = self.mutator.random.choice(choices)
        if method.startswith("notifications/"):
            return {"jsonrpc": "2.0", "method": method, "params": params}
        return request(method, params, id=self.mutator.random.choice([next(self.ids), f"id-{next(self.ids)}"]))

    def answer(self) -> dict[str, Any]:
        """An answer that nobody asked for."""
        id = self.mutator.random.choice([next(self.ids), "s1"])
        return self.mutator.random.choice(
            [
                {"jsonrpc": "2.0", "id": id, "result": {"roots": []}},
                {"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no"}},
            ]
        )


class Handshake(EntryPoint):
    """`/mcp` in sessions of every revision that has them."""

    def begin(self) -> None:
        self.sessions = {version: self.speaker.open_session(version) for version in HANDSHAKES}
        ended = self.speaker.open_session()
        self.speaker.http.delete("/mcp", headers=self.speaker.headers(mcp_session_id=ended))
        self.dead = ["nobody", ended]

    def good(self) -> tuple[str, str, list[Header], Any]:
        source = self.mutator.random
        version = source.choice(HANDSHAKES)
        session: str | None = self.sessions[version] if source.random() < 0.95 else source.choice(self.dead)
        draw = source.random()
        if draw < 0.1:
            body, session = hello(version, "mutations", id=next(self.ids)), None
        elif draw < 0.15:
            body = self.answer()
        elif draw < 0.2:
            return "GET", "/mcp", self.headers(mcp_session_id=session), {}
        else:
            body = self.message(METHODS + OF_SESSIONS)
        named = version if version >= "2025-06-18" or source.random() < 0.5 else None
        return "POST", "/mcp", self.headers(mcp_session_id=session, mcp_protocol_version=named), body


class Stateless(EntryPoint):
    """`/mcp` with requests that describe themselves."""

    def good(self) -> tuple[str, str, list[Header], Any]:
        body = self.message(METHODS + OF_NOBODY) if self.mutator.random.random() < 0.97 else self.answer()
        params = body.get("params", {})
        if "id" in body and "method" in body:
            capabilities = {"sampling": {}, "elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
            meta = {
                f"{META}protocolVersion": MODERN,
                f"{META}clientCapabilities": capabilities,
                f"{META}clientInfo": {"name": "mutations", "version": "1"},
                f"{META}logLevel": "info",
                "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            }
            body["params"] = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        region = params.get("arguments", {}).get("region")
        headers = self.headers(
            mcp_protocol_version=MODERN,
            mcp_method=body.get("method"),
            mcp_name=params.get("name") or params.get("uri") or params.get("taskId"),
            mcp_param_region=region,
        )
        return "POST", "/mcp", headers, body


class Sse(EntryPoint):
    """`/messages`, whose answers come on the stream of `/sse`: each must be a message with an id that was sent."""

    def begin(self) -> None:
        if getattr(self, "thread", None) is None:
            self.sent = Call("POST", "/messages", [], b"")
            self.heard: list[str] = []
            self.is_open = threading.Event()
            self.thread = threading.Thread(target=self._listen, daemon=True)
            self.thread.start()
            assert self.is_open.wait(PATIENCE_SECONDS), "The stream did not open."
            self.speaker.post(hello("2024-11-05", "mutations", id="hello"), self.path)
            self.speaker.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, self.path)

    def _listen(self) -> None:
        with Speaker(self.hub.url, self.speaker.key) as ear, ear.streaming("GET", None, "/sse") as (answer, _):
            kind = ""
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data" and kind == "endpoint":
                    self.path = value
                    self.is_open.set()
                elif name == "data":
                    self.heard.append(value)
                    if '"the-last"' in value:
                        return

    def good(self) -> tuple[str, str, list[Header], Any]:
        draw = self.mutator.random.random()
        path = self.path if draw < 0.95 else f"/messages?sessionId={self.mutator.random.choice(['', 'nobody', '%00'])}"
        body = self.answer() if draw < 0.05 else self.message(METHODS + OF_SESSIONS)
        return "POST", path, self.headers(), body

    def end(self, tally: Tally) -> None:
        self.speaker.post(request("ping", id="the-last"), self.path)
        self.thread.join(PATIENCE_SECONDS)
        if self.thread.is_alive():
            tally.offences.append("the stream fell silent")
        for line in self.heard:
            call = Call("POST", "/messages", [], json.dumps({"id": json.loads(line).get("id")}).encode())
            try:
                judge_message(call, Answer(200, {}), line.encode())
            except Wrong as wrong:
                tally.offend(call, str(wrong))
        super().end(tally)


class Remote(EntryPoint):
    """`/mcp/messages`, whose answers are events of `/mcp/events`. One request at a time: the rest is busy."""

    judge = staticmethod(judge_frame)

    def begin(self) -> None:
        if getattr(self, "thread", None) is None or not self.thread.is_alive():
            self.events: list[tuple[str, str]] = getattr(self, "events", [])
            self.is_open = threading.Event()
            self.thread = threading.Thread(target=self._listen, daemon=True)
            self.thread.start()
            assert self.is_open.wait(PATIENCE_SECONDS), "The stream did not open."

    def _listen(self) -> None:
        with Speaker(self.hub.url, self.speaker.key) as ear, ear.streaming("GET", None, "/mcp/events") as (answer, _):
            kind = ""
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data" and kind == "ready":
                    self.connection = json.loads(value)["connectionId"]
                    self.is_open.set()
                elif name == "data" and kind != "heartbeat":  # one comes where a slow machine takes long
                    self.events.append((kind, value))
                    if '"the-last"' in value:
                        return

    def good(self) -> tuple[str, str, list[Header], Any]:
        message = self.message(METHODS[:6])
        return "POST", "/mcp/messages", self.headers(), {"connectionId": self.connection, "message": message}

    def end(self, tally: Tally) -> None:
        last = {"connectionId": self.connection, "message": request("tools/list", {}, id="the-last")}
        until(lambda: self.speaker.post(last, "/mcp/messages").status_code == 202 or not self.thread.is_alive())
        self.thread.join(PATIENCE_SECONDS)
        if self.thread.is_alive():
            tally.offences.append("the stream fell silent")
        for kind, data in self.events:
            call = Call("POST", "/mcp/messages", [], b"{}")
            try:
                if kind == "message":
                    call.body = json.dumps({"id": json.loads(data).get("id")}).encode()
                    judge_message(call, Answer(200, {}), data.encode())
                else:
                    judge_frame(call, Answer(400, {"content-type": "application/json"}, data.encode()))
            except Wrong as wrong:
                tally.offend(call, f"{kind} {data[:200]}: {wrong}")
        super().end(tally)


class Stdio(EntryPoint):
    """`mcphub stdio`: each spoilt message is a line, each line that comes back a message with an id that was sent."""

    def run(self, count: int, tally: Tally, half_way: Callable[[], None]) -> None:
        for modern in (False, True):
            with beside(self.hub, MCPHUB_API_KEY=self.speaker.key or "") as pipe:
                if modern:
                    pipe.ask(pipe.modern("server/discover", id="first"))
                else:
                    pipe.shake_hands()
                sent = [self._line(modern) for _ in range(count // 2)]
                for begin in range(0, len(sent), 50):
                    pipe.say(*sent[begin : begin + 50])
                    if begin % _REOPEN_EVERY == 0:
                        ask = pipe.modern("server/discover", id=f"still-{begin}") if modern else None
                        pipe.say(ask or request("ping", {}, id=f"still-{begin}"))
                last = pipe.modern("server/discover", id="the-last") if modern else request("ping", {}, id="the-last")
                pipe.say(b"\n", last)
                assert pipe.end() == 0, pipe.log()
                self._judge_lines(pipe.rest(), sent, tally)
                if "Traceback" in pipe.log():
                    tally.offences.append(f"a traceback on standard error: {pipe.log()[-2000:]}")
        half_way()
        super().end(tally)

    def _line(self, modern: bool) -> bytes:
        body = self.message(METHODS + (OF_NOBODY[:1] if modern else OF_SESSIONS))
        if modern and "id" in body:
            meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
            body["params"] = {**body["params"], "_meta": {**meta, **body["params"].get("_meta", {})}}
        body = self.answer() if self.mutator.random.random() < 0.05 else body
        return self.mutator.spoil("POST", "", [], body).body.replace(b"\n", b" ") + b"\n"

    def _judge_lines(self, heard: list[Any], sent: list[bytes], tally: Tally) -> None:
        for value in heard:
            for message in value if isinstance(value, list) else [value]:
                call = Call("POST", "stdio", [], json.dumps({"method": "x", "id": message.get("id")}).encode())
                tally.statuses[message.get("error", {}).get("code", 0)] += 1
                try:
                    judge_message(call, Answer(200, {}), json.dumps(message).encode())
                    if message.get("error", {}).get("code") == -32603:
                        raise Wrong(f"an error of the hub's own: {message}")
                except Wrong as wrong:
                    tally.offend(call, str(wrong))
        if not any(isinstance(each, dict) and each.get("id") == "the-last" for each in heard):
            tally.offences.append("the pipe fell silent")


class Rest(EntryPoint):
    """`/api/`: reading with odd questions, writing with odd bodies."""

    judge = staticmethod(judge_rest)
    writes: list[tuple[str, str, dict[str, Any]]] = [
        ("PATCH", "/api/tool-definitions/echo/", {"title": "Echo", "reason": "r"}),
        ("PATCH", "/api/tool-definitions/add/", {"input_schema": {"type": "object", "properties": {"a": {}}}}),
        (
            "POST",
            "/api/tool-definitions/",
            {
                "name": "spoilt",
                "description": "d",
                "backend": "http",
                "input_schema": {"type": "object"},
                "backend_config": {"method": "GET", "url": "https://example.org/{a}"},
            },
        ),
        ("PATCH", "/api/error-mappings/timeout/", {"message_template": "Too slow.", "retryable": True}),
    ]
    reads = [
        "/api/invocations/",
        "/api/invocations/?limit=1",
        "/api/sessions/?state=created",
        "/api/tool-definitions/",
        "/api/tool-definitions/echo/versions/",
        "/api/error-mappings/",
        "/api/invocations/nobody/",
        "/api/none",
    ]
    odd = [
        "limit=-1",
        "limit=x",
        "cursor=%FF",
        "cursor=e30=",
        "tool=%00",
        "session=%ED%A0%80",
        "a[]=1",
        "created_after=z",
    ]

    names = ["echo", "timeout", "1", "nobody", "%00", "%ED%A0%80", "..%2F..", "x" * 3000, "-1", "None"]

    def begin(self) -> None:
        if not hasattr(self, "described"):
            document = self.speaker.http.get("/api/schema/?format=json", headers=self.speaker.headers()).json()
            self.described = [(verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs]

    def good(self) -> tuple[str, str, list[Header], Any]:
        source = self.mutator.random
        draw = source.random()
        if draw < 0.4:
            method, path = source.choice(self.described)
            path = re.sub(r"\{\w+\}", lambda _: source.choice(self.names), path)
            return method, path, self.headers(accept="application/json"), source.choice(self.writes)[2]
        if draw < 0.6:
            path = source.choice(self.reads)
            if source.random() < 0.5:
                path += ("&" if "?" in path else "?") + "&".join(source.sample(self.odd, 2))
            return "GET", path, self.headers(accept="application/json"), {}
        method, path, body = source.choice(self.writes)
        return method, path, self.headers(accept="application/json"), body


ENTRY_POINTS: dict[str, type[EntryPoint]] = {
    "handshake": Handshake,
    "stateless": Stateless,
    "sse": Sse,
    "remote": Remote,
    "stdio": Stdio,
    "rest": Rest,
}
