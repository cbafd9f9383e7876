"""The model of a demo: recorded answers, which a small server plays while the demo is filled.

No model is involved, and each answer states that. The hub takes the turns as any others: it makes the calls and
records them.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

NAME = "recorded-answers"
MARK = "Demo data, recorded; no model was asked."


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A question, the call that it leads to, and the answer to the call's result."""

    question: str
    tool: str
    arguments: dict[str, Any]
    answer: str


CONVERSATION = (
    RecordedTurn("We sold 19 tickets on Monday and 23 on Tuesday. How many is that?", "add", {"a": 19, "b": 23}, "42."),
    RecordedTurn(
        "Is it office time in Tokyo?", "current_time", {"timezone": "Asia/Tokyo"}, "The call's result says it."
    ),
)


class DemoModel:
    """Enter it: the recorded answers are served at `url`, on this machine alone."""

    def __enter__(self) -> DemoModel:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Answering)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Answering(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        finish = "stop"
        message: dict[str, Any] = {"role": "assistant", "content": MARK}
        if turn := _turn(asked["messages"]):
            message["content"] = f"{turn.answer} ({MARK})"
            if asked["messages"][-1]["role"] == "user":
                function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
                called = {"id": f"call_{turn.tool}", "type": "function", "function": function}
                message, finish = {"role": "assistant", "content": None, "tool_calls": [called]}, "tool_calls"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        body = {"id": "chatcmpl-demo", "object": "chat.completion", "created": 0, "model": NAME, "choices": [choice]}
        self._send(body)

    def _send(self, body: dict[str, Any]) -> None:
        written = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress the lines: they would appear among the hub's."""


def _turn(messages: list[dict[str, Any]]) -> RecordedTurn | None:
    """Return the turn of the last question."""
    asked = [each["content"] for each in messages if each["role"] == "user"]
    return next((turn for turn in CONVERSATION if asked and turn.question == asked[-1]), None)
