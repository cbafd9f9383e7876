"""One call of a tool: the value that its stages pass on, and the content of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from invocations.call.running import Work
from invocations.call_source import recorded_in
from invocations.ledger.records import Key, new_invocation_id
from invocations.redaction.bodies import StoredBodies, stored_outcome
from invocations.redaction.bodies import stored as stored_bodies
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.call.noted import NOTHING_NOTED, Noted
from tools_catalog.catalog.snapshot import Tool
from tools_catalog.policy.ask import Ask

if TYPE_CHECKING:
    from invocations.exchange import CallExchange, CallRequest

_LONGEST_REQUEST_ID = 300
"""Characters of a request id that stand in its key as they are; of a longer one its digest does."""


class CallRows:
    """The content of one call's rows. It satisfies `invocations.ledger.rows.Recorded`.

    It holds neither request nor exchange: the ledger may keep it longer than they are wanted, and they are large.
    """

    __slots__ = (
        "arguments",
        "configuration",
        "digest",
        "invocation_id",
        "key",
        "noted",
        "received",
        "redactor",
        "request_json",
        "session",
        "source",
        "stored",
        "tool",
        "workspace",
    )

    def __init__(
        self, invocation_id: str, request: CallRequest, exchange: CallExchange, tool: Tool, received: float, text: str
    ) -> None:
        """`received`: seconds since the epoch. `text`: the arguments as canonical JSON."""
        self.invocation_id = invocation_id
        self.configuration = exchange.configuration
        self.source = source = exchange.source
        self.tool = tool
        self.workspace = recorded_in(source, tool.workspace)
        """The workspace of its record."""
        self.redactor = exchange.configuration.redaction.of(tool.name, tool.unchanged_definition or tool.definition)
        number = request.request_id
        self.request_json = str(number) if type(number) is int else None if number is None else json.canonical(number)
        """The client's request id as canonical JSON; with the session it is how the client names the call."""
        self.received = received
        self.session = source.live_session_id
        """A session that must be live when the call is recorded."""
        self.noted = NOTHING_NOTED
        """Notes of stages for the record."""
        self.stored: StoredBodies | None = None
        """How the bodies are recorded; None where the arguments are as they are."""
        self.arguments = self.digest = ""
        self._show(request.arguments, text)
        self.key: Key | None = None
        """The identity of a repeat: the client's own key, or else its request ID in its session."""
        if request.idempotency_key is not None:
            self.key = (f"caller:{source.principal}", request.idempotency_key, self._fingerprint())
        elif self.session is not None and self.request_json is not None:
            self.key = (f"session:{self.session}", _short(self.request_json), self._fingerprint())

    def note(self, noted: Noted) -> None:
        self.noted = noted.over(self.noted)

    def show(self, arguments: Json) -> None:
        """Let the row hold these arguments, not those that were asked with. The key stays that of the original
        request.
        """
        self._show(arguments, json.canonical(arguments))

    def stored_with(self, outcome: str) -> StoredBodies | None:
        """How the bodies are recorded once there is a result or an error; None where all are as they are."""
        if self.stored is None:
            self.stored = stored_outcome(self.arguments, outcome, self.redactor, self.configuration.redaction.longest)
        return self.stored

    @property
    def bodies(self) -> StoredBodies | None:
        """Return the record form of bodies kept beside the rows; None if nothing in them can be hidden."""
        if self.stored is None and self.redactor is not None:
            self.stored = StoredBodies(None, self.arguments, self.redactor, is_spared=True)
        return self.stored

    def _show(self, arguments: Json, text: str) -> None:
        self.stored = stored = stored_bodies(arguments, text, self.redactor, self.configuration.redaction.longest)
        self.arguments = text if stored is None else stored.arguments
        """As they are recorded: canonical JSON."""
        self.digest = json.digest(text) if stored is None else stored.digest

    def _fingerprint(self) -> str:
        return json.digest(f"{self.tool.name}\n{self.digest}")


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call, as it stands between two stages. A stage that changes something of it makes a new one."""

    request: CallRequest
    exchange: CallExchange
    tool: Tool
    text: str
    """The arguments as canonical JSON."""
    record: CallRows
    work: Work
    """How its run ends before its time. One for all that is made of the call."""
    ask: Ask | None = None
    """A person's yes that it waits for."""
    approval_id: str = ""
    """The approval that it is made under."""

    @classmethod
    def of(cls, request: CallRequest, exchange: CallExchange, tool: Tool, received: float, text: str) -> Call:
        record = CallRows(new_invocation_id(), request, exchange, tool, received, text)
        work = Work(record.invocation_id, exchange.source, record.session, record.request_json, exchange.watch)
        return cls(request, exchange, tool, text, record, work)

    @property
    def arguments(self) -> dict[str, Json]:
        """Return the arguments that the tool gets."""
        arguments: Any = self.request.arguments
        assert isinstance(arguments, dict)
        return arguments

    @property
    def invocation_id(self) -> str:
        return self.record.invocation_id

    def with_arguments(self, arguments: dict[str, Json]) -> Call:
        """Return the same call with other arguments; its notes and its key stay."""
        text = json.canonical(arguments)
        request = replace(self.request, arguments=arguments)
        return replace(self, request=request, text=text, record=self._recorded(request, self.tool, text))

    def of_tool(self, tool: Tool) -> Call:
        """Return the same call of the tool as it is by now."""
        return replace(self, tool=tool, record=self._recorded(self.request, tool, self.text))

    def _recorded(self, request: CallRequest, tool: Tool, text: str) -> CallRows:
        before = self.record
        record = CallRows(before.invocation_id, request, self.exchange, tool, before.received, text)
        record.noted, record.key = before.noted, before.key
        return record


def _short(request_json: str) -> str:
    return request_json if len(request_json) <= _LONGEST_REQUEST_ID else f"sha256:{json.digest(request_json)}"
