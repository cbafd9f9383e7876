"""Bytes of the chat endpoints as they come, and every rule of the OpenAI wire that they must keep.

The official clients forgive much: two ends of one stream, ids that change, events after the end. This reader forgives
nothing. It takes the standard's word for the frames and knows no hub.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import httpx2

FINISH_REASONS = {"stop", "length", "tool_calls", "content_filter"}
_DATA = re.compile(rb"data: (\S.*)")


@dataclass
class Reading:
    """One answer of the hub, whole."""

    status: int
    headers: httpx2.Headers
    body: bytes
    body_json: Any = None
    chunks: list[dict[str, Any]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    error: dict[str, Any] | None = None
    """The error that the stream ended with."""
    violations: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        if not self.chunks:
            return self.body_json["choices"][0]["message"]["content"] or ""
        deltas = [choice["delta"].get("content") or "" for chunk in self.chunks for choice in chunk["choices"]]
        return "".join(deltas)

    @property
    def usage(self) -> dict[str, int] | None:
        source = self.chunks[-1] if self.chunks else self.body_json
        found: dict[str, int] | None = source.get("usage")
        return found

    @property
    def finish(self) -> str:
        choices = self.body_json["choices"] if not self.chunks else [c for k in self.chunks for c in k["choices"]]
        return str(next(each["finish_reason"] for each in choices if each["finish_reason"]))


def read(client: httpx2.Client, body: dict[str, Any], headers: dict[str, str] | None = None) -> Reading:
    """POST a chat completion and read all that comes; `violations` says what is wrong with it."""
    with client.stream("POST", "/chat/completions", json=body, headers=headers) as answer:
        raw = answer.read()
    reading = Reading(answer.status_code, answer.headers, raw)
    judge = _Judge(reading, body)
    if answer.status_code != 200:
        judge.refusal()
    elif body.get("stream"):
        judge.stream()
    else:
        judge.whole()
    return reading


class _Judge:
    def __init__(self, reading: Reading, request: dict[str, Any]) -> None:
        self._reading = reading
        self._request = request

    def _must(self, holds: object, rule: str) -> bool:
        if not holds:
            self._reading.violations.append(rule)
        return bool(holds)

    def refusal(self) -> None:
        reading = self._reading
        self._must(reading.status >= 400, "an answer is 200 or an error")
        self._must(reading.headers.get("x-request-id"), "an error has an x-request-id")
        if self._must(_media_type(reading) == "application/json", "an error is JSON"):
            reading.body_json = json.loads(reading.body)
            self._error(reading.body_json)
        if reading.status in (429, 503):
            after = reading.headers.get("retry-after", "")
            told = reading.headers.get("x-should-retry") == "false" or (after.isdigit() and int(after) >= 1)
            self._must(told, "429 and 503 say when to retry, or not to")

    def _error(self, body: Any) -> None:
        error = body.get("error") if isinstance(body, dict) else None
        if self._must(isinstance(error, dict), "an error stands under `error`"):
            members = {"message", "type", "param", "code"}
            self._must(members <= error.keys(), "an error has message, type, param and code")
            self._must(isinstance(error.get("message"), str) and error["message"], "an error says something")
            self._must(isinstance(error.get("type"), str), "an error has a type")
            self._must("Traceback" not in json.dumps(error), "no traceback")

    def whole(self) -> None:
        reading = self._reading
        self._must(_media_type(reading) == "application/json", "an answer is JSON")
        self._must(reading.headers.get("x-request-id"), "an answer has an x-request-id")
        body = reading.body_json = json.loads(reading.body)
        self._envelope(body, "chat.completion")
        if self._must(len(body.get("choices", [])) == 1, "one choice"):
            choice = body["choices"][0]
            message = choice.get("message", {})
            self._must(choice.get("index") == 0, "the choice has index 0")
            self._must(choice.get("finish_reason") in FINISH_REASONS, "a known finish_reason")
            self._must(message.get("role") == "assistant", "the assistant speaks")
            self._must("content" in message, "content is there, if only null")
            self._calls(message.get("tool_calls"), choice.get("finish_reason"))
        self._must("usage" in body, "usage is there, if only null")
        self._usage(body.get("usage"))

    def stream(self) -> None:
        reading = self._reading
        self._must(_media_type(reading) == "text/event-stream", "a stream is text/event-stream")
        self._must(reading.headers.get("x-request-id"), "a stream has an x-request-id")
        self._must("no-cache" in reading.headers.get("cache-control", ""), "a stream is not cached")
        events = self._events()
        self._must(events, "a stream says something")
        for at, event in enumerate(events):
            is_last = at == len(events) - 1
            if event == b"[DONE]":
                self._must(is_last, "nothing comes after [DONE]")
            elif b'"error"' in event and "error" in (parsed := json.loads(event)):
                self._error(parsed)
                self._must(is_last, "nothing comes after an error")
                reading.error = parsed.get("error")
            else:
                reading.chunks.append(json.loads(event))
        if reading.error is None:
            self._must(events and events[-1] == b"[DONE]", "a stream ends with [DONE]")
        self._chunks()

    def _events(self) -> list[bytes]:
        """Take the frames apart as strictly as the hub writes them: one line `data: …`, an empty line."""
        events = []
        raw = self._reading.body
        self._must(b"\r" not in raw, "lines end with LF")
        self._must(raw.endswith(b"\n\n"), "the last frame is whole")
        for frame in raw.split(b"\n\n")[:-1]:
            if frame.startswith(b":"):
                self._must(b"\ndata" not in frame, "a comment is a frame of its own")
                self._reading.comments.append(frame[1:].strip().decode())
            elif (found := _DATA.fullmatch(frame)) is not None:
                events.append(found[1])
            else:
                self._must(False, f"a frame is a comment or data, not {frame[:60]!r}")
        return events

    def _chunks(self) -> None:
        chunks = self._reading.chunks
        for chunk in chunks:
            self._envelope(chunk, "chat.completion.chunk")
        self._must(len({(c.get("id"), c.get("created"), c.get("model")) for c in chunks}) <= 1, "constant id and model")
        deltas = [choice for chunk in chunks for choice in chunk.get("choices", [])]
        if deltas:
            self._must(deltas[0]["delta"].get("role") == "assistant", "the first delta names the role")
            self._must(all("role" not in each["delta"] for each in deltas[1:]), "the role is named once")
        self._must(all(each.get("index") == 0 for each in deltas), "the choice has index 0")
        reasons = [each["finish_reason"] for each in deltas if each.get("finish_reason") is not None]
        if self._reading.error is None and self._must(len(reasons) == 1, f"one finish_reason, not {reasons}"):
            self._must(reasons[0] in FINISH_REASONS, "a known finish_reason")
            self._must(deltas[-1]["finish_reason"] is not None, "nothing comes after the finish_reason")
        self._calls(joined(chunks), reasons[0] if reasons else None)
        self._stream_usage(chunks)

    def _stream_usage(self, chunks: list[dict[str, Any]]) -> None:
        wanted = (self._request.get("stream_options") or {}).get("include_usage")
        if wanted and self._reading.error is None:
            self._must(all("usage" in chunk for chunk in chunks), "each chunk has a usage where it was asked for")
            self._must(all(chunk["usage"] is None for chunk in chunks[:-1]), "usage is told once")
            self._must(chunks and chunks[-1].get("choices") == [], "usage comes in a chunk of its own")
            self._usage(chunks[-1].get("usage") if chunks else None)
        elif not wanted:
            self._must(all("usage" not in chunk for chunk in chunks), "no usage where none was asked for")

    def _envelope(self, body: dict[str, Any], kind: str) -> None:
        self._must(body.get("object") == kind, f"the object is a {kind}")
        self._must(str(body.get("id")).startswith("chatcmpl-"), "the id starts with chatcmpl-")
        self._must(isinstance(body.get("created"), int), "created is a whole number")
        self._must(body.get("model"), "the model is named")
        self._must(isinstance(body.get("choices"), list), "choices are a list")

    def _usage(self, usage: Any) -> None:
        if usage is not None:
            names = ("prompt_tokens", "completion_tokens", "total_tokens")
            if self._must(all(isinstance(usage.get(name), int) for name in names), "usage is three numbers"):
                self._must(usage[names[0]] + usage[names[1]] == usage[names[2]], "usage adds up")

    def _calls(self, calls: Any, finish: str | None) -> None:
        """Only calls of the client's own functions come out, and the reason says so."""
        own = {each["function"]["name"] for each in self._request.get("tools", []) if each.get("type") == "function"}
        self._must((finish == "tool_calls") == bool(calls), "finish_reason is tool_calls exactly where calls are")
        calls = calls or []
        for call in calls:
            self._must(call["function"]["name"] in own, "no call of the hub's own tools comes out")
            self._must(call.get("type") == "function" and call.get("id"), "a call has an id and a type")
        self._must(len({call.get("id") for call in calls}) == len(calls), "ids of calls differ")


def joined(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put the calls of a stream together, as a client does."""
    calls: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for choice in chunk.get("choices", []):
            for delta in choice["delta"].get("tool_calls") or []:
                function = delta.get("function", {})
                if delta["index"] not in calls:
                    calls[delta["index"]] = {**delta, "function": {"arguments": "", **function}}
                else:
                    calls[delta["index"]]["function"]["arguments"] += function.get("arguments", "")
    return [calls[at] for at in sorted(calls)]


def _media_type(reading: Reading) -> str:
    return str(reading.headers.get("content-type", "")).partition(";")[0].strip()
