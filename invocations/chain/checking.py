"""`mcphub audit verify` over the database: the stand-alone verifier, fed from the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from invocations.chain import records
from invocations.chain.keys import KeyFolder
from invocations.chain.log import Block, Log
from invocations.chain.verifier import Bad, Checkpoint, PublicKey, Summary, Verifier


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
    for record in records.tombstones(log):
        verifier.feed(record)
    blocks = 0
    for record in records.records(log, 0, size - 1, digests=True, sealed=sealed):
        blocks += "block" in record
        verifier.feed(record)
    if blocks != size:
        raise Bad(f"Block {blocks} is missing; the log tells of {size} blocks.")
    verifier.feed(records.end(blocks, verifier.summary.rows))
    return verifier.finish()


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
