"""Where a call comes from (the facts that stand in every row of the audit), and the channel back to its client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from invocations.columns import INVOCATION, Row, ValueOwner, in_context
from sessions_app.caller import Caller
from sessions_app.protocol import json, jsonrpc
from sessions_app.protocol.errors import AskFailed
from sessions_app.protocol.json import Json
from sessions_app.workspaces.belonging import Workspace

_COLUMNS = INVOCATION.reader(ValueOwner.SOURCE)
_IN_CONTEXT = in_context(ValueOwner.SOURCE)


class ClientChannel:
    """How a running call speaks to its client before the result. A transport implements `send`."""

    __slots__ = ()

    async def notify(self, method: str, params: dict[str, Json]) -> None:
        await self.send(jsonrpc.encode_notification(method, params))

    async def send(self, message: bytes) -> None:
        """Send an encoded message; an empty one only keeps the connection alive."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the connection, not the call, where the client can come back for the rest."""


class NullChannel(ClientChannel):
    """For a client that receives nothing before the result: notifications are dropped, requests refused."""

    __slots__ = ()

    async def notify(self, method: str, params: dict[str, Json]) -> None:
        pass

    async def send(self, message: bytes) -> None:
        raise AskFailed("The tool asks its client, and nothing can be sent on this way before the answer.")


NULL_CHANNEL: Final = NullChannel()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallSource:
    """Caller, client and way in. Built once a session or request; `dataclasses.replace` gives one that differs."""

    caller: Caller
    session_id: str
    transport: str
    protocol_version: str = ""
    client_name: str = ""
    client_version: str = ""
    client_address: str = ""
    client_capabilities: Mapping[str, Any] = field(default_factory=dict)
    trace_id: str = ""
    """That of the client's context, or of the hub's own span where it began the trace."""
    span_id: str | None = None
    """Of the hub's span for the request; None where it is not sampled."""
    in_session: bool = False
    """The session is a real one: it must be live, and its request ids are used once."""
    continues: str | None = None
    """The invocation of the first round, where this call goes on with one."""
    turn: tuple[str, str, int] | None = None
    """Of a chat: id of the turn, the model's id of the call, the round."""
    replay_of: str | None = None
    called_by: str | None = None
    """The invocation whose tool makes this call."""
    principal: str = field(init=False)
    caller_label: str = field(init=False)
    allowed_client: str | None = field(init=False)
    turn_id: str | None = field(init=False)
    tool_call_id: str | None = field(init=False)
    turn_round: int | None = field(init=False)
    columns: Row = field(init=False)
    """Its part of an invocation's row."""
    _recovery: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        fit = object.__setattr__
        fit(self, "client_name", clip(self.client_name, 200))
        fit(self, "client_version", clip(self.client_version, 100))
        fit(self, "client_address", clip(self.client_address, 64))
        fit(self, "trace_id", clip(self.trace_id, 64))
        fit(self, "principal", self.caller.principal)
        fit(self, "caller_label", clip(self.caller.label, 150))
        client = self.caller.allowed_client
        fit(self, "allowed_client", None if client is None else clip(client, 150))
        turn_id, tool_call_id, turn_round = self.turn or (None, None, None)
        fit(self, "turn_id", None if turn_id is None else clip(turn_id, 36))
        fit(self, "tool_call_id", None if tool_call_id is None else clip(tool_call_id, 100))
        fit(self, "turn_round", turn_round)
        fit(self, "columns", _COLUMNS(self))

    @property
    def live_session_id(self) -> str | None:
        """The session that must be live when a call is recorded; None for a stateless caller."""
        return self.session_id if self.in_session else None

    @property
    def recovery_facts(self) -> str:
        """The same facts as JSON, kept with the envelope for the row that recovery may have to write."""
        if not self._recovery:
            self._recovery.append(json.canonical(_IN_CONTEXT(self.columns)))
        return self._recovery[0]


def recorded_in(source: CallSource, of_tool: Workspace | None) -> str | None:
    """Return the name of the workspace in whose record a call stands: the caller's, or the tool's."""
    return source.caller.workspace_slug or (of_tool.slug if of_tool is not None else None) or None


def clip(text: str, length: int) -> str:
    """Return `text` as a database column takes it: no NUL, no lone surrogates, at most `length` characters."""
    text = text[:length]
    if "\x00" in text:
        text = text.replace("\x00", "�")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
    return text
