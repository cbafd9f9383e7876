"""Removes rows by policy: whole blocks, or the bodies in them, under a signed tombstone.

Rows of a legal hold stay with their whole blocks; so do rows that a destination still needs, and blocks that
introduced a key, which later blocks need for verification. A block is verified before removal: evidence of tampering
must not vanish. Each step is one transaction of the tombstone and the removal.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from invocations.chain import checking, records
from invocations.chain.commanding import Signs
from invocations.chain.keys import KeyFolder, sign_tombstone
from invocations.chain.log import Block, Log
from invocations.chain.models import AuditHold, AuditPolicy, horizon
from invocations.chain.tables import AUDITED, ENVELOPE, INVOCATION, Audited
from invocations.chain.verifier import NOTHING, TABLES, body_digest, canonical, loads, tombstone_hash
from sessions_app.history import source
from sessions_app.history.events import Actor
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

_MOST_ROWS = 5000
_MOST_BLOCKS = 100
"""Under one tombstone, in one transaction: the ledger's writer waits for it."""


@dataclass
class RetentionPlan:
    """Neighbouring blocks, all of which lose their rows, or the bodies in them."""

    kind: str
    blocks: list[Block]

    @property
    def rows(self) -> int:
        return sum(int(block.header["count"]) for block in self.blocks)


def due(log: Log, now: datetime | None = None) -> Iterator[RetentionPlan]:
    """Return the removals due by policy and not on hold, in order: perform each before the next."""
    policy = AuditPolicy.current()
    if policy.rows_days:
        yield from _plans(log, "rows", horizon(policy.rows_days, now))
    if policy.bodies_days:
        yield from _plans(log, "bodies", horizon(policy.bodies_days, now))


def apply(
    log: Log, keys: KeyFolder, *, who: Actor | None = None, most: int = 0, now: datetime | None = None
) -> tuple[int, int]:
    """Perform the removal; return the number of rows removed and of bodies erased. `most` plans at a time, 0: all.

    Raises KeyProblem, and Bad where a block is not as it was sealed: it is left as it is.
    """
    done = {"rows": 0, "bodies": 0}
    for plan in islice(due(log, now), most or None):
        for block in plan.blocks:
            checking.verify_block(log, keys, block)
        _execute(log, plan, keys.signer(), who or Actor("hub"))
        done[plan.kind] += plan.rows
    if any(done.values()):
        logger.info("Retention removed %d rows, and the bodies of %d", done["rows"], done["bodies"])
    return done["rows"], done["bodies"]


def _plans(log: Log, kind: str, before: datetime) -> Iterator[RetentionPlan]:
    holds = list(AuditHold.objects.filter(released_at__isnull=True))
    shipped = shipped_through(log, kind)
    run: list[Block] = []
    for block in _old(log, kind, before):
        neighbours = not run or block.number == run[-1].number + 1
        if shipped is not None and block.header["first"] + block.header["count"] > shipped:
            break  # so do all that follow
        kept = _is_kept(log, block, kind, holds)
        size = sum(each.header["count"] for each in run) + block.header["count"]
        if run and (not neighbours or kept or size > _MOST_ROWS or len(run) == _MOST_BLOCKS):
            yield RetentionPlan(kind, run)
            run = []
        if not kept:
            run.append(block)
    if run:
        yield RetentionPlan(kind, run)


def _old(log: Log, kind: str, before: datetime) -> Iterator[Block]:
    """Return the blocks sealed before then that have not lost this yet."""
    start = 0
    for first, last in [*records.removed(log, kind, "rows").merged(), (None, None)]:
        for block in log.blocks(start, None if first is None else first - 1):
            if datetime.fromisoformat(block.header["sealed_at"]) >= before:
                return
            yield block
        start = (last or 0) + 1


def shipped_through(log: Log, kind: str) -> int | None:
    """Return the position that every destination has reached; None if retention waits for none."""
    condition = "" if kind == "rows" else " AND target.with_bodies = ?"
    found: int | None = log.run(
        "SELECT min(state.position) FROM invocations_shippingstate AS state JOIN invocations_shippingtarget AS target "  # noqa: S608
        "ON target.id = state.target_id WHERE target.enabled = ? AND target.holds_retention = ? "
        f"AND target.content = 'all'{condition}",
        *([True] * (2 if kind == "rows" else 3)),
    ).fetchone()[0]
    return found


def awaits_targets(log: Log, now: datetime | None = None) -> bool:
    """Return whether something that is due stays because a target of shipping has not got it."""
    policy = AuditPolicy.current()
    for kind, days in (("rows", policy.rows_days), ("bodies", policy.bodies_days)):
        shipped = shipped_through(log, kind)
        if days and shipped is not None:
            for block in _old(log, kind, horizon(days, now)):
                if block.header["first"] + block.header["count"] > shipped:
                    return True
    return False


def _is_kept(log: Log, block: Block, kind: str, holds: list[AuditHold]) -> bool:
    after, through = block.span("event")
    if kind == "rows" and _any(
        log, "sessions_app_auditevent", after, through, "kind IN ('audit.key_rotated', 'audit.key_lost')"
    ):
        return True
    return any(_holds(log, block, hold) for hold in holds)


