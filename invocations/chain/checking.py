"""`mcphub audit verify` over the database: the stand-alone verifier, fed from the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from invocations.chain import records
from invocations.chain.keys import KeyFolder
from invocations.chain.log import Block, Log
from invocations.chain.verifier import (
    TABLES,
    Bad,
    Checkpoint,
    Frontier,
    PublicKey,
    Summary,
    Verifier,
    canonical,
    leaf_hash,
    loads,
)

_ENDS = ("after", "through")


def verify(
    log: Log,
    keys: KeyFolder,
    trusted: Iterable[PublicKey],
    checkpoints: Iterable[Checkpoint],
    sealed: Callable[[int], object] | None = None,
) -> Summary:
    """Verify everything that is sealed at this moment; raise Bad at the first row that is not as it was.

    `sealed` hears, block by block, how many rows were looked at.
    """
    size = log.size()
    verifier = Verifier(trusted, checkpoints, digested=not log.is_sqlite)
    # The log's name is that of the keys which are trusted: the database has no say in it.
    verifier.feed({**records.begin(log, keys, 0), "origin": next(iter(trusted)).name})
    _check_tombstones(log)
    for record in records.tombstones(log):
        verifier.feed(record)
    blocks, tree, stored = 0, Frontier(), log.derived()
    for record in records.records(log, 0, size - 1, digests=True, sealed=sealed):
        verifier.feed(record)
        if "block" in record:
            blocks += 1
            made = tree.append(leaf_hash(canonical(record["block"])))
            _compare(f"Block {blocks - 1}", next(stored), log.derive(record["block"], made, tree.root()))
    if blocks != size:
        raise Bad(f"Block {blocks} is missing; the log tells of {size} blocks.")
    verifier.feed(records.end(blocks, verifier.summary.rows))
    _check_spans(log)
    return verifier.finish()


def _compare(name: str, stored: dict[str, Any], due: dict[str, Any]) -> None:
    """Raise Bad where a column does not say what was signed."""
    for column, value in due.items():
        if stored[column] != value:
            raise Bad(f"{name} was changed after it was signed: its column {column} says something else.")


def _check_tombstones(log: Log) -> None:
    """Compare the columns by which a tombstone is looked up with its text, whose signature the verifier checks."""
    columns = ("id", "kind", "first_block", "last_block", "row_count", "removed_at", "text")
    selected = ", ".join(log.as_stored(name) for name in columns)
    for row in log.run(f"SELECT {selected} FROM invocations_audittombstone ORDER BY id").fetchall():  # noqa: S608
        stored = dict(zip(columns, row, strict=True))
        name = f"Tombstone {stored['id']}"
        try:
            told = loads(stored["text"])
            due = {
                "text": canonical(told).decode(), "kind": told["kind"], "first_block": told["first_block"],
                "last_block": told["last_block"], "row_count": told["count"],
                "removed_at": log.moment(datetime.fromisoformat(told["removed_at"])),
            }  # fmt: skip
        except (ValueError, TypeError, KeyError):
            raise Bad(f"{name} was changed after it was signed: its text cannot be read.") from None
        _compare(name, stored, due)


def _check_spans(log: Log) -> None:
    """Compare the rows that a tombstone lets go, which the rules in the database go by, with those of its blocks."""
    columns = ("id", "first_block", "last_block", *(f"{table}s_{end}" for table in TABLES for end in _ENDS))
    rows = log.run(f"SELECT {', '.join(columns)} FROM invocations_audittombstone ORDER BY id").fetchall()  # noqa: S608
    for row in rows:
        stored = dict(zip(columns, row, strict=True))
        first, last = log.block(stored["first_block"]), log.block(stored["last_block"])
        if first is None or last is None:
            raise Bad(f"Tombstone {stored['id']} tells of blocks that are not there.")
        spans = {table: (first.span(table)[0], last.span(table)[1]) for table in TABLES}
        due = {f"{table}s_{end}": spans[table][at] for table in TABLES for at, end in enumerate(_ENDS)}
        _compare(f"Tombstone {stored['id']}", stored, due)


def verify_block(log: Log, keys: KeyFolder, block: Block) -> None:
    """Raise Bad unless this block and its rows are as they were sealed."""
    verifier = Verifier(keys.publics(), digested=not log.is_sqlite)
    verifier.feed(records.begin(log, keys, block.number))
    for record in records.tombstones(log):
        verifier.feed(record)
    for record in records.records(log, block.number, block.number, digests=True):
        verifier.feed(record)
    verifier.feed(records.end(1, verifier.summary.rows))
    verifier.finish()
