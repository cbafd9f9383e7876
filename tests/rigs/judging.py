"""What every answer to a spoilt request must be, whatever was wrong with it."""

from __future__ import annotations

import json
from typing import Any

from sessions_app.protocol import json as strict
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.jsonrpc import is_notification
from tests.rigs.mutating import Call
from tests.rigs.raw import Answer

MAPPED_503 = {"server_busy", "audit_unavailable"}
BEFORE_THE_BODY = {
    "host_refused",
    "forbidden",
    "unauthorized",
    "method_not_allowed",
    "not_acceptable",
    "unsupported_media_type",
    "payload_too_large",
    "body_timeout",
    "server_busy",
}
"""Refusals before the body is read, which so know no id. A Host header may be `invalid_request` too."""
FRAME_CODES = {"invalid_request", "unauthorized", "not_found", "timeout", "tool_error", "server_error", "server_busy"}
_ABSENT = object()
_LEAKS = (b"Traceback", b'File "/', b"site-packages", b"django.", b"sqlite3.", b"psycopg")


class Wrong(Exception):
    """The answer is not what it must be."""


def judge_status(answer: Answer) -> None:
    if answer.status >= 500 and not (answer.status == 503 and code_of(answer) in MAPPED_503):
        raise Wrong(f"status {answer.status}: {answer.body[:200]!r}")
    for leak in _LEAKS:
        if leak in answer.body:
            raise Wrong(f"the answer speaks of the inside: {answer.body[:300]!r}")


def code_of(answer: Answer) -> str:
    try:
        body = json.loads(answer.body)
        return str(body["error"].get("data", body["error"])["errorCode"])
    except (ValueError, KeyError, TypeError):
        return ""


def judge_rpc(call: Call, answer: Answer) -> None:
    """Judge an answer of an MCP endpoint; raise Wrong."""
    judge_status(answer)
    if answer.is_stream:
        for event in answer.events:
            judge_message(call, answer, event)
    elif (answer.status == 202 and not answer.body) or answer.status == 204 or call.method == "HEAD":
        if answer.body:
            raise Wrong("a body where there must be none")
    elif answer.status >= 400 and not answer.body:
        judge_unanswered(call)
    elif answer.headers.get("content-type") != "application/json":
        raise Wrong(f"Content-Type {answer.headers.get('content-type')!r}: {answer.body[:200]!r}")
    elif answer.status == 202:
        _parsed(answer.body)
    else:
        judge_message(call, answer, answer.body)


def judge_unanswered(call: Call) -> None:
    """Judge an error that is a status alone: only notifications have none in words."""
    sent = _sent(call)
    if any(isinstance(each, dict) and "method" in each and not is_notification(each) for each in _each(sent)):
        raise Wrong(f"a request without an answer: {call.body[:200]!r}")
    if not any(map(is_notification, _each(sent))):
        raise Wrong(f"no notification, and no answer: {call.body[:200]!r}")


def _each(sent: Any) -> list[Any]:
    return sent if isinstance(sent, list) else [sent]


def judge_message(call: Call, answer: Answer, raw: bytes) -> None:
    value = _parsed(raw)
    for message in value if isinstance(value, list) and value else [value]:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise Wrong(f"no JSON-RPC: {raw[:200]!r}")
        if "method" in message:
            continue
        if ("result" in message) == ("error" in message):
            raise Wrong(f"neither result nor error, or both: {raw[:200]!r}")
        if "error" in message:
            judge_error(message["error"])
        if isinstance(value, list) or isinstance(_sent(call), list):
            judge_id_of_array(call, message)
        else:
            judge_id(call, answer, message)


def judge_error(error: Any) -> None:
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        raise Wrong(f"an error without a code: {error!r}")
    sentence = error.get("message")
    if not isinstance(sentence, str) or len(sentence) < 10 or len(sentence) > 1000:
        raise Wrong(f"an error that says nothing: {error!r}")


