"""Removes rows by policy: whole blocks, or the bodies in them, under a signed tombstone.

Rows of a legal hold stay with their whole blocks; so do rows that a destination still needs, and blocks that
introduced a key, which later blocks need for verification. A block is verified before removal: evidence of tampering
must not vanish. Each step is one transaction of the tombstone and the removal. Of a partitioned record (`months.py`)
rows stay until their whole month is old, and then its tables are dropped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from invocations.chain import checking, months, records
from invocations.chain.commanding import Signs
from invocations.chain.keys import KeyFolder, sign_tombstone
from invocations.chain.log import Block, Log
from invocations.chain.models import AuditHold, AuditPolicy, horizon
from invocations.chain.months import Month
from invocations.chain.tables import AUDITED, ENVELOPE, EVENT, INVOCATION, Audited
from invocations.chain.verifier import NOTHING, TABLES, body_digest, canonical, loads, tombstone_hash
from sessions_app.history import source
from sessions_app.history.events import Actor
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

_MOST_ROWS = 5000
_MOST_BLOCKS = 100
"""Under one tombstone, in one transaction: the ledger's writer waits for it. A month of a partitioned record goes under
one tombstone whatever its size, since its tables are dropped.
"""
_TRIES = 20
_PAUSE_SECONDS = 0.2
"""Between two tries to lock a month that a query reads."""


class StillRead(Exception):
    """A month could not be dropped, because queries read it all the time."""


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """Neighbouring blocks, all of which lose their rows, or the bodies in them; with the partitions that hold them."""

    kind: str
    first: Block
    last: Block
    month: Month | None = None

    @property
    def rows(self) -> int:
        return int(self.last.header["first"]) + int(self.last.header["count"]) - int(self.first.header["first"])


@dataclass(slots=True)
class VerifiedBlocks:
    """Through which block of the month to remove next a process has verified the rows."""

    through: int = -1


def due(log: Log, now: datetime | None = None) -> Iterator[RetentionPlan]:
    """Return the removals due by policy and not on hold, in order: perform each before the next."""
    policy = AuditPolicy.current()
    if policy.rows_days:
        before = horizon(policy.rows_days, now)
        if months.go_whole(log):
            start = 0
            for month in months.past(log, before):
                for plan in _plans_of_month(log, month, before, start):
                    start = plan.last.number + 1
                    yield plan
        else:
            yield from _plans(log, "rows", before)
    if policy.bodies_days:
        yield from _plans(log, "bodies", horizon(policy.bodies_days, now))


def apply(
    log: Log,
    keys: KeyFolder,
    *,
    who: Actor | None = None,
    most: int = 0,
    now: datetime | None = None,
    verified: VerifiedBlocks | None = None,
) -> tuple[int, int]:
    """Perform the removal; return the number of rows removed and of bodies erased.

    `most`: so many plans at a time, and as many rows of a month verified, which `verified` remembers; 0: all. Raises
    KeyProblem, StillRead, and Bad where a block is not as it was sealed: it is left as it is.
    """
    done = {"rows": 0, "bodies": 0}
    verified = verified or VerifiedBlocks()
    for plan in islice(due(log, now), most or None):
        if plan.month is None:
            checking.verify_blocks(log, keys, plan.first.number, plan.last.number)
        elif not _verify_some(log, keys, plan, verified, most * _MOST_ROWS):
            break
        _execute(log, plan, keys.signer(), who or Actor("hub"))
        done[plan.kind] += plan.rows
    if months.go_whole(log):
        _drop_empty(log, now)
        _remove_leaves(log)
    if any(done.values()):
        logger.info("Retention removed %d rows, and the bodies of %d", done["rows"], done["bodies"])
    return done["rows"], done["bodies"]


def _verify_some(log: Log, keys: KeyFolder, plan: RetentionPlan, verified: VerifiedBlocks, most: int) -> bool:
    """Verify some hundred blocks after another; return False where `most` rows were read before the last block."""
    at, rows = max(plan.first.number, verified.through + 1), 0
    while at <= plan.last.number:
        if most and rows >= most:
            return False
        through = min(at + _MOST_BLOCKS - 1, plan.last.number)
        checking.verify_blocks(log, keys, at, through)
        rows += sum(block.header["count"] for block in log.blocks(at, through))
        verified.through = through
        at = through + 1
    return True


def _plans_of_month(log: Log, month: Month, before: datetime, start: int) -> Iterator[RetentionPlan]:
    """Return one plan that drops the month, or those of its blocks where some rows of it stay.

    `start`: the first block that earlier plans leave.
    """
    size = log.size()
    ends = [log.block_of(table, row_id, size) for table, row_id in month.through.items() if row_id]
    sealed = [block for block in ends if block is not None]
    if not ends or len(sealed) < len(ends):
        return
    last = max(sealed, key=lambda block: block.number)
    shipped = shipped_through(log, "rows")
    if datetime.fromisoformat(last.header["sealed_at"]) >= before or (
        shipped is not None and last.header["first"] + last.header["count"] > shipped
    ):
        return  # the last calls of the month ended later
    gone = records.removed(log, "rows").merged()
    first = log.block(max([start, *(end + 1 for _, end in gone if end <= last.number)]))
    if first is None or first.number > last.number:
        return
    plan = RetentionPlan("rows", first, last, month)
    holds = list(AuditHold.objects.filter(released_at__isnull=True))
    stays = months.holds_before(log, month, {of.name: first.span(of.name)[0] for of in months.TABLES})
    if stays or _is_kept(log, plan, holds):
        yield from _plans(log, "rows", before, last.number)
    else:
        yield plan


def _plans(log: Log, kind: str, before: datetime, through: int | None = None) -> Iterator[RetentionPlan]:
    """Return what goes of the blocks sealed before then; `through`: of those up to this one."""
    holds = list(AuditHold.objects.filter(released_at__isnull=True))
    shipped = shipped_through(log, kind)
    run: list[Block] = []
    for block in _old(log, kind, before):
        if through is not None and block.number > through:
            break
        neighbours = not run or block.number == run[-1].number + 1
        if shipped is not None and block.header["first"] + block.header["count"] > shipped:
            break  # so do all that follow
        kept = _is_kept(log, RetentionPlan(kind, block, block), holds)
        size = sum(each.header["count"] for each in run) + block.header["count"]
        if run and (not neighbours or kept or size > _MOST_ROWS or len(run) == _MOST_BLOCKS):
            yield RetentionPlan(kind, run[0], run[-1])
            run = []
        if not kept:
            run.append(block)
    if run:
        yield RetentionPlan(kind, run[0], run[-1])


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


def _is_kept(log: Log, plan: RetentionPlan, holds: list[AuditHold]) -> bool:
    after, through = _span(plan, "event")
    if plan.kind == "rows" and _any(
        log, "sessions_app_auditevent", after, through, "kind IN ('audit.key_rotated', 'audit.key_lost')"
    ):
        return True
    return any(_holds(log, plan, hold) for hold in holds)


def _span(plan: RetentionPlan, table: str) -> tuple[int, int]:
    """Return after which ID the plan's rows of a table begin, and through which they go."""
    return plan.first.span(table)[0], plan.last.span(table)[1]


