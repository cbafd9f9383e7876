"""What one transaction of the ledger does with the records of a batch, and what it found."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeGuard

from django.conf import settings

from invocations.ledger import buckets, postgresql, statements
from invocations.ledger.charges import Counting
from invocations.ledger.records import CallRecord, Intent, Key, Outcome, Record, Take, Touch, Use, Verdict
from invocations.quotas.quota import Spent
from sessions_app.kit.database import Dedicated

_FINE = Verdict()
"""The verdict of most records: nothing is to be said. Shared, so it is never changed."""
_LEAST_TOUCHES = 1_000
"""So many are kept without a look at what is over."""

Firsts = dict[tuple[str, str], tuple[str, str]]
"""Scope and key -> id and fingerprint of the call that was first."""


class Batches:
    """Used by the ledger's thread alone."""

    def __init__(self, connect: Callable[[Callable[[Any, bool], None]], Dedicated], bound_seconds: float) -> None:
        """`connect(prepare)` gives the connection to write on."""
        self._database = connect(self._prepare)
        self.is_sqlite = self._database.is_sqlite
        self._bound_seconds = bound_seconds
        self._idle_seconds = settings.MCPHUB_SESSION_IDLE_SECONDS
        self._touch_seconds = min(10.0, self._idle_seconds / 20)
        """A session's activity is written at most so often."""
        self._touched: dict[str, float] = {}
        self._most_touched = _LEAST_TOUCHES
        self._committing = False
        self.poison = statements.poison(self.is_sqlite)
        """What a record's own content may raise: the others of its batch are then written one by one."""
        self.not_durable: str | None = None
        """Why a commit might not survive a crash of the machine; None when it does."""

    def close(self) -> None:
        self._database.close()

    def may_have_committed(self, error: Exception) -> bool:
        """Whether a transaction that ended with this error may be committed nevertheless."""
        return self._committing and not statements.was_undone(error)

    def _prepare(self, raw: object, is_sqlite: bool) -> None:
        self.not_durable = statements.prepare(raw, is_sqlite, self._bound_seconds)

    def transact(self, batch: list[Record]) -> list[Verdict]:
        """Commit the records and give a verdict on each. What it raises, the whole batch has met."""
        self._committing = False
        intents: list[Intent] = []
        outcomes: list[Outcome] = []
        plain, counts = True, False
        for record in batch:
            if type(record) is Outcome:
                outcomes.append(record)
            elif type(record) is Intent:
                intents.append(record)
            else:
                plain = False
                counts = counts or type(record) is Use
                continue
            if record.session_id is not None or record.key is not None:
                plain = False
            if record.charges:
                counts = True
        frees = any(record.frees is not None for record in outcomes)
        if plain and not frees and not counts and self._append(intents, outcomes):
            return [_FINE] * len(batch)
        if plain or frees or counts or self.is_sqlite or any(type(record) is Take for record in batch):
            return self._step_by_step(batch)
        return self._at_once(batch, intents, outcomes)

    def _append(self, intents: list[Intent], outcomes: list[Outcome]) -> bool:
        """Append what needs nothing to be true; False where some outcome was there already."""
        database = self._database
        if not self.is_sqlite:
            self._committing = True
            return postgresql.append(database, intents, outcomes)
        if not intents or not outcomes:
            rows = [record.row for record in outcomes or intents]
            if len(rows) <= statements.MOST_ROWS:
                self._committing = True
                table = statements.INVOCATION if outcomes else statements.ENVELOPE
                return statements.insert(database, table, rows) == len(rows) or not outcomes
        with statements.transaction(database):
            statements.insert(database, statements.ENVELOPE, [record.row for record in intents])
            new = statements.insert(database, statements.INVOCATION, [record.row for record in outcomes])
            self._committing = True
        return new == len(outcomes)

    def _at_once(self, batch: list[Record], intents: list[Intent], outcomes: list[Outcome]) -> list[Verdict]:
        now = time.time()
        ids = {record.session_id for record in batch if record.session_id}
        stale = self._stale(ids, now)
        self._committing = True
        alive, appended = postgresql.append_gated(
            self._database, intents, outcomes, sorted(ids), sorted(stale), now, now + self._idle_seconds
        )
        self._touched_now(stale, now)
        calls: list[Intent | Outcome] = [*intents, *outcomes]
        left: list[Record] = [record for record in calls if record.invocation_id not in appended]
        verdicts = dict(zip(map(id, left), self._step_by_step(left), strict=True)) if left else {}
        return [
            _verdict(record, alive) if type(record) is Touch else verdicts.get(id(record), _FINE) for record in batch
        ]

    def _step_by_step(self, batch: list[Record]) -> list[Verdict]:
        now = time.time()
        with statements.transaction(self._database):
            alive = self._check_sessions(batch, now)
            firsts = self._claim_keys(batch, alive, now)
            accepted = [record for record in batch if self._is_accepted(record, alive, firsts)]
            uses = [record for record in batch if type(record) is Use and not record.in_doubt]
            counting = self._counting(accepted, uses, now)
            full: dict[str, Spent] = {}
            if counting is not None:
                full = self._admit(counting, accepted)
                accepted = [record for record in accepted if record.invocation_id not in full]
            rows = [record.row for record in accepted if type(record) is Intent]
            if rows:
                statements.insert(self._database, statements.ENVELOPE, rows)
            # In one order in every process: no deadlock.
            takes = sorted((record for record in batch if type(record) is Take), key=lambda take: take.bucket)
            drawn = {id(record): buckets.take(self._database, record, now) for record in takes}
            superseded: set[str] = set()
            rows = [record.row for record in accepted if type(record) is Outcome]
            if rows and statements.insert(self._database, statements.INVOCATION, rows) != len(rows):
                superseded = statements.superseded(self._database, rows)
            if counting is not None:
                for outcome in accepted:
                    if type(outcome) is Outcome and outcome.charges and outcome.invocation_id not in superseded:
                        counting.add(outcome.charges)
                for use in uses:
                    counting.add(use.charges or ())
                counting.write()
            for record in accepted:
                if type(record) is Outcome and record.frees is not None:
                    statements.free_key(self._database, record.frees, record.invocation_id)
            self._committing = True
        if (
            not firsts
            and not drawn
            and not superseded
            and counting is None
            and all(record.session_id is None or record.session_id in alive for record in batch)
        ):
            return [_FINE] * len(batch)
        verdicts = [_verdict(record, alive, firsts, drawn, superseded) for record in batch]
        if counting is not None:
            for each, verdict in zip(batch, verdicts, strict=True):
                if type(each) is Intent:
                    _say_spent(each, verdict, counting, full)
                elif type(each) is Use and not each.in_doubt:
                    verdict.spent = counting.spent(each)
        return verdicts

    def _counting(self, accepted: list[CallRecord], uses: list[Use], now: float) -> Counting | None:
        """Give the sums that quotas of these records add to; None where no quota concerns them.

        What a commit may have counted already, whose end nobody heard, is not counted twice.
        """
        if not uses and not any(record.charges for record in accepted):
            return None
        doubted = [record for record in accepted if record.in_doubt and record.charges]
        if doubted:
            there = statements.recorded(
                self._database,
                [record.invocation_id for record in doubted if type(record) is Intent],
                [record.invocation_id for record in doubted if type(record) is Outcome],
            )
            for record in doubted:
                if record.invocation_id in there[type(record) is Outcome]:
                    record.charges = None
        return Counting(self._database, [*accepted, *uses], now)

    def _admit(self, counting: Counting, accepted: list[CallRecord]) -> dict[str, Spent]:
        """Count the intents; give those that a quota refuses, which let go of their keys."""
        full: dict[str, Spent] = {}
        for record in accepted:
            if type(record) is Intent and record.charges and (spent := counting.admit(record)) is not None:
                full[record.invocation_id] = spent
                if record.key is not None:
                    statements.free_key(self._database, record.key, record.invocation_id)
        return full

    def _check_sessions(self, batch: list[Record], now: float) -> set[str]:
        ids = {record.session_id for record in batch if record.session_id}
        if not ids:
            return set()
        stale = self._stale(ids, now)
        expires = now + self._idle_seconds
        alive = statements.live_sessions(self._database, sorted(ids), sorted(stale), now, expires)
        self._touched_now(stale, now)
        return alive

    def _stale(self, ids: set[str], now: float) -> set[str]:
        touched = self._touched
        return {id_ for id_ in ids if now - touched.get(id_, 0) >= self._touch_seconds}

    def _touched_now(self, ids: set[str], now: float) -> None:
        self._touched.update(dict.fromkeys(ids, now))
        if len(self._touched) > self._most_touched:
            # Most sessions are over within minutes; those that call are written again anyway.
            self._touched = {id_: at for id_, at in self._touched.items() if now - at < self._touch_seconds}
            self._most_touched = max(_LEAST_TOUCHES, 2 * len(self._touched))

    def _claim_keys(self, batch: list[Record], alive: set[str], now: float) -> Firsts:
        claims = [
            (*record.key, record.invocation_id)
            for record in batch
            if isinstance(record, Intent | Outcome)
            and record.key is not None
            and (record.session_id is None or record.session_id in alive)
        ]
        return statements.claim_keys(self._database, claims, now) if claims else {}

    @staticmethod
    def _is_accepted(record: Record, alive: set[str], firsts: Firsts) -> TypeGuard[CallRecord]:
        return (
            isinstance(record, Intent | Outcome)
            and (record.session_id is None or record.session_id in alive)
            and _is_first(record.key, record.invocation_id, firsts)
        )


