"""`mcphub audit verify` over the database: the stand-alone verifier, fed from the tables."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from invocations.chain import records
from invocations.chain.keys import KeyFolder
from invocations.chain.log import Block, Log
from invocations.chain.verifier import (
    NOTHING,
    TABLES,
    Bad,
    Checkpoint,
    Frontier,
    PublicKey,
    Summary,
    Verifier,
    canonical,
    check_signature,
    leaf_hash,
    loads,
)

if TYPE_CHECKING:
    from sessions_app.protocol.json import Json

_ENDS = ("after", "through")
_SIGNATURES_AT_ONCE = 1000
"""Of a turn: of the blocks that came since the last one. The rest waits for the next round."""
_SAMPLE = 100
"""Of a turn: blocks among the older ones, drawn by lot."""


def verify(
    log: Log,
    keys: KeyFolder,
    trusted: Iterable[PublicKey],
    checkpoints: Iterable[Checkpoint],
    sealed: Callable[[int], object] | None = None,
) -> Summary:
    """Verify everything that is sealed at this moment; raise Bad at the first row that is not as it was.

    `sealed` receives the number of rows, block by block.
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


def _compare(name: str, stored: dict[str, Json], due: dict[str, Json]) -> None:
    """Raise Bad if a column differs from the signed content."""
    for column, value in due.items():
        if stored[column] != value:
            raise Bad(f"{name} was changed after it was signed: its column {column} says something else.")


def _check_tombstones(log: Log) -> None:
    """Compare the lookup columns of a tombstone with its text; the verifier checks the signature."""
    columns = ("id", "kind", "first_block", "last_block", "row_count", "removed_at", "text")
    selected = ", ".join(log.as_stored(name) for name in columns)
    for row in log.run(f"SELECT {selected} FROM invocations_audittombstone ORDER BY id").fetchall():  # noqa: S608
        stored = dict(zip(columns, row, strict=True))
        name = f"Tombstone {stored['id']}"
        try:
            tombstone = loads(stored["text"])
            due = {
                "text": canonical(tombstone).decode(),
                "kind": tombstone["kind"],
                "first_block": tombstone["first_block"],
                "last_block": tombstone["last_block"],
                "row_count": tombstone["count"],
                "removed_at": log.moment(datetime.fromisoformat(tombstone["removed_at"])),
            }
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
    verify_blocks(log, keys, block.number, block.number)


def verify_blocks(log: Log, keys: KeyFolder, first: int, last: int) -> None:
    """Raise Bad unless the blocks `first` to `last` and their rows are as they were sealed."""
    publics = keys.publics()
    check_signatures(log, {key.key_id: key for key in publics}, first, last)
    verifier = Verifier(publics, digested=not log.is_sqlite)
    verifier.feed(records.begin(log, keys, first))
    for record in records.tombstones(log):
        verifier.feed(record)
    for record in records.records(log, first, last, digests=True):
        verifier.feed(record)
    verifier.feed(records.end(last - first + 1, verifier.summary.rows))
    verifier.finish()


def check_signatures(log: Log, keys: Mapping[str, PublicKey], first: int, last: int) -> None:
    """Raise Bad unless each block follows the previous one, is signed by a key among `keys`, and its columns match
    its header. Rows are not read.

    The nodes before `first` are taken as stored. A change to them changes a block that no longer fits.
    """
    tree = Frontier(first, log.frontier(first))
    previous = log.node(0, first - 1).hex() if first else NOTHING
    due = first
    at_once = min(200, last - first + 1)
    for block, stored in zip(log.blocks(first, last, at_once), log.derived(first, at_once), strict=False):
        if block.number != due or stored["number"] != due:
            raise Bad(f"Block {due} is missing: block {block.number} stands in its place.")
        try:
            if block.header["previous"] != previous:
                raise Bad(f"Block {due} does not follow the block before it.")
            leaf = block.leaf
            made = tree.append(leaf)
            check_signature(block.header, block.signature, keys, tree)
            _compare(f"Block {due}", stored, log.derive(block.header, made, tree.root()))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            raise Bad(f"Block {due} was changed after it was sealed: its header cannot be read.") from None
        previous = leaf.hex()
        due += 1
    if due <= last:
        raise Bad(f"Block {due} is missing; the log tells of more blocks.")


class Sweep:
    """Verifies the log bit by bit.

    At each turn: the signatures of all blocks since the last turn, and of some older ones drawn by lot; then, with
    their rows, the newest blocks, and of the others those that follow its last turn's. It begins anywhere among the
    latter, so that short-lived processes do not look at the same blocks again and again.
    """

    def __init__(self, log: Log, keys: KeyFolder, signed: int = 0, at_once: int = _SIGNATURES_AT_ONCE) -> None:
        """`signed`: through so many blocks an earlier process has verified the signatures."""
        self._log = log
        self._keys = keys
        self._signed = signed
        self._at_once = at_once
        self._newest = 0
        self._next: int | None = None
        self.looked_at = 0
        """Blocks that the last turn read with their rows."""

    @property
    def is_behind(self) -> bool:
        """Whether the last round left blocks with unverified signatures."""
        return self._signed < self._newest

    def turn(self, seconds: float) -> int:
        """Verify; rows for about so long. Give how many blocks' signatures are verified by now. Raises Bad."""
        size = self._log.size()
        self.looked_at = 0
        self._check_signatures(size)
        for numbers in (self._unseen(size), self._others(size)):
            until = time.monotonic() + seconds / 2
            for number in numbers:
                block = self._log.block(number)
                if block is None:
                    raise Bad(f"Block {number} is missing; the log tells of {size} blocks.")
                verify_block(self._log, self._keys, block)
                self.looked_at += 1
                if time.monotonic() >= until:
                    break
        self._newest = size
        return self._signed

    def _check_signatures(self, size: int) -> None:
        keys = {key.key_id: key for key in self._keys.publics()}
        first = min(self._signed, size)
        through = min(size, first + self._at_once)
        if first < through:
            check_signatures(self._log, keys, first, through - 1)
        for number in random.sample(range(first), min(first, _SAMPLE)):
            check_signatures(self._log, keys, number, number)
        self._signed = through

    def _unseen(self, size: int) -> Iterator[int]:
        yield from range(size - 1, self._newest - 1, -1)

    def _others(self, size: int) -> Iterator[int]:
        for _ in range(size):
            at = random.randrange(size) if self._next is None else self._next % size  # noqa: S311 - no secret
            self._next = at + 1
            yield at
