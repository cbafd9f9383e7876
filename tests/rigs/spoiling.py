"""What a master of the database may do to the audit's tables, deed by deed, and what must be named."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from invocations.chain.tables import AUDITED
from sessions_app.kit.database import Dedicated

NEW = {
    "text": "'changed'",
    "integer": "coalesce({0}, 0) + 1",
    "boolean": "NOT coalesce({0}, FALSE)",
    "time": "'2001-01-01 00:00:00'",
}
VALID = {
    "status": "CASE status WHEN 'ok' THEN 'error' ELSE 'ok' END",
    "transport": "'stdio'",
    "id": "id + 1000000",
    "tool_name": "'other'",
    "method": "'tools/other'",
}
"""By the kind of a column, or by its name where a constraint would refuse that: another value, as SQL."""
BLOCKS, LEAVES, TOMBSTONES = "invocations_auditblock", "invocations_auditleaves", "invocations_audittombstone"
_BLOCK = {
    "number": "number + 1000000",
    "header": "' ' || header",
    "signature": "'changed'",
    "sealed_at": NEW["time"],
    "key_id": "'changed'",
    "tree_root": "replace(replace(tree_root, '1', '2'), '0', '1')",
    "nodes": "replace(replace(nodes, '1', '2'), '0', '1')",
    **{name: f"{name} + 1" for name in ("envelopes_through", "invocations_through", "events_through")},
    "first_position": "first_position + 1",
    "row_count": "row_count + 1",
}
_TOMBSTONE = {
    "kind": "CASE kind WHEN 'rows' THEN 'bodies' ELSE 'rows' END",
    "first_block": "first_block - 1",
    "last_block": "last_block + 1",
    "text": "' ' || text",
    "signature": "'changed'",
    "removed_at": NEW["time"],
    "row_count": "row_count + 1",
    **{
        f"{table}s_{end}": f"{table}s_{end} + 1"
        for table in ("envelope", "invocation", "event")
        for end in ("after", "through")
    },
}
"""All but the id, which nothing else tells of."""


class Query:
    """Reads, as the deeds are made."""

    def __init__(self, log: Any) -> None:
        self._log, self.is_sqlite = log, log.is_sqlite

    def __call__(self, query: str) -> Any:
        return self._log.run(query)


@contextlib.contextmanager
def undone(database: Dedicated) -> Iterator[Any]:
    """Return what executes statements past the rules of the database, in a transaction that is rolled back."""
    raw = database.raw
    if not database.is_sqlite:
        with raw.transaction(force_rollback=True):
            raw.execute("SET LOCAL session_replication_role = replica")
            yield raw.execute
        return
    raw.execute("BEGIN")
    try:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        yield raw.execute
    finally:
        raw.execute("ROLLBACK")


@dataclass(frozen=True)
class Deed:
    """Statements, and what the proof must name: one of these words."""

    statements: list[str]
    names: tuple[str, ...]


def of_rows(run: Any, choose: random.Random, samples: int) -> Iterator[Deed]:
    """Change each column of sampled rows; delete, insert and move rows."""
    for of in AUDITED:
        ids = [row[0] for row in run(f"SELECT id FROM {of.table} ORDER BY id").fetchall()]
        for row in choose.sample(ids, min(samples, len(ids))):
            named = (f"{of.name} {row} ",)
            for column, kind in of.columns.items():
                value = VALID.get(column, NEW[kind]).format(column)
                yield Deed([f"UPDATE {of.table} SET {column} = {value} WHERE id = {row}"], named)
            yield Deed([f"DELETE FROM {of.table} WHERE id = {row}"], named)
            other = choose.choice([each for each in ids if each != row])
            moves = [
                f"UPDATE {of.table} SET id = {new} WHERE id = {old}"
                for old, new in ((row, 10**12), (other, row), (10**12, other))
            ]
            yield Deed(moves, (f"{of.name} {min(row, other)} ",))
            # In the place of a row that is gone, and where an id was never used.
            copied = [name for name in of.columns if name not in ("id", "invocation_id")]
            own = ["invocation_id"] if "invocation_id" in of.columns else []
            copy = (
                f"INSERT INTO {of.table} ({', '.join(['id', *own, *copied])}) SELECT {10**12}"
                f"{', ' + repr('x' * 32) if own else ''}, {', '.join(copied)} FROM {of.table} WHERE id = {other}"
            )
            moved = f"UPDATE {of.table} SET id = {row} WHERE id = {10**12}"
            # An event that says the same as another one may not take its place unless its time is the same too.
            yield Deed([copy, f"DELETE FROM {of.table} WHERE id = {row}", moved], named)


def of_blocks(run: Any, choose: random.Random, samples: int) -> Iterator[Deed]:
    """The same with blocks and the hashes that are kept beside them."""
    numbers = [row[0] for row in run(f"SELECT number FROM {BLOCKS} ORDER BY number").fetchall()]
    kept = [row[0] for row in run(f"SELECT block_id FROM {LEAVES} ORDER BY block_id").fetchall()]
    last = numbers[-1]
    for number in choose.sample(numbers, min(samples, len(numbers))):
        named = _block(number)
        for column, value in _BLOCK.items():
            yield Deed([f"UPDATE {BLOCKS} SET {column} = {value} WHERE number = {number}"], named)
        if number != last:  # without the last one the log is as it was before: only a checkpoint tells
            yield Deed([f"DELETE FROM {BLOCKS} WHERE number = {number}"], named)
            swaps = [
                f"UPDATE {BLOCKS} SET number = {new} WHERE number = {old}"
                for old, new in ((number, 10**6), (last, number), (10**6, last))
            ]
            yield Deed(swaps, named)
    columns = ", ".join([*_BLOCK][1:])
    again = f"INSERT INTO {BLOCKS} (number, {columns}) SELECT {last + 1}, {columns} FROM {BLOCKS} WHERE number = {last}"
    yield Deed([again], _block(last + 1))
    for number in choose.sample(kept, min(samples, len(kept))):
        packed = bytes(run(f"SELECT leaves FROM {LEAVES} WHERE block_id = {number}").fetchone()[0])
        at = choose.randrange(len(packed))
        flipped = packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :]
        for changed in (flipped, packed[:-40], packed[:-7], packed + packed[-40:]):
            value = f"X'{changed.hex()}'" if run.is_sqlite else f"'\\x{changed.hex()}'"
            yield Deed([f"UPDATE {LEAVES} SET leaves = {value} WHERE block_id = {number}"], _block(number))
        yield Deed([f"UPDATE {LEAVES} SET block_id = {10**6} WHERE block_id = {number}"], _block(number))
        yield Deed([f"DELETE FROM {LEAVES} WHERE block_id = {number}"], _block(number))


def of_tombstones(run: Any) -> Iterator[Deed]:
    rows = run(f"SELECT id, first_block, last_block FROM {TOMBSTONES} ORDER BY id").fetchall()
    for number, first, last in rows:
        named = (f"Tombstone {number} ", f"Tombstone {number}:", f"The tombstone of blocks {first} to {last} ")
        for column, value in _TOMBSTONE.items():
            yield Deed([f"UPDATE {TOMBSTONES} SET {column} = {value} WHERE id = {number}"], named)
        missing = ("The tombstone before that of blocks", f"The tombstone of blocks {first} to {last}, of which")
        yield Deed([f"DELETE FROM {TOMBSTONES} WHERE id = {number}"], (*_block(first), *missing))
    columns = ", ".join(_TOMBSTONE)
    wider = columns.replace("last_block", "last_block + 1")
    yield Deed(
        [f"INSERT INTO {TOMBSTONES} (id, {columns}) SELECT 1000000, {wider} FROM {TOMBSTONES} WHERE id = {rows[0][0]}"],
        ("Tombstone 1000000 ",),
    )


def _block(number: int) -> tuple[str, ...]:
    return tuple(f"{word} {number}{end}" for word in ("block", "Block") for end in (" ", ")", ":", ".", ","))