def _holds(log: Log, plan: RetentionPlan, hold: AuditHold) -> bool:
    if (hold.first_block is not None and plan.last.number < hold.first_block) or (
        hold.last_block is not None and plan.first.number > hold.last_block
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
    return any(_any(log, of.table, *_span(plan, of.name), condition, *values) for of in (ENVELOPE, INVOCATION))


def _any(log: Log, table: str, after: int, through: int, condition: str, *values: object) -> bool:
    query = f"SELECT 1 FROM {table} WHERE id > ? AND id <= ? AND {condition} LIMIT 1"  # noqa: S608 - our own names
    return log.run(query, after, through, *values).fetchone() is not None


# What goes ---------------------------------------------------------------------------------------------


def _execute(log: Log, plan: RetentionPlan, signer: Signs, who: Actor) -> None:
    """Sign before the transaction, which calls wait for: a key behind a command may take its time."""
    tries = 0
    while True:
        tombstone = _tombstone(log, plan, signer, datetime.now(UTC))
        try:
            if _remove_under(log, plan, tombstone, sign_tombstone(signer, tombstone), who):
                return
        except Exception as error:
            if not months.is_locked(error):
                raise
            tries += 1
            if tries == _TRIES:
                raise StillRead(
                    f"The month that ended on {plan.month and plan.month.until:%Y-%m-%d} could not be dropped: "
                    "queries read the calls all the time. Retention tries again at its next run."
                ) from error
            time.sleep(_PAUSE_SECONDS)  # the database signals no end of a query


def _remove_under(log: Log, plan: RetentionPlan, tombstone: dict[str, Json], signature: str, who: Actor) -> bool:
    """Write the tombstone and remove; False, and nothing done, where another tombstone came in between."""
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
            plan.first.number,
            plan.last.number,
            *[bound for table in TABLES for bound in _span(plan, table)],
            plan.rows,
            canonical(tombstone).decode(),
            signature,
            log.moment(datetime.fromisoformat(tombstone["removed_at"])),
        )
        log.add_event(f"audit.{plan.kind}_removed", *who, source.current().via, tombstone)
        if plan.kind == "bodies":
            _erase(log, plan)
        elif plan.month is None:
            _remove(log, plan)
        else:
            _remove_month(log, plan, plan.month)
    return True


