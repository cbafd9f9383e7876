"""A request to `POST /api/query` or `POST /api/session`, read and checked. Pure but for settings.

Raises ChatError `INVALID_QUERY` that names the member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.conf import settings

from mcphub.features.chat.engine import tool_selection
from mcphub.features.chat.errors import invalid
from mcphub.features.chat.models.conversations import MOST_MESSAGES
from sessions_app.caller import Caller
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.catalog.snapshot import Catalog, Tool

LOCAL = "local"
"""Of tools that the hub runs itself, which no transport leads to."""
TRANSPORTS = ("stdio", "sse", "streamable-http", LOCAL)
_MOST_METADATA_BYTES = 4096
_MOST_CONTEXT_BYTES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    content: str
    session_id: str | None = None
    provider: str | None = None
    model: str | None = None
    transport: str | None = None
    tools: tuple[str, ...] | None = None
    """Names; None: all that the caller may call."""
    stream: bool = False
    metadata: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A session that somebody wants."""

    provider_preference: str = ""
    max_messages: int = 20
    context: dict[str, Json] = field(default_factory=dict)


def read_query(body: dict[str, Json]) -> QueryRequest:
    known = ("content", "session_id", "provider", "model", "transport", "tools", "stream", "metadata")
    _refuse_unknown(body, known)
    content = body.get("content")
    if not isinstance(content, str) or not content.strip():
        raise invalid("content", "content must be a text: what the user asks.")
    most = settings.MCPHUB_CHAT_MAX_CONTENT
    if len(content) > most:
        raise invalid("content", f"content has {len(content)} characters; {most} are the most. Ask in fewer words.")
    tools = body.get("tools")
    if tools is not None and not (isinstance(tools, list) and all(isinstance(name, str) for name in tools)):
        raise invalid("tools", "tools must be an array of names. GET /api/tools lists them.")
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise invalid("stream", "stream must be true or false.")
    return QueryRequest(
        content=content,
        session_id=_text(body, "session_id"),
        provider=_text(body, "provider"),
        model=_text(body, "model"),
        transport=read_transport(_text(body, "transport")),
        tools=None if tools is None else tuple(tools),
        stream=bool(stream),
        metadata=_object(body, "metadata", _MOST_METADATA_BYTES),
    )


def read_session(body: dict[str, Json], providers: Iterable[str]) -> SessionRequest:
    """`providers`: the choices for a session's preference."""
    _refuse_unknown(body, ("provider_preference", "max_messages", "context"))
    preference = _text(body, "provider_preference") or ""
    known = sorted(providers)
    if preference and preference not in known:
        raise invalid(
            "provider_preference", f"There is no provider {preference[:60]!r}. Known: {', '.join(known) or 'none'}."
        )
    most = body.get("max_messages", 20)
    if isinstance(most, float) and most.is_integer():  # 20.0 is a whole number in JSON
        most = int(most)
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MOST_MESSAGES:
        raise invalid("max_messages", f"max_messages must be a whole number from 1 to {MOST_MESSAGES}.")
    return SessionRequest(
        provider_preference=preference, max_messages=most, context=_object(body, "context", _MOST_CONTEXT_BYTES)
    )


def read_transport(value: str | None) -> str | None:
    if value is not None and value not in TRANSPORTS:
        raise invalid("transport", f"transport must be one of {', '.join(TRANSPORTS)}, not {value[:40]!r}.")
    return value


def transports_of(catalog: Catalog) -> Callable[[Tool], str]:
    """Return how the hub reaches a tool: one of TRANSPORTS."""
    by_connection = {slug: spec.transport for slug, spec in catalog.upstreams.specs.items()}
    return lambda tool: by_connection.get(tool.connection or "", LOCAL)


def choose_tools(catalog: Catalog, caller: Caller, request: QueryRequest) -> list[Tool]:
    """Return the tools that the model may call: those of the request, else all that the caller may call.

    Raises ChatError `TOOL_NOT_FOUND` for one that is not there or hidden, and where they are too many.
    """
    if "tools:call" not in caller.scopes and not request.tools:
        return []
    if request.tools is None:
        chosen = tool_selection.usable(catalog, caller)
    else:
        chosen = [
            tool
            for tool, _ in tool_selection.select(
                catalog, caller, [tool_selection.tools_named(request.tools)]
            ).offered.values()
        ]
    transport = transports_of(catalog)
    chosen = [tool for tool in chosen if request.transport in (None, transport(tool))]
    tool_selection.check_count(len(chosen))
    return chosen


def _refuse_unknown(body: dict[str, Json], known: tuple[str, ...]) -> None:
    for name in body:
        if name not in known:
            raise invalid(name[:60], f"{name[:60]!r} is not known here. Known: {', '.join(known)}.")


def _text(body: dict[str, Json], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise invalid(name, f"{name} must be a text that is not empty.")
    return value


def _object(body: dict[str, Json], name: str, most: int) -> dict[str, Json]:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(name, f"{name} must be an object.")
    if len(json.dumps(value)) > most:
        raise invalid(name, f"{name} is larger than {most} bytes as JSON.")
    return value
