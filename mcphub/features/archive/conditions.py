"""The search of the list of calls, as a condition of DuckDB on archived calls: names are the hub's, values parameters.

A filter is translated from its query (`Q`), which defines the comparison for the list, the console and REST alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q

from invocations.chain.tables import INVOCATION
from invocations.lists.filters import CALL_FILTERS, BodyHolds
from invocations.lists.jsonpath import Condition
from invocations.models import McpToolInvocation
from sessions_app.kit.fields import JSONText
from sessions_app.kit.lists.filters import Demand, During
from sessions_app.kit.lists.searching import Search
from sessions_app.protocol import json
from sessions_app.workspaces.scope import Scope

ARCHIVE_FILTERS = tuple(each for each in CALL_FILTERS if each.name != "incomplete")
"""Those of the list whose answer stands in the row: `incomplete` asks the database which bodies retention erased."""
_IDS = ("invocation_id", "session_id", "trace_id")
_NAMES = ("tool_name", "target", "caller_label", "client_name", "error_code")
"""The columns that free words are looked up in."""
_COMPARED = {"exact": "=", "gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}
_SANE = r"regexp_replace({0}, '\\u(0000|d[89a-f][0-9a-f]{{2}})', '\\ufffd', 'gi')"
"""DuckDB refuses to look into JSON that holds a lone surrogate; the audit holds such."""
_NUMBERS = "('BIGINT', 'UBIGINT', 'DOUBLE', 'HUGEINT', 'UHUGEINT')"


@dataclass(slots=True)
class SqlCondition:
    """A condition with its parameters."""

    sql: str = "true"
    values: list[Any] = field(default_factory=list)

    def also(self, other: SqlCondition) -> SqlCondition:
        return SqlCondition(f"{self.sql} AND {other.sql}", [*self.values, *other.values])


def of_search(search: Search, scope: Scope | None) -> SqlCondition:
    """Return the condition of a search without problems, within a workspace or in the whole hub."""
    found = SqlCondition()
    if scope is not None:
        found = found.also(of_query(McpToolInvocation.owned_in(scope)))
    for demand in search.demands:
        found = found.also(_of_demand(demand))
    return found.also(of_query(_of_words(search.words))) if search.words else found


def span_of(search: Search) -> tuple[datetime | None, datetime | None]:
    """Return a time that holds the starts of all calls a search may find; None: that side is open."""
    least: datetime | None = None
    most: datetime | None = None
    for demand in search.demands:
        if isinstance(demand.of, During) and not demand.is_excluded:
            begins, ends = zip(*demand.values, strict=True)
            least = None if None in begins else min(begins)
            most = None if None in ends else max(ends)
    return least, most


def _of_demand(demand: Demand) -> SqlCondition:
    if isinstance(demand.of, BodyHolds):
        parts = [_of_body(demand.of.of, value) for value in demand.values]
        found = _joined(" OR ", parts)
    elif isinstance(demand.of, During):  # its query in the list also has bounds of the live table's sequence
        found = of_query(_any(During.compared(demand.of, value) for value in demand.values))
    else:
        found = of_query(demand.of.found_by(*demand.values))
    return _not(found) if demand.is_excluded else found


def _any(queries: Any) -> Q:
    found = Q(pk__in=())
    for query in queries:
        found |= query
    return found


def _of_words(words: str) -> Q:
    """Return what free words find: an exact id, else a part of a name."""
    found = Q()
    for name in _IDS:
        found |= Q(**{name: words})
    for name in _NAMES:
        found |= Q(**{f"{name}__icontains": words})
    return found


def of_query(query: Q) -> SqlCondition:
    """Return a query of Django over columns of a call."""
    parts = [of_query(each) if isinstance(each, Q) else _of_lookup(*_pair(each)) for each in query.children]
    found = _joined(f" {query.connector} ", parts) if parts else SqlCondition()
    return _not(found) if query.negated else found


def _pair(child: Any) -> tuple[str, Any]:
    if not isinstance(child, tuple):
        raise TypeError(f"An archive cannot be searched by {child!r}: leave its filter out of ARCHIVE_FILTERS.")
    return child


def _of_lookup(path: str, value: Any) -> SqlCondition:
    name, _, lookup = path.partition("__")
    if name == "pk":
        name = "id"
    held = McpToolInvocation._meta.get_field(name)
    column = str(held.column)  # type: ignore[union-attr]  # a field of the row itself
    if column not in INVOCATION.columns:
        raise TypeError(f"An archive has no column {column}.")
    if lookup == "isnull":
        return SqlCondition(f"{column} IS {'' if value else 'NOT '}NULL")
    if lookup == "in":
        values = [_stored(held, each) for each in value]
        marks = ", ".join("?" * len(values))
        return SqlCondition(f"{column} IN ({marks})", values) if values else SqlCondition("false")
    if lookup == "icontains":
        return SqlCondition(f"contains(lower({column}), lower(?))", [value])
    return SqlCondition(f"{column} {_COMPARED[lookup or 'exact']} ?", [_stored(held, value)])


def _stored(held: Any, value: Any) -> Any:
    """Return a value as archived files have it: times in UTC without a zone, JSON as text."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None)
    return held.get_prep_value(value) if isinstance(held, JSONText) else value


def _of_body(column: str, asked: Condition) -> SqlCondition:
    path = "$" + "".join(f"[{step}]" if isinstance(step, int) else f'."{step}"' for step in asked.steps)
    parts = [_at(_SANE.format(column), path, value) for value in (asked.value, *asked.tags)]
    return _joined(" OR ", parts)


def _at(body: str, path: str, value: str | int | float | bool | None) -> SqlCondition:
    kind, text = f"TRY(json_type({body}, ?))", f"TRY(json_extract_string({body}, ?))"
    if value is None:
        return SqlCondition(f"{kind} = 'NULL'", [path])
    if isinstance(value, bool):
        return SqlCondition(f"({kind} = 'BOOLEAN' AND {text} = ?)", [path, path, json.canonical(value)])
    if isinstance(value, str):
        return SqlCondition(f"({kind} = 'VARCHAR' AND {text} = ?)", [path, path, value])
    # A DOUBLE holds no 18 digits; a DECIMAL holds no large exponents.
    number = json.canonical(value)
    return SqlCondition(
        f"({kind} IN {_NUMBERS} AND TRY_CAST({text} AS DOUBLE) = TRY_CAST(? AS DOUBLE) AND "
        f"coalesce(TRY_CAST({text} AS DECIMAL(38, 17)) = TRY_CAST(? AS DECIMAL(38, 17)), true))",
        [path, path, number, path, number],
    )


def _joined(word: str, parts: list[SqlCondition]) -> SqlCondition:
    sql = word.join(part.sql for part in parts)
    return SqlCondition(f"({sql})", [value for part in parts for value in part.values])


def _not(found: SqlCondition) -> SqlCondition:
    """The opposite, as of a query set: it holds, too, where the row has nothing to compare."""
    return SqlCondition(f"NOT coalesce({found.sql}, false)", found.values)
