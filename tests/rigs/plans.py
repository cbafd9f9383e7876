"""What a page asks the database, and whether an index answers it: the plan of each statement, on both databases.

A statement offends where it reads a table that grows with the calls, and nothing bounds how much of it: no index is
searched, and it is not a stretch of an index in order, cut by a LIMIT, of which most pass the filter, if there is one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

GROWING = {
    "invocations_mcptoolinvocation",
    "invocations_mcprequestenvelope",
    "invocations_mcptask",
    "invocations_mcpidempotencykey",
    "sessions_app_auditevent",
    "invocations_auditblock",
    "invocations_auditleaves",
    "invocations_calltally",
    "invocations_errorgroup",
    "sessions_app_mcpsession",
    "sessions_app_streamevent",
    "sessions_app_busevent",
    "chat_chatsession",
    "chat_query",
    "chat_airesponse",
    "chat_chatmessage",
    "chat_chatresponse",
    "invocations_mcpapproval",
    "django_admin_log",
    "django_session",
}
"""Tables without a bound but retention, also while they are small. (Marks of the sequence are one for many calls.)"""
BIG_ROWS = 10_000
"""Any table of more rows than this is one of them; of fewer a plan does not tell what it would be of many."""


@dataclass
class Watched:
    """The statements of a stretch of code, in order."""

    statements: list[tuple[str, Any]] = field(default_factory=list)


@contextlib.contextmanager
def watched() -> Iterator[Watched]:
    """Note what Django asks the database meanwhile."""
    seen = Watched()

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.statements.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield seen


class Judge:
    """Explains statements and names those that no index answers."""

    def __init__(self) -> None:
        self._is_sqlite = connection.vendor == "sqlite"
        self._known: dict[tuple[str, str], list[str]] = {}
        with connection.cursor() as cursor:
            self.big, self._few = set(GROWING), set()
            # What the planner knows on a hub: PostgreSQL analyzes tables by itself, SQLite never does.
            cursor.execute("DROP TABLE IF EXISTS sqlite_stat1" if self._is_sqlite else "ANALYZE")
            tables = connection.introspection.table_names(cursor)
            for table in tables:
                cursor.execute(f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT {BIG_ROWS + 1}) AS few")
                if cursor.fetchone()[0] > BIG_ROWS:
                    self.big.add(table)
                else:
                    self._few.add(table)
            if self._is_sqlite:
                cursor.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'")
            else:
                cursor.execute("SELECT relname, reltuples FROM pg_class WHERE relkind = 'r'")
                self._counts = dict(cursor.fetchall())
                cursor.execute("SELECT indexrelid::regclass::text FROM pg_index WHERE indpred IS NOT NULL")
            self._partial = {row[0] for row in cursor.fetchall()}

    def offences(self, watched: Watched) -> list[str]:
        """Return a line for each read that no index bounds: the table, the plan's words, the statement."""
        found = []
        for sql, params in watched.statements:
            if re.match(r"\s*(SELECT|WITH|UPDATE|DELETE)\b", sql, re.IGNORECASE):
                key = (sql, repr(params))
                if key not in self._known:
                    self._known[key] = self._explained(sql, params)
                found += self._known[key]
        return found

    def _explained(self, sql: str, params: Any) -> list[str]:
        with connection.cursor() as cursor:
            if self._is_sqlite:
                cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
                wrong = self._by_sqlite(sql, [row[3] for row in cursor.fetchall()])
            else:
                wrong = self._by_postgresql(self._planned(cursor, sql, params))
                if any(words.partition(":")[0] in self._few for words in wrong):
                    # PostgreSQL reads a table of a few pages whole, index or not.
                    cursor.execute("SET enable_seqscan = off")
                    wrong = self._by_postgresql(self._planned(cursor, sql, params))
                    cursor.execute("SET enable_seqscan = on")
        return [f"{words}\n        {_shown(sql)}" for words in wrong]

    def _planned(self, cursor: Any, sql: str, params: Any) -> Any:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
        return cursor.fetchone()[0][0]["Plan"]

    def _by_sqlite(self, sql: str, lines: list[str]) -> list[str]:
        named = {alias or table: table for table, alias in _NAMED.findall(sql)}
        outer = _without_subqueries(sql)
        in_order = "LIMIT" in outer and " WHERE " not in outer and not any(_SORTED.search(line) for line in lines)
        wrong = []
        for line in lines:
            found = re.match(r"SCAN (?:TABLE )?(\S+)(?:.*?INDEX (\S+))?", line)
            if found is None or in_order or found[2] in self._partial:
                continue
            table = named.get(found[1], found[1])
            if table in self.big:
                wrong.append(f"{table}: {line}")
        return wrong

    def _by_postgresql(self, node: Any, is_cut: bool = False) -> list[str]:
        kind, table = node["Node Type"], node.get("Relation Name")
        is_bounded = (
            any(node.get(condition) for condition in ("Index Cond", "Recheck Cond", "TID Cond"))
            or node.get("Index Name") in self._partial
            or (is_cut and ("Filter" not in node or node["Plan Rows"] * 2 >= self._counts.get(table, 0)))
        )
        wrong = []
        # What is changed is found by the nodes below.
        if table in self.big and not is_bounded and kind != "ModifyTable":
            wrong = [f"{table}: {kind} {node.get('Index Name', '')} {node.get('Filter', '')}"]
        is_cut = kind == "Limit" or (is_cut and kind in _PASSING)
        for each in node.get("Plans", ()):
            wrong += self._by_postgresql(each, is_cut)
        return wrong


_SORTED = re.compile(r"TEMP B-TREE FOR (?!LAST|RIGHT)")
"""A whole sort; of rows in the order of an index, only those that are equal there are sorted."""
_PASSING = {"Incremental Sort", "Nested Loop", "Append", "Merge Append", "Result", "Memoize", "Subquery Scan"}
"""Nodes of PostgreSQL that read no further than what is above them asks for."""
_NAMED = re.compile(r'(?:FROM|JOIN|,)\s+"?(\w+)"?(?:\s+(?:AS\s+)?"?(?!(?:WHERE|ORDER|INNER|LEFT|ON|LIMIT)\b)(\w+)"?)?')


def _without_subqueries(sql: str) -> str:
    before = ""
    while before != sql:
        before, sql = sql, re.sub(r"\([^()]*\)", "", sql)
    return sql


def _shown(sql: str) -> str:
    """Return a statement short: what it selects matters little."""
    return re.sub(r"SELECT (DISTINCT )?.{60,}? FROM ", r"SELECT \1... FROM ", sql)[:600]
