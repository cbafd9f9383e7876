"""The columns of a recorded call and of its envelope, each declared once.

Each line here defines: the ledger's statements and rows, the envelope's context for recovery, the seal, REST members,
the filters of REST and console (`lists/filters.py`), and the exports. Besides its line a column needs its field in
`models.py`, with a migration, and a value: an attribute of the object that `of` names.

Imports no Django: the sealing process reads it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from operator import attrgetter, itemgetter

ColumnValue = str | int | float | bool | None
Row = tuple[ColumnValue, ...]
"""A row as the ledger's statements take it."""


class ColumnType(Enum):
    """The value is the type's name in PostgreSQL."""

    TEXT = "text"
    SMALL_INTEGER = "int2"
    INTEGER = "int4"
    BIG_INTEGER = "int8"
    BOOLEAN = "bool"
    TIME = "timestamptz"


class ValueOwner(StrEnum):
    """The owner of a column's value. A row is written owner by owner, in this order."""

    CALL = "call"
    """`invocations.call.call.CallRecord`."""
    TOOL = "tool"
    """`tools_catalog.catalog.snapshot.Tool`, or the target of a read: `invocations.subject.RowSubject`. A refused
    call may have named none.
    """
    RECORD = "record"
    """Nobody's: `ledger/rows.py` gives the outcome, the times and the process by the columns' names."""
    SOURCE = "source"
    """Where the call comes from: one object a session or request."""
    DATABASE = "database"
    """The database numbers its rows; this column is not written."""


class Match(Enum):
    """How a query parameter is compared with its column."""

    EXACT = "the whole text"
    CHOICE = "one of the words that are known"
    NUMBER = "a whole number"
    TRUTH = "true or false; null is neither"
    PRESENT = "true: the column says something"
    LEFT_OUT = "true: the column says something, or retention erased the row's bodies"
    IS_VALUE = "true: the column holds the filter's value"
    DURING = "from a moment to a moment: two parameters, `…_after` and `…_before`"
    BETWEEN = "from a number to a number: two parameters, `min_…` and `max_…`"
    AT_LEAST = "this number, or more"
    REQUEST_ID = "a JSON-RPC id; digits find the number and the text"
    PLACE = "a path into a JSON body, and the value there"


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """A query parameter that narrows lists of calls."""

    parameter: str
    match: Match = Match.EXACT
    help: str = ""
    """For the description of the REST API."""
    value: str = ""
    least: int | None = None
    implies: Mapping[str, str] | None = None
    """Values of other columns in every row that matches: the condition of the partial index that answers."""
    skips_blank: bool = False
    """The index holds no rows with an empty column, so the condition excludes them too."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    of: ValueOwner
    type: ColumnType = ColumnType.TEXT
    filters: tuple[ColumnFilter, ...] = ()
    attribute: str = ""
    """The owner's name of the value; empty: the column's."""
    is_optional: bool = False
    """Null without a value. A hash leaves nulls out, so rows from before the column keep theirs."""
    null_is: str = ""
    """The meaning of null in lists and filters."""
    is_body: bool = False
    """JSON that went in or came out: sealed by its digest, and shown to nobody without the right to read bodies."""
    member: str = ""
    """The name in REST and in the console's exports; empty: the column's."""


@dataclass(frozen=True)
class AuditTable:
    """`name`: the verifier's word for a row. `columns`: in the order in which REST and exports show them."""

    name: str
    table: str
    columns: tuple[Column, ...]

    def of(self, *owners: ValueOwner) -> tuple[Column, ...]:
        return tuple(column for owner in owners for column in self.columns if column.of is owner)

    @property
    def written(self) -> tuple[Column, ...]:
        """The columns in the order of a row."""
        return self.of(ValueOwner.CALL, ValueOwner.TOOL, ValueOwner.RECORD, ValueOwner.SOURCE)

    @property
    def bodies(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.is_body)

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(column.member or column.name for column in self.columns)

    def blank(self, owner: ValueOwner) -> dict[str, ColumnValue]:
        """Return, by attribute, the values of an owner's columns without an owner."""
        return {column.attribute or column.name: None if column.is_optional else "" for column in self.of(owner)}

    @property
    def filters(self) -> tuple[tuple[Column, ColumnFilter], ...]:
        return tuple((column, each) for column in self.columns for each in column.filters)

    def position(self, name: str) -> int:
        """Return where a row holds a column."""
        return [column.name for column in self.written].index(name)

    def reader(self, owner: ValueOwner) -> Callable[[object], Row]:
        """Return a function that reads an owner's columns, in the order of a row."""
        return attrgetter(*(column.attribute or column.name for column in self.of(owner)))

    def picker(self) -> Callable[[Mapping[str, ColumnValue]], Row]:
        """Return a function that picks the columns of ValueOwner.RECORD by name, in the order of a row."""
        return itemgetter(*(column.name for column in self.of(ValueOwner.RECORD)))