def _is_first(key: Key | None, invocation_id: str, firsts: Firsts) -> bool:
    first = None if key is None else firsts.get(key[:2])
    return first is None or first[0] == invocation_id


def _verdict(
    record: Record,
    alive: set[str],
    firsts: Firsts | None = None,
    drawn: dict[int, tuple[float, float]] | None = None,
    superseded: set[str] | None = None,
) -> Verdict:
    if type(record) is Take:
        wait_seconds, tokens = drawn[id(record)] if drawn else (0.0, 0.0)
        return Verdict(wait_seconds=wait_seconds, tokens=tokens)
    verdict = Verdict(session_alive=record.session_id is None or record.session_id in alive)
    if isinstance(record, Intent | Outcome):
        if record.key is not None and firsts and not _is_first(record.key, record.invocation_id, firsts):
            verdict.first_invocation_id, verdict.first_fingerprint = firsts[record.key[:2]]
        verdict.superseded = bool(superseded) and record.invocation_id in (superseded or ())
    return verdict


def _say_spent(record: Intent, verdict: Verdict, counting: Counting, full: dict[str, Spent]) -> None:
    """Tell an intent what quotas say of it; of one that repeats a refused one, what they say of that."""
    refusal = full.get(verdict.first_invocation_id or record.invocation_id)
    if refusal is not None:
        verdict.refused_by, verdict.first_invocation_id = refusal, ""
    elif not verdict.first_invocation_id and verdict.session_alive:
        verdict.spent = counting.spent(record)
