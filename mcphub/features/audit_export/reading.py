"""The sealed log as a sequence of records, from any position on, in batches. Needs no Django.

The records are those of an export (`records.py`), so a destination's files can be verified as one. Only sealed rows
are read: below them nothing can come to light any more, on either database.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from invocations.chain import records
from invocations.chain.keys import KeyFolder
from invocations.chain.log import Block, Log, Values
from invocations.chain.records import Record
from invocations.chain.tables import AUDITED, Audited
from invocations.chain.verifier import REMOVALS, body_digest, canonical, erased_digest, loads
from invocations.chain.watching import Rewritten

LEFT_OUT = "left out"
"""The first record's marker for digests in place of all bodies."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a target has got: `position` is the next row; `block` the last block of which something went."""

    position: int
    block: int | None = None
    tree_root: str = ""
    begun: bool = False
    """Whether the first record, with the prior state of the log, has been sent."""


@dataclass(frozen=True, slots=True)
class Portion:
    """The content of a destination, and the size of a delivery."""

    with_bodies: bool = False
    only_checkpoints: bool = False
    most_rows: int = 500
    most_bytes: int = 4 * 1024 * 1024
    """Of JSON; one row may be more."""


@dataclass(slots=True)
class Shipment:
    """Records in the order of the log, each with its line of canonical JSON."""

    reached: Reached
    """Where the target stands once all have arrived."""
    first: int
    rows: int = 0
    size: int = 0
    since: datetime | None = None
    """When the oldest of its blocks was sealed."""
    records: list[tuple[Record, bytes]] = field(default_factory=list)
    is_full: bool = False
    """Whether more would have been there."""
    label: str = ""
    """Of a trial, which is no part of the log."""

    def add(self, record: Record) -> None:
        line = canonical(record) + b"\n"
        self.records.append((record, line))
        self.size += len(line)

    @property
    def stem(self) -> str:
        """The name of its file or object, without the ending: names sort in the order of the log."""
        last = max(self.first, self.reached.position - 1)
        return self.label or f"audit-{self.first:016d}-{last:016d}"

    @property
    def lines(self) -> bytes:
        return b"".join(line for _, line in self.records)


def trial(target: str, now: datetime) -> Shipment:
    """Return a shipment of one record that is marked as a test."""
    found = Shipment(Reached(0), 0, since=now, label=f"test-{now:%Y%m%dT%H%M%S%f}")
    found.add({"test": {"target": target, "at": now.isoformat(timespec="microseconds")}})
    return found


class ShippingReader:
    """Reads over one connection."""

    def __init__(self, log: Log, keys: KeyFolder) -> None:
        self._log = log
        self._keys = keys

    def next(self, reached: Reached, portion: Portion) -> Shipment | None:
        """Return the next shipment; None if there is none. Raises Rewritten where the log is not the one that went."""
        number = self._next_block(reached)
        block = self._log.block(number)
        if block is None:
            return None
        found = Shipment(reached, reached.position)
        gone = records.removed(self._log, "rows")
        if not reached.begun:
            self._begin(found, portion, number)
        while block is not None:
            self._take(found, block, portion, is_removed=gone.cover(block.number))
            if found.rows >= portion.most_rows or found.size >= portion.most_bytes:
                found.is_full = True
                break
            block = self._log.block(block.number + 1)
        return found

    def _next_block(self, reached: Reached) -> int:
        if reached.block is None:
            return 0
        last = self._log.block(reached.block)
        if last is None or last.tree_root.hex() != reached.tree_root:
            raise Rewritten(
                f"Block {reached.block} is not the one that was shipped: the log was cut or rewritten, or an old copy "
                "was restored. After `mcphub audit verify` found nothing, `mcphub audit ship rewind` goes on."
            )
        return reached.block + int(reached.position >= last.header["first"] + last.header["count"])

    def _begin(self, found: Shipment, portion: Portion, number: int) -> None:
        begin = records.begin(self._log, self._keys, number)
        found.add(begin if portion.with_bodies else {**begin, "bodies": LEFT_OUT})
        for tombstone in records.tombstones(self._log):
            found.add(tombstone)

    def _take(self, found: Shipment, block: Block, portion: Portion, *, is_removed: bool) -> None:
        header = block.header
        first, count = header["first"], header["count"]
        done = found.reached.position - first
        leaves = None if is_removed or portion.only_checkpoints else self._log.leaves(block.number)
        if done == 0:
            state = "omitted" if portion.only_checkpoints else "here" if leaves is not None else "removed"
            found.add(self._opened(block, state))
        if found.since is None:
            found.since = datetime.fromisoformat(header["sealed_at"])
        if leaves is None:
            done = count
        else:
            for record in self._rows(block, leaves, done, portion):
                if record["row"] == "event" and record["values"].get("kind") in REMOVALS:
                    for tombstone in self._tombstone_of(record["values"]):
                        found.add(tombstone)
                found.add(record)
                found.rows += 1
                done += 1
                if found.rows >= portion.most_rows or found.size >= portion.most_bytes:
                    break
        found.reached = Reached(first + done, block.number, block.tree_root.hex(), begun=True)

    def _opened(self, block: Block, rows: str) -> Record:
        from invocations.chain.sealer import checkpoint_note

        note = checkpoint_note(self._log, self._keys, block.number + 1)
        return {"block": block.header, "signature": block.signature, "rows": rows, "checkpoint": note}

    def _rows(self, block: Block, leaves: list[tuple[int, bytes]], done: int, portion: Portion) -> Iterator[Record]:
        position = block.header["first"]
        at = 0
        for of in AUDITED:
            count = block.header[of.name][2]
            skipped = min(max(0, done - at), count)
            due = leaves[at + skipped : at + count]
            position_of = position + at + skipped
            at += count
            if due:
                yield from self._paired(of, due[: portion.most_rows], position_of, portion.with_bodies)
                if len(due) > portion.most_rows:
                    return

    def _paired(self, of: Audited, due: list[tuple[int, bytes]], position: int, with_bodies: bool) -> Iterator[Record]:
        """Return the rows of these leaves. A removed one is sent in the form of an export, so that the destination
        sees it.
        """
        values_of = self._log.rows(of, due[0][0] - 1, due[-1][0], digests=not with_bodies)
        waiting = next(values_of, None)
        for at, (row_id, leaf) in enumerate(due):
            while waiting is not None and waiting["id"] < row_id:
                waiting = next(values_of, None)
            record: Record = {"row": of.name, "id": row_id, "position": position + at, "hash": leaf.hex()}
            if waiting is not None and waiting["id"] == row_id:
                record["values"] = waiting if with_bodies else digested(of, waiting)
            else:
                record |= {"values": {}, "problem": "was deleted after it was sealed"}
            yield record

    def _tombstone_of(self, values: Values) -> Iterator[Record]:
        """Return the signed tombstone of an event."""
        row = self._log.run(
            "SELECT signature FROM invocations_audittombstone WHERE text = ?", values["after"]
        ).fetchone()
        for signature in islice(row or (), 1):
            yield {"tombstone": loads(values["after"]), "signature": signature}

    def head(self) -> int:
        """Return the position after the newest sealed row."""
        last = self._log.block(self._log.size() - 1)
        return 0 if last is None else int(last.header["first"] + last.header["count"])


def digested(of: Audited, values: Values) -> dict[str, Any]:
    """Put its digest in the place of each body, as retention does: the row's hash covers digests only."""
    shown = dict(values)
    for name in of.bodies:
        body = shown.get(name)
        if body is not None and erased_digest(body) is None:
            shown[name] = f'"{body if body[:7] == "sha256:" else body_digest(body)}"'
    return shown
