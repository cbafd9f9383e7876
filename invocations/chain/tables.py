"""The audit's tables as the proof sees them: which columns a row's hash covers, and how they are read.

Read alike from SQLite and PostgreSQL, so that a row has one hash wherever it lies: times in UTC with
microseconds, booleans as such, JSON as the text that is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from invocations import columns
from invocations.chain.verifier import BODIES
from invocations.columns import AuditTable, ColumnType


@dataclass(frozen=True, slots=True)
class Audited:
    """`name` as in the verifier; `columns`: name -> text, integer, boolean or time, in order of the names."""

    name: str
    table: str
    columns: dict[str, str]

    @property
    def bodies(self) -> tuple[str, ...]:
        return BODIES[self.name]

    @property
    def booleans(self) -> tuple[int, ...]:
        return tuple(at for at, kind in enumerate(self.columns.values()) if kind == "boolean")

    def select(self, is_sqlite: bool, *, digests: bool = False) -> str:
        """Return the SELECT list; with `digests` PostgreSQL hashes the bodies and does not send them."""
        return ", ".join(self._column(name, kind, is_sqlite, digests) for name, kind in self.columns.items())

    def _column(self, name: str, kind: str, is_sqlite: bool, digests: bool) -> str:
        if kind == "time" and is_sqlite:
            return (
                f"CASE length({name}) WHEN 26 THEN replace({name}, ' ', 'T') || 'Z' "
                f"WHEN 19 THEN replace({name}, ' ', 'T') || '.000000Z' ELSE {name} END"
            )
        if kind == "time":
            return f"""to_char({name} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
        if digests and not is_sqlite and name in self.bodies:
            return (
                f"CASE WHEN left({name}, 8) = '\"sha256:' THEN {name} ELSE 'sha256:' || "
                f"encode(pg_catalog.sha256(convert_to({name}, 'UTF8')), 'hex') END"
            )
        return name


def _audited(name: str, table: str, **kinds: str) -> Audited:
    columns = {column: kind for kind, names in kinds.items() for column in names.split()}
    return Audited(name, table, dict(sorted(columns.items())))


_KINDS = {
    ColumnType.TEXT: "text",
    ColumnType.SMALL_INTEGER: "integer",
    ColumnType.INTEGER: "integer",
    ColumnType.BIG_INTEGER: "integer",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.TIME: "time",
}


def _declared(of: AuditTable) -> Audited:
    return Audited(of.name, of.table, dict(sorted((column.name, _KINDS[column.type]) for column in of.columns)))


ENVELOPE, INVOCATION = _declared(columns.ENVELOPE), _declared(columns.INVOCATION)
EVENT = _audited(
    "event",
    "sessions_app_auditevent",
    text="kind actor actor_label via subject_model subject_id subject_label before after reason",
    integer="id",
    time="happened_at",
)
AUDITED = (ENVELOPE, INVOCATION, EVENT)
"""In the order in which rows stand in a block.

A column that a later version adds is null in the rows that were there before, and a hash leaves nulls out.
"""


def _of_all() -> dict[str, str]:
    found: dict[str, str] = {}
    for of in AUDITED:
        for name, kind in of.columns.items():
            found.setdefault(f"row_{name}" if name == "kind" else name, kind)
    return found


ALL_COLUMNS = _of_all()
"""Name -> kind of the columns of all tables together, for files whose rows are of any of them. `id` is the row's own
number in its table; an event's kind is `row_kind`.
"""