_INTERRUPTED = ColumnFilter(
    "interrupted", Match.IS_VALUE, "Calls whose process died.", value="interrupted", implies={"status": "error"}
)

INVOCATION = AuditTable(
    "invocation",
    "invocations_mcptoolinvocation",
    (
        Column("id", ValueOwner.DATABASE, ColumnType.BIG_INTEGER, member="sequence"),
        Column("invocation_id", ValueOwner.CALL),
        Column("session_id", ValueOwner.SOURCE, filters=(ColumnFilter("session"),)),
        Column(
            "request_id",
            ValueOwner.CALL,
            attribute="request_json",
            is_optional=True,
            filters=(ColumnFilter("request_id", Match.REQUEST_ID, "`7` finds the number and the text."),),
        ),
        Column("tool_name", ValueOwner.TOOL, attribute="name", filters=(ColumnFilter("tool"),)),
        Column("tool_version", ValueOwner.TOOL, attribute="version", filters=(ColumnFilter("version"),)),
        Column(
            "tool_digest",
            ValueOwner.TOOL,
            attribute="digest",
            filters=(ColumnFilter("tool_digest", help="The digest of the definition that ran."),),
        ),
        Column(
            "method",
            ValueOwner.TOOL,
            is_optional=True,
            null_is="tools/call",
            filters=(
                ColumnFilter("method", Match.CHOICE, "`tools/call`, of what was read, or of what a client was asked."),
            ),
        ),
        Column(
            "target",
            ValueOwner.TOOL,
            is_optional=True,
            filters=(
                ColumnFilter("target", help="A resource by its URI or template, a prompt by its name, that was read."),
            ),
        ),
        Column(
            "asked_by",
            ValueOwner.TOOL,
            is_optional=True,
            filters=(ColumnFilter("asked_by", help="What this invocation asked its client."),),
        ),
        Column("arguments", ValueOwner.CALL, is_body=True, filters=(ColumnFilter("arguments", Match.PLACE),)),
        Column(
            "arguments_digest",
            ValueOwner.CALL,
            attribute="digest",
            filters=(
                ColumnFilter(
                    "arguments_digest", help="SHA-256 of the arguments' canonical JSON, as they are recorded."
                ),
            ),
        ),
        Column("status", ValueOwner.RECORD, filters=(ColumnFilter("status", Match.CHOICE),)),
        Column(
            "result", ValueOwner.RECORD, is_optional=True, is_body=True, filters=(ColumnFilter("result", Match.PLACE),)
        ),
        Column("error", ValueOwner.RECORD, is_optional=True, is_body=True),
        Column(
            "error_code",
            ValueOwner.RECORD,
            filters=(ColumnFilter("error_code", Match.CHOICE, implies={"status": "error"}), _INTERRUPTED),
        ),
        Column(
            "jsonrpc_code",
            ValueOwner.RECORD,
            ColumnType.INTEGER,
            is_optional=True,
            filters=(ColumnFilter("jsonrpc_code", Match.NUMBER),),
        ),
        Column(
            "retryable",
            ValueOwner.RECORD,
            ColumnType.BOOLEAN,
            is_optional=True,
            filters=(
                ColumnFilter(
                    "retryable", Match.TRUTH, "Calls that succeeded are neither.", implies={"status": "error"}
                ),
            ),
        ),
        Column("received_at", ValueOwner.RECORD, ColumnType.TIME),
        Column("started_at", ValueOwner.RECORD, ColumnType.TIME, filters=(ColumnFilter("started", Match.DURING),)),
        Column("finished_at", ValueOwner.RECORD, ColumnType.TIME),
        Column(
            "duration_ms", ValueOwner.RECORD, ColumnType.INTEGER, filters=(ColumnFilter("duration_ms", Match.BETWEEN),)
        ),
        Column(
            "duplicate_of",
            ValueOwner.RECORD,
            filters=(
                ColumnFilter("duplicate", Match.PRESENT, "Repeats of an earlier request."),
                ColumnFilter("duplicate_of", help="Repeats of the call with this invocation id.", skips_blank=True),
            ),
        ),
        Column(
            "occurrences",
            ValueOwner.RECORD,
            ColumnType.INTEGER,
            filters=(
                ColumnFilter(
                    "min_occurrences", Match.AT_LEAST, "From 2: refusals of a flood, counted in a row.", least=1
                ),
            ),
        ),
        Column("transport", ValueOwner.SOURCE, filters=(ColumnFilter("transport", Match.CHOICE),)),
        Column("protocol_version", ValueOwner.SOURCE, filters=(ColumnFilter("protocol_version"),)),
        Column(
            "principal",
            ValueOwner.SOURCE,
            filters=(
                ColumnFilter(
                    "principal", help="`key:<id>`, `user:<id>` or `anonymous`; or the name of a key or of a person."
                ),
            ),
        ),
        Column("caller_label", ValueOwner.SOURCE),
        Column(
            "allowed_client",
            ValueOwner.SOURCE,
            is_optional=True,
            filters=(ColumnFilter("allowed_client", help="The client that a person let in, as the row names it."),),
        ),
        Column("client_name", ValueOwner.SOURCE, filters=(ColumnFilter("client"),)),
        Column("client_version", ValueOwner.SOURCE, filters=(ColumnFilter("client_version"),)),
        Column("client_address", ValueOwner.SOURCE, filters=(ColumnFilter("client_address"),)),
        Column("trace_id", ValueOwner.SOURCE, filters=(ColumnFilter("trace_id", skips_blank=True),)),
        Column("span_id", ValueOwner.SOURCE, is_optional=True),
        Column(
            "continues",
            ValueOwner.SOURCE,
            is_optional=True,
            filters=(ColumnFilter("continues", help="Later rounds of the call whose first attempt this is."),),
        ),
        Column(
            "turn_id",
            ValueOwner.SOURCE,
            is_optional=True,
            filters=(ColumnFilter("turn", help="Calls that a model made in this turn of a chat."),),
        ),
        Column("tool_call_id", ValueOwner.SOURCE, is_optional=True),
        Column("turn_round", ValueOwner.SOURCE, ColumnType.SMALL_INTEGER, is_optional=True),
        Column(
            "replay_of",
            ValueOwner.SOURCE,
            is_optional=True,
            filters=(ColumnFilter("replay_of", help="Replays of the call with this invocation id."),),
        ),
        Column(
            "called_by",
            ValueOwner.SOURCE,
            is_optional=True,
            filters=(ColumnFilter("called_by", help="Calls that the call with this invocation id made."),),
        ),
        Column(
            "connection",
            ValueOwner.TOOL,
            is_optional=True,
            filters=(ColumnFilter("connection", help="The upstream that the tool was called at, by its short name."),),
        ),
        Column("process_id", ValueOwner.RECORD, filters=(ColumnFilter("process"),)),
        Column(
            "policy_rule",
            ValueOwner.CALL,
            attribute="noted.policy_rule",
            is_optional=True,
            filters=(ColumnFilter("policy_rule", help="The rule about calls that decided, by its name."),),
        ),
        Column(
            "policy_version", ValueOwner.CALL, ColumnType.INTEGER, attribute="noted.policy_version", is_optional=True
        ),
        Column("policy_said", ValueOwner.CALL, attribute="noted.policy_said", is_optional=True),
        Column(
            "policy_watched",
            ValueOwner.CALL,
            attribute="noted.policy_watched",
            is_optional=True,
            filters=(ColumnFilter("policy_watched", Match.PRESENT, "A watching rule would have denied or asked."),),
        ),
        Column(
            "guardrails",
            ValueOwner.CALL,
            attribute="noted.guardrails",
            is_optional=True,
            filters=(ColumnFilter("guardrails", Match.PRESENT, "A guardrail found something, or failed."),),
        ),
        Column(
            "left_out",
            ValueOwner.RECORD,
            is_optional=True,
            filters=(
                ColumnFilter(
                    "incomplete", Match.LEFT_OUT, "Whether something of a body was redacted, cut short or erased."
                ),
            ),
        ),
        Column(
            "workspace",
            ValueOwner.CALL,
            is_optional=True,
            filters=(
                ColumnFilter(
                    "workspace", help="By its name: the workspace that the caller came by, or else the tool's."
                ),
            ),
        ),
    ),
)

