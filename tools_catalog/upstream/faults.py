"""What went wrong with an upstream on the SDK's client, in the hub's own words. Imports the SDK."""

from __future__ import annotations

import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError

from sessions_app.protocol import errors
from tools_catalog.upstream import appeals, http, unreached
from tools_catalog.upstream.calls import SessionLost

_UNREADABLE = "Failed to parse JSON response: "
"""How the SDK begins to say that an answer was cut off, or is no message."""

_CLOSED = "Connection closed"
"""What the SDK says where the connection ended."""

_STREAM_ENDED = ("SSE stream ended without a response", "SSE stream ended and reconnection attempts were exhausted")
"""The same of the events that were to bring one answer."""

_STREAM_FAILED = "SSE stream failed: "
"""How it begins to say that they were not read on: too many for the hub, or one too large for the SDK."""


def of(error: MCPError, why_closed: str, remember: appeals.Remember) -> Exception:
    """Give what ended a request as ours; SessionLost where the session is gone, and the request was not taken.

    `why_closed` says why the connection ended, if it did; `remember` takes addresses that the upstream demands.
    """
    match http.own_code(error.code, error.data):
        case http.NOT_SENT:
            return errors.ConnectionFailed(error.message)
        case http.BROKEN:
            return errors.TransportError(error.message)
        case http.NO_MCP:
            return errors.UpstreamError(error.message)
        case http.SESSION_GONE:
            return SessionLost(error.message)
    if _is_closed(error):
        return errors.TransportError(f"The connection broke within the call. {why_closed}".strip())
    if error.code == types.CONNECTION_CLOSED and error.message in _STREAM_ENDED:
        return errors.TransportError("The upstream ended its answer before the result.")
    if error.code == types.CONNECTION_CLOSED and error.message.startswith(_STREAM_FAILED):
        is_too_many = error.message.endswith(http.TOO_MANY)
        return errors.TransportError(http.TOO_MANY) if is_too_many else errors.ResultInvalid(http.TOO_LARGE)
    if _is_unreadable(error):
        why = error.message.removeprefix(_UNREADABLE)
        if why in (http.TOO_SLOW, http.BROKE_OFF):
            return errors.TransportError(why)
        if why != http.TOO_LARGE:
            why = "The upstream's answer cannot be read: it is no message of MCP."
        return errors.ResultInvalid(why)
    return appeals.upstream_error(error.code, error.message, error.data, remember)


def why(error: BaseException) -> str:
    """Say in one sentence why a connection failed; nothing of it is secret."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, errors.HubError):
        return str(error)
    if isinstance(error, httpx2.HTTPStatusError):
        return f"The upstream answered with status {error.response.status_code}."
    if isinstance(error, MCPError) and _is_closed(error):
        return "The upstream closed the connection before it spoke MCP."
    if isinstance(error, MCPError) and http.own_code(error.code, error.data) is not None:
        return error.message
    if isinstance(error, MCPError) and _is_unreadable(error):
        return "The upstream answered with what is no message of MCP. Is this the address of an MCP endpoint?"
    if isinstance(error, MCPError):
        return f"The upstream refused: {error.message[:300]}"
    if isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
        return f"The command cannot be started: {error.strerror}."
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return f"The upstream cannot be reached. {unreached.reason(error)}"
    if isinstance(error, httpx2.TransportError | OSError):
        return f"The connection to the upstream broke ({type(error).__name__})."
    return f"{type(error).__name__}: {str(error)[:300]}"


def _is_closed(error: MCPError) -> bool:
    """Whether the client lost the connection. Its code for that is also what many servers use for any error."""
    return error.code == types.CONNECTION_CLOSED and error.message == _CLOSED


def _is_unreadable(error: MCPError) -> bool:
    """Whether the client could not read an answer. Its words list what each kind of message lacks, and the answer."""
    return error.code == types.PARSE_ERROR and error.message.startswith(_UNREADABLE)
