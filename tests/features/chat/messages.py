"""Messages of a conversation, as a provider's wire has them."""

from __future__ import annotations

from typing import Any


def user(text: str = "?") -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str = "!") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls(*ids: str, text: str | None = None) -> dict[str, Any]:
    made = [{"id": id_, "type": "function", "function": {"name": "add", "arguments": "{}"}} for id_ in ids]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(id_: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": "5"}
