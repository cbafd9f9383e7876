"""Calls that ask their client for input, as both eras' clients make and answer them."""

from __future__ import annotations

from typing import Any

from tests.wire.speech import META, Speaker, error_of, request

ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}

NAMED = {"action": "accept", "content": {"username": "ada", "email": "a@example.org"}}


def answer_to(asked: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


def calling(speaker: Speaker, session: str, tool: str, arguments: Any = None, id: Any = None) -> Any:
    """Call a tool in a session; give the stream of its events."""
    body = request("tools/call", {"name": tool, "arguments": arguments or {}}, id)
    return speaker.streaming("POST", body, mcp_session_id=session)


def modern_call(speaker: Speaker, tool: str, arguments: Any = None, *, can: Any = ALL, **more: Any) -> Any:
    params = {"name": tool, "arguments": arguments or {}, **more, "_meta": {f"{META}clientCapabilities": can}}
    return speaker.modern("tools/call", params)


def round_of(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    assert result["resultType"] == "input_required", result
    return result


def state_of(answer: Any) -> str:
    state: str = round_of(answer)["requestState"]
    return state


def text_of_event(event: dict[str, Any]) -> str:
    text: str = event["result"]["content"][0]["text"]
    return text


ACCEPT = {"action": "accept"}

COMPLETE = "notifications/elicitation/complete"


def demanded(answer: Any) -> dict[str, Any]:
    """The one elicitation in the error -32042."""
    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (200, -32042)
    assert error["data"]["errorCode"] == "url_elicitation_required"
    (one,) = error["data"]["elicitations"]
    assert (one["mode"], one.keys()) == ("url", {"mode", "message", "url", "elicitationId"})
    found: dict[str, Any] = one
    return found