def _last_tombstone(log: Log) -> str:
    before = log.run("SELECT text FROM invocations_audittombstone ORDER BY id DESC LIMIT 1").fetchone()
    return tombstone_hash(loads(before[0])) if before else NOTHING


def _tombstone(log: Log, plan: RetentionPlan, signer: Signs, now: datetime) -> dict[str, Json]:
    """Return the signed content of a removal. It names the tombstone before, so that none goes unseen."""
    return {
        "count": plan.rows,
        "first_block": plan.first.number,
        "key": signer.public.key_id,
        "kind": plan.kind,
        "last_block": plan.last.number,
        "last_hash": plan.last.leaf.hex(),
        "log": signer.public.name,
        "previous": _last_tombstone(log),
        "removed_at": now.isoformat(timespec="microseconds"),
    }


def _remove(log: Log, plan: RetentionPlan) -> None:
    for of in AUDITED:
        log.run(f"DELETE FROM {of.table} WHERE id > ? AND id <= ?", *_span(plan, of.name))  # noqa: S608 - our own names
    log.run(
        "DELETE FROM invocations_auditleaves WHERE block_id >= ? AND block_id <= ?", plan.first.number, plan.last.number
    )


def _remove_month(log: Log, plan: RetentionPlan, month: Month) -> None:
    """Delete what the blocks hold besides the month, and drop it last: from then to the commit no call is recorded.

    The leaves, a row a block, go afterwards.
    """
    log.run(f"DELETE FROM {EVENT.table} WHERE id > ? AND id <= ?", *_span(plan, "event"))  # noqa: S608 - our own names
    for table, others in months.siblings(log, month).items():
        for partition in others:
            log.run(f'DELETE FROM "{partition}" WHERE id > ? AND id <= ?', *_span(plan, table))  # noqa: S608 - as above
    months.drop(log, month)


def _drop_empty(log: Log, now: datetime | None) -> None:
    """Drop the months whose rows went one by one, because some of them were held."""
    policy = AuditPolicy.current()
    if not policy.rows_days:
        return
    for month in months.past(log, horizon(policy.rows_days, now)):
        if months.is_empty(log, month):
            try:
                with log.transaction():
                    months.drop(log, month)
            except Exception as error:
                if not months.is_locked(error):
                    raise
                return  # the next round finds it


def _remove_leaves(log: Log) -> None:
    """Remove the leaves of the last removal, some at a time."""
    newest = log.run(
        "SELECT first_block, last_block FROM invocations_audittombstone WHERE kind = 'rows' ORDER BY id DESC LIMIT 1"
    ).fetchone()
    while newest:
        removed = log.run(
            "DELETE FROM invocations_auditleaves WHERE block_id IN (SELECT block_id FROM invocations_auditleaves "
            "WHERE block_id >= ? AND block_id <= ? LIMIT ?)",
            *newest,
            _MOST_ROWS,
        ).rowcount
        if removed < _MOST_ROWS:
            return


def _erase(log: Log, plan: RetentionPlan) -> None:
    """Put the digest in the place of each body."""
    for of in (ENVELOPE, INVOCATION):
        after, through = _span(plan, of.name)
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
