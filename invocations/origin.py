"""Where a call comes from: the facts that stand in every row of the audit. Built once a session or request."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from sessions_app.caller import Caller
from sessions_app.protocol import json


class Voice(Protocol):
    """How a running call speaks to its client before the answer."""

    def notify(self, method: str, params: dict[str, Any]) -> Awaitable[None]: ...

    def send(self, message: bytes) -> Awaitable[None]:
        """Send an encoded message; an empty one only keeps the connection alive."""
        ...


class Origin:
    """Caller, client and way in. Immutable."""

    __slots__ = (
        "_context",
        "_continues",
        "caller",
        "client_address",
        "client_capabilities",
        "client_name",
        "client_version",
        "columns",
        "continues",
        "handshake",
        "protocol_version",
        "session_id",
        "trace_id",
        "transport",
        "turn",
    )  # fmt: skip

    def __init__(
        self,
        *,
        caller: Caller,
        session_id: str,
        transport: str,
        protocol_version: str = "",
        client_name: str = "",
        client_version: str = "",
        client_address: str = "",
        client_capabilities: Mapping[str, Any] | None = None,
        trace_id: str = "",
        handshake: bool = False,
        continues: str | None = None,
        turn: tuple[str, str, int] | None = None,
        replay_of: str | None = None,
    ) -> None:
        self.caller = caller
        self.session_id = session_id
        self.transport = transport
        self.protocol_version = protocol_version
        self.client_name = clip(client_name, 200)
        self.client_version = clip(client_version, 100)
        self.client_address = clip(client_address, 64)
        self.client_capabilities = client_capabilities or {}
        self.trace_id = clip(trace_id, 64)
        self.handshake = handshake
        """The session is a real one: it must be live, and its request ids are used once."""
        self._continues = continues
        self.turn = turn
        """Of a chat: id of the turn, the model's id of the call, the round."""
        self.columns = (
            transport, protocol_version, caller.principal, clip(caller.label, 150), self.client_name,
            self.client_version, self.client_address, self.trace_id, continues, *(turn or (None, None, None)),
            replay_of,
        )  # fmt: skip
        """The last columns of an invocation's row."""
        self.continues = continues
        """The invocation of the first round, where this call goes on with one."""
        self._context: str | None = None

    def continuing(self, first: str) -> Origin:
        """Give the same origin for a call that goes on with what the invocation `first` began."""
        return Origin(
            caller=self.caller, session_id=self.session_id, transport=self.transport,
            protocol_version=self.protocol_version, client_name=self.client_name,
            client_version=self.client_version, client_address=self.client_address,
            client_capabilities=self.client_capabilities, trace_id=self.trace_id, handshake=self.handshake,
            continues=first,
        )  # fmt: skip

    def beyond_session(self) -> Origin:
        """Give the same origin for a call that the session's end does not end."""
        return Origin(
            caller=self.caller, session_id=self.session_id, transport=self.transport,
            protocol_version=self.protocol_version, client_name=self.client_name,
            client_version=self.client_version, client_address=self.client_address,
            client_capabilities=self.client_capabilities, trace_id=self.trace_id,
        )  # fmt: skip

    def in_turn(self, turn_id: str, tool_call_id: str, turn_round: int) -> Origin:
        """Give the same origin for a call that a model made in a turn of a chat."""
        return Origin(
            caller=self.caller, session_id=self.session_id, transport=self.transport,
            protocol_version=self.protocol_version, client_name=self.client_name,
            client_version=self.client_version, client_address=self.client_address,
            client_capabilities=self.client_capabilities, trace_id=self.trace_id, handshake=self.handshake,
            turn=(clip(turn_id, 36), clip(tool_call_id, 100), turn_round),
        )  # fmt: skip

    @property
    def context(self) -> str:
        """The same facts as JSON, kept with the envelope for the row that recovery may have to write."""
        if self._context is None:
            self._context = json.canonical(
                {
                    "transport": self.transport, "protocol_version": self.protocol_version,
                    "caller_label": clip(self.caller.label, 150), "client_name": self.client_name,
                    "client_version": self.client_version, "client_address": self.client_address,
                    "trace_id": self.trace_id,
                    **({"continues": self._continues} if self._continues else {}),
                    **dict(zip(("turn_id", "tool_call_id", "turn_round"), self.turn or (), strict=False)),
                    **({"replay_of": self.columns[-1]} if self.columns[-1] else {}),
                }
            )  # fmt: skip
        return self._context


def clip(text: str, length: int) -> str:
    """Give `text` as a database column takes it: no NUL, no lone surrogates, at most `length` characters."""
    text = text[:length]
    if "\x00" in text:
        text = text.replace("\x00", "�")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
    return text
