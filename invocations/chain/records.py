"""The log as the records that the verifier takes: from the database to a check, or to an export file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from invocations.chain.keys import KeyFolder
from invocations.chain.log import Block, Log, Values
from invocations.chain.tables import AUDITED
from invocations.chain.verifier import KEY_ROTATED, Bad, Spans, loads

Record = dict[str, Any]


@dataclass(frozen=True)
class RowSelection:
    """Which rows are shown; of the others only the hash. Empty: all."""

    tool: str = ""
    principal: str = ""
    session: str = ""
    status: str = ""
    received_from: str = ""
    received_until: str = ""
    """Times as in the rows: `2026-11-21T08:00:00.000000Z`; the second is excluded."""

    def words(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value}

    def takes(self, table: str, values: Values) -> bool:
        if table == "event":
            # What was introduced as a key is needed to verify what follows.
            return not self.words() or values["kind"] == KEY_ROTATED
        return (
            self.tool in ("", values["tool_name"])
            and self.principal in ("", values["principal"])
            and self.session in ("", values["session_id"])
            and (not self.status or values.get("status") == self.status)
            and self.received_from <= values["received_at"]
            and (not self.received_until or values["received_at"] < self.received_until)
        )


def begin(log: Log, keys: KeyFolder, first: int) -> Record:
    """Return the first record of an export: the state of the log before block `first`."""
    head = log.head(first)
    publics = keys.publics()
    return {
        "export": 1,
        "origin": publics[0].name if publics else "",
        "filters": {},
        "first_block": first,
        "first_position": head.position,
        "frontier": [root.hex() for root in head.tree.roots],
        "previous": head.previous,
        "through": head.through,
        "keys": [str(key) for key in publics],
        "checkpoint": None,
    }


def tombstones(log: Log) -> Iterator[Record]:
    rows = log.run("SELECT id, text, signature FROM invocations_audittombstone ORDER BY id").fetchall()
    for number, text, signature in rows:
        try:
            yield {"tombstone": loads(text), "signature": signature}
        except ValueError:
            raise Bad(f"Tombstone {number} was changed after it was signed: its text is no JSON.") from None


def removed(log: Log, *kinds: str) -> Spans:
    """Return the blocks of which retention removed this."""
    spans = Spans()
    for kind, first, last in log.run("SELECT kind, first_block, last_block FROM invocations_audittombstone").fetchall():
        if kind in kinds:
            spans.add(first, last)
    return spans


def records(
    log: Log,
    first: int = 0,
    last: int | None = None,
    selection: RowSelection | None = None,
    *,
    digests: bool = False,
    sealed: Callable[[int], object] | None = None,
) -> Iterator[Record]:
    """Return block after block with its rows; `sealed` receives the number of rows of each."""
    gone = removed(log, "rows")
    for block in log.blocks(first, last):
        if gone.cover(block.number):
            yield _block(block, "removed")
            yield from _strays(log, block)
        else:
            yield from _shown(block, _rows(log, block, digests), selection)
        if sealed is not None:
            sealed(block.header["count"])


def _block(block: Block, rows: str) -> Record:
    return {"block": block.header, "signature": block.signature, "rows": rows}


def _shown(block: Block, rows: Iterator[Record], selection: RowSelection | None) -> Iterator[Record]:
    """Return the block with the rows that were selected; without any, the block alone."""
    if selection is None or not selection.words():
        yield _block(block, "here")
        yield from rows
        return
    waiting: list[Record] | None = []
    for row in rows:
        if selection.takes(row["row"], row["values"]):
            if waiting is not None:
                yield _block(block, "here")
                yield from waiting
                waiting = None
            yield row
            continue
        stub = {name: row[name] for name in ("row", "id", "position", "hash")}
        if waiting is None:
            yield stub
        else:
            waiting.append(stub)
    if waiting is not None:
        yield _block(block, "omitted")


def _rows(log: Log, block: Block, digests: bool) -> Iterator[Record]:
    """Return the rows of a block beside the sealed leaves; mismatches carry a `problem`."""
    leaves = log.leaves(block.number) or []
    if len(leaves) > block.header["count"]:
        raise Bad(f"Block {block.number}: the stored hashes of its rows are more than were sealed.")
    position = block.header["first"]
    at = 0
    for of in AUDITED:
        after, through, count = block.header[of.name]
        due = leaves[at : at + count]
        at += count
        waiting = iter(due)
        leaf = next(waiting, None)
        for values in log.rows(of, after, through, digests=digests):
            while leaf is not None and leaf[0] < values["id"]:
                yield _problem(of.name, leaf[0], position, "was deleted after it was sealed")
                position, leaf = position + 1, next(waiting, None)
            if leaf is None or leaf[0] > values["id"]:
                yield _problem(of.name, values["id"], position, "was inserted after the block was sealed")
                continue
            yield {"row": of.name, "id": leaf[0], "position": position, "hash": leaf[1].hex(), "values": values}
            position, leaf = position + 1, next(waiting, None)
        while leaf is not None:
            yield _problem(of.name, leaf[0], position, "was deleted after it was sealed")
            position, leaf = position + 1, next(waiting, None)


def _problem(table: str, row_id: int, position: int, words: str) -> Record:
    return {"row": table, "id": row_id, "position": position, "hash": "", "values": {}, "problem": words}


def _strays(log: Log, block: Block) -> Iterator[Record]:
    """Return the rows that stand where retention left none."""
    for of in AUDITED:
        for values in log.rows(of, *block.span(of.name), 1):
            yield _problem(of.name, values["id"], block.header["first"], "was inserted where rows had been removed")


def end(blocks: int, rows: int) -> Record:
    return {"end": {"blocks": blocks, "rows": rows}}
