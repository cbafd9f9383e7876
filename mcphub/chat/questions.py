"""A request to `POST /api/query` or `POST /api/session`, read and checked (seed 003). Pure but for settings.

Raises ChatError `INVALID_QUERY` that names the member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from mcphub.chat import selection
from mcphub.chat.errors import ChatError
from mcphub.chat.models_conversations import MOST_MESSAGES
from sessions_app.caller import Caller
from sessions_app.protocol import json
from tools_catalog.catalog import Catalog, Tool

LOCAL = "local"
"""Of tools that the hub runs itself, which no transport leads to."""
TRANSPORTS = ("stdio", "sse", "streamable-http", LOCAL)
_MOST_METADATA_BYTES = 4096
_MOST_CONTEXT_BYTES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    content: str
    session_id: str | None = None
    provider: str | None = None
    model: str | None = None
    transport: str | None = None
    tools: tuple[str, ...] | None = None
    """Names; None: all that the caller may call."""
    stream: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A session that somebody wants."""

    provider_preference: str = ""
    max_messages: int = 20
    context: dict[str, Any] = field(default_factory=dict)


def read_question(body: dict[str, Any]) -> Question:
    known = ("content", "session_id", "provider", "model", "transport", "tools", "stream", "metadata")
    _know(body, known)
    content = body.get("content")
    if not isinstance(content, str) or not content.strip():
        raise ChatError("INVALID_QUERY", "content must be a text: what the user asks.", param="content")
    most = settings.MCPHUB_CHAT_MAX_CONTENT
    if len(content) > most:
        raise ChatError(
            "INVALID_QUERY", f"content has {len(content)} characters; {most} are the most. Ask in fewer words.",
            param="content",
        )  # fmt: skip
    tools = body.get("tools")
    if tools is not None and not (isinstance(tools, list) and all(isinstance(name, str) for name in tools)):
        raise ChatError("INVALID_QUERY", "tools must be an array of names. GET /api/tools lists them.", param="tools")
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise ChatError("INVALID_QUERY", "stream must be true or false.", param="stream")
    return Question(
        content=content, session_id=_text(body, "session_id"), provider=_text(body, "provider"),
        model=_text(body, "model"), transport=read_transport(_text(body, "transport")),
        tools=None if tools is None else tuple(tools), stream=bool(stream),
        metadata=_object(body, "metadata", _MOST_METADATA_BYTES),
    )  # fmt: skip


def read_opening(body: dict[str, Any], providers: Iterable[str]) -> Opening:
    """`providers`: what a session may prefer."""
    _know(body, ("provider_preference", "max_messages", "context"))
    preference = _text(body, "provider_preference") or ""
    known = sorted(providers)
    if preference and preference not in known:
        raise ChatError(
            "INVALID_QUERY", f"There is no provider {preference[:60]!r}. Known: {', '.join(known) or 'none'}.",
            param="provider_preference",
        )  # fmt: skip
    most = body.get("max_messages", 20)
    if isinstance(most, float) and most.is_integer():  # 20.0 is a whole number in JSON
        most = int(most)
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MOST_MESSAGES:
        raise ChatError(
            "INVALID_QUERY", f"max_messages must be a whole number from 1 to {MOST_MESSAGES}.", param="max_messages"
        )
    return Opening(
        provider_preference=preference, max_messages=most, context=_object(body, "context", _MOST_CONTEXT_BYTES)
    )


def read_transport(value: str | None) -> str | None:
    if value is not None and value not in TRANSPORTS:
        raise ChatError(
            "INVALID_QUERY", f"transport must be one of {', '.join(TRANSPORTS)}, not {value[:40]!r}.", param="transport"
        )
    return value


def transports_of(catalog: Catalog) -> Callable[[Tool], str]:
    """Give what tells the way that the hub reaches a tool: one of TRANSPORTS."""
    by_connection = {slug: spec.transport for slug, spec in catalog.upstreams.specs.items()}
    return lambda tool: by_connection.get(tool.connection or "", LOCAL)


def choose_tools(catalog: Catalog, caller: Caller, question: Question) -> list[Tool]:
    """Give the tools that the model may call: those of the question, else all that the caller may call.

    Raises ChatError `TOOL_NOT_FOUND` for one that is not there or hidden, and where they are too many.
    """
    if "tools:call" not in caller.scopes and not question.tools:
        return []
    if question.tools is None:
        chosen = selection.usable(catalog, caller)
    else:
        chosen = [tool for tool, _ in selection.select(catalog, caller, [selection.named(question.tools)]).values()]
    transport = transports_of(catalog)
    chosen = [tool for tool in chosen if question.transport in (None, transport(tool))]
    selection.need_few(len(chosen))
    return chosen


def _know(body: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in body:
        if name not in known:
            raise ChatError(
                "INVALID_QUERY", f"{name[:60]!r} is not known here. Known: {', '.join(known)}.", param=name[:60]
            )


def _text(body: dict[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise ChatError("INVALID_QUERY", f"{name} must be a text that is not empty.", param=name)
    return value


def _object(body: dict[str, Any], name: str, most: int) -> dict[str, Any]:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ChatError("INVALID_QUERY", f"{name} must be an object.", param=name)
    if len(json.dumps(value)) > most:
        raise ChatError("INVALID_QUERY", f"{name} is larger than {most} bytes as JSON.", param=name)
    return value
