"""The audit's rows as the ledger takes them: tuples in the order that `columns` declares, times as text."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Protocol
from weakref import WeakKeyDictionary

from invocations.call_source import CallSource, clip, recorded_in
from invocations.columns import ENVELOPE, INVOCATION, ColumnValue, Row, ValueOwner, in_context
from invocations.configuration import Configuration
from invocations.ledger.counting import CallCounts
from invocations.ledger.records import Key, new_invocation_id
from invocations.redaction.bodies import StoredBodies
from invocations.subject import RowSubject
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.call.noted import NOTHING_NOTED, Noted
from tools_catalog.catalog.snapshot import Tool

_ENVELOPE_CALL, _ENVELOPE_TOOL, _ENVELOPE_SOURCE = map(
    ENVELOPE.reader, (ValueOwner.CALL, ValueOwner.TOOL, ValueOwner.SOURCE)
)
_ENVELOPE_RECORD = ENVELOPE.picker()
_CALL, _TOOL = map(INVOCATION.reader, (ValueOwner.CALL, ValueOwner.TOOL))
_RECORD = INVOCATION.picker()
_NO_TOOL = INVOCATION.blank(ValueOwner.TOOL)
_TOOL_CONTEXT = in_context(ValueOwner.TOOL)


class Recorded(Protocol):
    """A running call, or another thing with a row like a call's: a read, a question to the client."""

    @property
    def invocation_id(self) -> str: ...
    @property
    def configuration(self) -> Configuration: ...
    @property
    def source(self) -> CallSource: ...
    @property
    def tool(self) -> Tool | RowSubject: ...
    @property
    def stored(self) -> StoredBodies | None: ...
    def stored_with(self, outcome: str) -> StoredBodies | None:
        """How the bodies are recorded once there is a result or an error; None where all are as they are."""

    @property
    def arguments(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def received(self) -> float: ...
    @property
    def key(self) -> Key | None: ...
    @property
    def session(self) -> str | None: ...
    @property
    def noted(self) -> Noted:
        """Notes of stages for the record."""

    def note(self, noted: Noted) -> None:
        """Put more on record."""

    @property
    def workspace(self) -> str | None:
        """The workspace of its record."""


class Rows:
    """Makes rows for one process."""

    def __init__(self, is_sqlite: bool, process_id: str) -> None:
        self.process_id = process_id
        self.counts = CallCounts()
        self._in_envelope: WeakKeyDictionary[Tool, tuple[str, dict[str, ColumnValue]]] = WeakKeyDictionary()
        """The end of the params, and the part of the context, that all envelopes of a tool have."""
        self._zone = "" if is_sqlite else "+00"
        self._second = -1
        self._prefix = ""

    def moment(self, seconds: float) -> str:
        """Return seconds since the epoch as the database's text for a timestamp, in UTC."""
        second = int(seconds)
        if second != self._second:
            self._second = second
            self._prefix = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S.")
        return f"{self._prefix}{int((seconds - second) * 1e6):06d}{self._zone}"

    def envelope(self, call: Recorded) -> Row:
        """Return the row of an intent."""
        tool, source = call.tool, call.source
        name, of_tool = (tool.method is None and self._in_envelope.get(tool)) or self._of_tool(tool)
        params = f'{{"arguments":{call.arguments}{name}'
        context = source.recovery_facts
        if (
            of_tool
            or call.noted is not NOTHING_NOTED
            or call.workspace
            or (call.stored is not None and call.stored.left_out)
        ):
            context = _with_more(context, call, of_tool)
        return (
            _ENVELOPE_CALL(call)
            + _ENVELOPE_TOOL(tool)
            + _ENVELOPE_RECORD(
                {
                    "process_id": self.process_id,
                    "method": tool.method or "tools/call",
                    "params": params,
                    "context": context,
                    "received_at": self.moment(call.received),
                }
            )
            + _ENVELOPE_SOURCE(source)
        )

    def _of_tool(self, tool: Tool | RowSubject) -> tuple[str, dict[str, ColumnValue]]:
        found = f',"name":{json.canonical(tool.target or tool.name)}}}', _TOOL_CONTEXT(_TOOL(tool))
        if isinstance(tool, Tool):
            self._in_envelope[tool] = found
        return found

    def outcome(
        self,
        call: Recorded,
        started: float,
        elapsed_seconds: float,
        result: str | None,
        code: str,
        rendered: dict[str, Json] | None,
        *,
        duplicate_of: str = "",
    ) -> Row:
        """Return the invocation's row; `result` is canonical JSON.

        The duration is of a monotonic clock; `finished_at` follows from it.
        """
        tool, moment = call.tool, self.moment
        if not duplicate_of:
            self.counts.count(tool.method or "tools/call", tool.name, tool.connection or "", code, elapsed_seconds)
        received = moment(call.received)
        error = json_code = retryable = None
        if rendered is not None:
            error, json_code, retryable = json.canonical(rendered), rendered["code"], rendered["data"]["retryable"]
        left_out = None
        stored = call.stored
        if stored is None and result is not None:
            stored = call.stored_with(result)
        if stored is None and error is not None:
            stored = call.stored_with(error)
        if stored is not None:
            result, error = stored.outcome(result, rendered)
            left_out = stored.marks
        return (
            _CALL(call)
            + _TOOL(tool)
            + _RECORD(
                {
                    "status": "error" if code else "ok",
                    "result": result,
                    "error": error,
                    "error_code": code,
                    "jsonrpc_code": json_code,
                    "retryable": retryable,
                    "received_at": received,
                    "started_at": received if started == call.received else moment(started),
                    "finished_at": moment(started + elapsed_seconds),
                    "duration_ms": int(elapsed_seconds * 1000),
                    "duplicate_of": duplicate_of,
                    "occurrences": 1,
                    "process_id": self.process_id,
                    "left_out": left_out,
                }
            )
            + call.source.columns
        )

    def refusal(
        self,
        source: CallSource,
        name: str,
        arguments: str,
        digest: str,
        request_id: str | int | None,
        received: float,
        code: str,
        rendered: dict[str, Json],
        *,
        tool: Tool | RowSubject | None = None,
        result: str | None = None,
        error: str | None = None,
        left_out: str | None = None,
        invocation_id: str = "",
        occurrences: int = 1,
        noted: Noted = NOTHING_NOTED,
    ) -> Row:
        """Return the row of refused calls; `result` is the model's answer, as canonical JSON.

        `error` is `rendered` as it is stored, where something of it is not.
        """
        now = time.time()
        moment = self.moment(now)
        refused = RefusedCall(
            invocation_id or new_invocation_id(),
            None if request_id is None else json.canonical(request_id),
            arguments,
            digest,
            noted,
            recorded_in(source, None if tool is None else tool.workspace),
        )
        return (
            _CALL(refused)
            + _TOOL(tool or SimpleNamespace(**{**_NO_TOOL, "name": clip(name, 128)}))
            + _RECORD(
                {
                    "status": "error",
                    "result": result,
                    "error": error or json.canonical(rendered),
                    "error_code": code,
                    "jsonrpc_code": rendered["code"],
                    "retryable": rendered["data"]["retryable"],
                    "received_at": self.moment(received),
                    "started_at": moment,
                    "finished_at": moment,
                    "duration_ms": 0,
                    "duplicate_of": "",
                    "occurrences": occurrences,
                    "process_id": self.process_id,
                    "left_out": left_out,
                }
            )
            + source.columns
        )


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """The row values of a refused call about the call itself; see `ValueOwner.CALL`."""

    invocation_id: str
    request_json: str | None
    arguments: str
    digest: str
    noted: Noted = NOTHING_NOTED
    workspace: str | None = None


def _with_more(context: str, call: Recorded, of_tool: dict[str, ColumnValue]) -> str:
    """Add facts that only the call has and recovery must repeat to an envelope's context."""
    more: dict[str, Json] = {**json.loads_stored(context), **of_tool, **call.noted.on_record()}
    if call.workspace:
        more["workspace"] = call.workspace
    if call.stored is not None and call.stored.left_out:
        more |= {"left_out": call.stored.left_out, "arguments_digest": call.digest}
    return json.canonical(more)