def _holds(log: Log, block: Block, hold: AuditHold) -> bool:
    if (hold.first_block is not None and block.number < hold.first_block) or (
        hold.last_block is not None and block.number > hold.last_block
    ):
        return False
    conditions: list[str] = []
    values: list[Any] = []
    for column in ("tool_name", "principal", "session_id"):
        if wanted := getattr(hold, column):
            conditions.append(f"{column} = ?")
            values.append(wanted)
    for comparison, moment in ((">=", hold.received_from), ("<=", hold.received_until)):
        if moment is not None:
            conditions.append(f"received_at {comparison} ?")
            values.append(log.moment(moment))
    if not conditions:
        return True
    condition = " AND ".join(conditions)
    return any(_any(log, of.table, *block.span(of.name), condition, *values) for of in (ENVELOPE, INVOCATION))


def _any(log: Log, table: str, after: int, through: int, condition: str, *values: object) -> bool:
    query = f"SELECT 1 FROM {table} WHERE id > ? AND id <= ? AND {condition} LIMIT 1"  # noqa: S608 - our own names
    return log.run(query, after, through, *values).fetchone() is not None


# What goes ---------------------------------------------------------------------------------------------


def _execute(log: Log, plan: RetentionPlan, signer: Signs, who: Actor) -> None:
    """Sign before the transaction, which calls wait for: a key behind a command may take its time."""
    while True:
        tombstone = _tombstone(log, plan, signer, datetime.now(UTC))
        if _remove_under(log, plan, tombstone, sign_tombstone(signer, tombstone), who):
            return


def _remove_under(log: Log, plan: RetentionPlan, tombstone: dict[str, Json], signature: str, who: Actor) -> bool:
    """Write the tombstone and remove; False, and nothing done, where another tombstone came in between."""
    first, last = plan.blocks[0], plan.blocks[-1]
    with log.transaction():
        if not log.is_sqlite:  # there no two write at once; each tombstone names the one before
            log.run("SELECT pg_advisory_xact_lock(hashtext('mcphub tombstones'))")
        if tombstone["previous"] != _last_tombstone(log):
            return False
        log.run(
            "INSERT INTO invocations_audittombstone (kind, first_block, last_block, envelopes_after, "
            "envelopes_through, invocations_after, invocations_through, events_after, events_through, row_count, "
            "text, signature, removed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            plan.kind,
            first.number,
            last.number,
            *[bound for table in TABLES for bound in (first.span(table)[0], last.span(table)[1])],
            plan.rows,
            canonical(tombstone).decode(),
            signature,
            log.moment(datetime.fromisoformat(tombstone["removed_at"])),
        )
        for block in plan.blocks:
            if plan.kind == "rows":
                _remove(log, block)
            else:
                _erase(log, block)
        log.add_event(f"audit.{plan.kind}_removed", *who, source.current().via, tombstone)
    return True


def _last_tombstone(log: Log) -> str:
    before = log.run("SELECT text FROM invocations_audittombstone ORDER BY id DESC LIMIT 1").fetchone()
    return tombstone_hash(loads(before[0])) if before else NOTHING


def _tombstone(log: Log, plan: RetentionPlan, signer: Signs, now: datetime) -> dict[str, Json]:
    """Return the signed content of a removal. It names the tombstone before, so that none goes unseen."""
    first, last = plan.blocks[0], plan.blocks[-1]
    return {
        "count": plan.rows,
        "first_block": first.number,
        "key": signer.public.key_id,
        "kind": plan.kind,
        "last_block": last.number,
        "last_hash": last.leaf.hex(),
        "log": signer.public.name,
        "previous": _last_tombstone(log),
        "removed_at": now.isoformat(timespec="microseconds"),
    }


def _remove(log: Log, block: Block) -> None:
    for of in AUDITED:
        log.run(f"DELETE FROM {of.table} WHERE id > ? AND id <= ?", *block.span(of.name))  # noqa: S608 - our own names
    log.run("DELETE FROM invocations_auditleaves WHERE block_id = ?", block.number)


def _erase(log: Log, block: Block) -> None:
    """Put the digest in the place of each body."""
    for of in (ENVELOPE, INVOCATION):
        after, through = block.span(of.name)
        if log.is_sqlite:
            _erase_on_sqlite(log, of, after, through)
            continue
        changes = ", ".join(
            f"{body} = '\"sha256:' || encode(pg_catalog.sha256(convert_to({body}, 'UTF8')), 'hex') || '\"'"
            for body in of.bodies
        )
        log.run(f"UPDATE {of.table} SET {changes} WHERE id > ? AND id <= ?", after, through)  # noqa: S608


def _erase_on_sqlite(log: Log, of: Audited, after: int, through: int) -> None:
    changes = ", ".join(f"{body} = ?" for body in of.bodies)
    # One row at a time: a body may be large, and a statement that reads must not meet its own changes.
    for (row_id,) in log.run(f"SELECT id FROM {of.table} WHERE id > ? AND id <= ?", after, through).fetchall():  # noqa: S608
        bodies = log.run(f"SELECT {', '.join(of.bodies)} FROM {of.table} WHERE id = ?", row_id).fetchone()  # noqa: S608
        digests = [None if body is None else f'"{body_digest(body)}"' for body in bodies]
        log.run(f"UPDATE {of.table} SET {changes} WHERE id = ?", *digests, row_id)  # noqa: S608
