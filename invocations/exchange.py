"""The input of a call: the request, and its exchange with the client.

The exchanges of MCP, which also know revision and method, are in `mcphub.server.exchange`; a call over REST, of a chat
or in the admin has one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from invocations.call.context import CallContext, InputRequester
from invocations.call.running import Watch
from invocations.call_source import NULL_CHANNEL, CallSource, ClientChannel
from invocations.configuration import Configuration
from tools_catalog.call.base import Json, ToolResult
from tools_catalog.catalog.selection import Selection
from tools_catalog.catalog.snapshot import Tool

if TYPE_CHECKING:
    from invocations.call.call import Call

Runner: TypeAlias = Callable[["Call", dict[str, Json], CallContext], Coroutine[Any, Any, ToolResult]]


@dataclass(slots=True, kw_only=True)
class CallExchange:
    """The caller, the configuration, and the channel to the client before the result."""

    source: CallSource
    configuration: Configuration
    channel: ClientChannel = NULL_CHANNEL
    progress_token: str | int | None = None
    log_level: str | None = None
    watch: Watch | None = None
    """Returns when the client has gone and its era takes that for a cancellation."""


@dataclass(slots=True, kw_only=True)
class CallRequest:
    """A request to call a tool. `name` and `arguments` are as they came."""

    name: Json
    arguments: Json
    request_id: str | int | None = None
    idempotency_key: str | None = None
    """A call with a key that its caller used before is not made again: it returns the first one's result, with
    `duplicate_of`, or DuplicateRequest if it differs.
    """
    meta: Mapping[str, Json] | None = None
    selection: Selection | None = None
    """Where the tool is looked for; None: in the whole catalogue."""
    check: Callable[[Tool], None] | None = None
    """May raise a ProtocolError for the tool found."""
    make_requester: Callable[[], InputRequester] | None = None
    """How the tool asks the client; None where nobody could answer."""
    ends_by: float | None = None
    """Moment (monotonic seconds) at which the call is given up, where that comes before the tool's own deadline."""
    is_approved: bool = False
    """The chat asked for a yes already, by the same setting, in the words of its own API."""
    round: tuple[str, str] | None = None
    """Digests of the state and of the answers with which a call goes on that asked its client; None for one that
    begins, or goes on with its approval."""
    runner: Runner | None = None
    """Runs the backend in place of `call_tool`, under the tool's own deadline however long: see tasks. Such a call may
    be answered before its outcome is there, so its intent is always recorded."""