def judge_id(call: Call, answer: Answer, message: dict[str, Any]) -> None:
    """The id of the request, where it could be read; else none, or null for revisions that want one.

    An error about an answer that nobody asked for may name it or not: it is no request.
    """
    sent = sent_id(call)
    found = message.get("id", _ABSENT)
    if found is None and (call.header(b"mcp-protocol-version") or b"") >= b"2025-11-25":
        raise Wrong("a null id for a revision that does not know it")
    if found is None or found is _ABSENT:
        early = code_of(answer) in BEFORE_THE_BODY or "Host" in str(message.get("error", {}).get("message"))
        if "result" in message or (sent is not _ABSENT and not early):
            raise Wrong(f"the id {sent!r} is not in the answer: {message!r}")
    elif found not in (sent, _answered_id(call)) or isinstance(found, bool):
        raise Wrong(f"the id {found!r} was not asked with")


def judge_id_of_array(call: Call, message: dict[str, Any]) -> None:
    """The id of one of the requests, or none."""
    sent = _sent(call)
    asked = [each.get("id") for each in sent if isinstance(each, dict)] if isinstance(sent, list) else []
    found = message.get("id")
    if found is not None and not any(type(found) is type(each) and found == each for each in asked):
        raise Wrong(f"the id {found!r} was not asked with")


def _answered_id(call: Call) -> Any:
    value = _sent(call)
    return value.get("id", _ABSENT) if isinstance(value, dict) else _ABSENT


def _sent(call: Call) -> Any:
    if call.method != "POST":
        return _ABSENT  # nobody reads the body of another method
    try:
        return strict.loads(call.body)
    except ParseError:
        return _ABSENT


def sent_id(call: Call) -> Any:
    value = _sent(call)
    if not isinstance(value, dict) or ("method" not in value and ("result" in value or "error" in value)):
        return _ABSENT
    found = value.get("id", _ABSENT)
    return found if isinstance(found, str) or type(found) is int else _ABSENT


def judge_frame(call: Call, answer: Answer) -> None:
    """Judge an answer of the remote profile: a frame with a code of its closed list; raise Wrong."""
    if answer.status in (200, 202, 204) or call.method == "HEAD":
        return
    frame = _parsed(answer.body)
    if not isinstance(frame, dict) or frame.get("code") not in FRAME_CODES or not frame.get("message"):
        raise Wrong(f"no frame: {answer.body[:200]!r}")
    if answer.status >= 500 and (answer.status, frame["code"]) != (503, "server_busy"):
        raise Wrong(f"status {answer.status}: {answer.body[:200]!r}")


_PROBLEM = {"type", "title", "status", "detail", "error"}
"""RFC 9457, section 3.1, and the code of the seeds."""


def judge_rest(call: Call, answer: Answer) -> None:
    """Judge an answer of REST; raise Wrong."""
    judge_status(answer)
    if answer.status in (204, 304) or call.method == "HEAD":
        return
    if answer.status >= 400:
        error = _parsed(answer.body)
        if not isinstance(error, dict) or set(error) != _PROBLEM or not error["error"].get("message"):
            raise Wrong(f"not the shape of an error: {answer.body[:200]!r}")
        if (error["type"], error["status"], error["detail"]) != (
            "about:blank",
            answer.status,
            error["error"]["message"],
        ):
            raise Wrong(f"a problem that contradicts itself: {answer.body[:200]!r}")
        return
    kind = answer.headers.get("content-type", "").partition(";")[0]
    for document in answer.body.splitlines() if kind == "application/jsonl" else [answer.body]:
        if kind in ("application/json", "application/jsonl"):
            _parsed(document)


def _parsed(raw: bytes) -> Any:
    try:
        return strict.loads(raw, max_depth=300)
    except ParseError as error:
        raise Wrong(f"unparsable: {raw[:200]!r} ({error})") from error