ENVELOPE = AuditTable(
    "envelope",
    "invocations_mcprequestenvelope",
    (
        Column("id", ValueOwner.DATABASE, ColumnType.BIG_INTEGER),
        Column("invocation_id", ValueOwner.CALL),
        Column("session_id", ValueOwner.SOURCE),
        Column("process_id", ValueOwner.RECORD),
        Column("request_id", ValueOwner.CALL, attribute="request_json", is_optional=True),
        Column("method", ValueOwner.RECORD),
        Column("params", ValueOwner.RECORD, is_body=True),
        Column("tool_name", ValueOwner.TOOL, attribute="name"),
        Column("tool_version", ValueOwner.TOOL, attribute="version"),
        Column("tool_digest", ValueOwner.TOOL, attribute="digest"),
        Column("principal", ValueOwner.SOURCE),
        Column("context", ValueOwner.RECORD),
        Column("received_at", ValueOwner.RECORD, ColumnType.TIME),
    ),
)

_IN_ENVELOPE = {(column.name, column.of) for column in ENVELOPE.columns}

IN_BOTH = tuple(column.name for column in INVOCATION.written if (column.name, column.of) in _IN_ENVELOPE)
"""The columns that recovery copies from an envelope to the row of its call."""


def in_context(owner: ValueOwner) -> Callable[[Row], dict[str, ColumnValue]]:
    """Return a function from an owner's columns to its part of the envelope's `context`.

    Recovery may have to write the call's row, and reads values without an envelope column there.
    """
    kept = [
        (position, column.name) for position, column in enumerate(INVOCATION.of(owner)) if column.name not in IN_BOTH
    ]
    return lambda row: {name: value for position, name in kept if (value := row[position]) is not None}
