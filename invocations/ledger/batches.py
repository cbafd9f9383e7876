"""The work of one ledger transaction for the records of a batch, and its findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from django.conf import settings

from invocations.ledger import buckets, postgresql, statements
from invocations.ledger.parts import BatchPart, LedgerPart
from invocations.ledger.records import CallRecord, Intent, Key, Outcome, Record, Take, Touch, Use, Verdict
from sessions_app.kit.database import Dedicated

_FINE = Verdict()
"""The verdict of most records: nothing to report. Shared, so it is never changed."""
_LEAST_TOUCHES = 1_000
"""This many are kept without checking for expired ones."""

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
        """Errors that a record's own content can raise: its batch is then written one by one."""
        self.not_durable: str | None = None
        """Why a commit might not survive a crash of the machine; None when it does."""

    def close(self) -> None:
        self._database.close()

    def may_have_committed(self, error: Exception) -> bool:
        """Return whether a transaction that ended with this error may be committed nevertheless."""
        return self._committing and not statements.was_undone(error)

    def _prepare(self, raw: object, is_sqlite: bool) -> None:
        self.not_durable = statements.prepare(raw, is_sqlite, self._bound_seconds)

    def transact(self, batch: list[Record]) -> list[Verdict]:
        """Commit the records and give a verdict on each. An exception concerns the whole batch."""
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
            if record.brings:
                counts = True
        frees = any(record.frees is not None for record in outcomes)
        if plain and not frees and not counts and self._append(intents, outcomes):
            return [_FINE] * len(batch)
        if plain or frees or counts or self.is_sqlite or any(type(record) is Take for record in batch):
            return self._step_by_step(batch)
        return self._at_once(batch, intents, outcomes)

    def _append(self, intents: list[Intent], outcomes: list[Outcome]) -> bool:
        """Append unconditional records; False if an outcome existed already."""
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
        with database.transaction():
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
            Verdict(session_alive=record.session_id in alive)
            if type(record) is Touch
            else verdicts.get(id(record), _FINE)
            for record in batch
        ]

    def _step_by_step(self, batch: list[Record]) -> list[Verdict]:
        """Process the records in one transaction, in the same order in every process."""
        now = time.time()
        found = _Found()
        with self._database.transaction():
            found.alive = self._check_sessions(batch, now)
            found.firsts = self._claim_keys(batch, found.alive, now)
            accepted = [record for record in batch if found.accepts(record)]
            uses = [record for record in batch if type(record) is Use and not record.in_doubt]
            found.parts = self._opened(accepted, uses, now)
            if found.parts:
                self._admit(found, accepted)
                accepted = [record for record in accepted if record.invocation_id not in found.refused]
            self._write_envelopes(accepted)
            self._take(found, batch, now)
            self._write_invocations(found, accepted)
            if found.parts:
                self._count(found, accepted, uses)
            self._free_keys(accepted)
            self._committing = True
        return found.verdicts(batch)

    def _opened(self, accepted: list[CallRecord], uses: list[Use], now: float) -> dict[LedgerPart, BatchPart]:
        """Return the parts that these records bring something to; mostly none.

        Records that an unconfirmed commit may have counted are not counted twice.
        """
        self._forget_counted([record for record in accepted if record.in_doubt and record.brings])
        brought: dict[LedgerPart, list[Record]] = {}
        for record in (*accepted, *uses):
            for part in record.brings or ():
                brought.setdefault(part, []).append(record)
        return {
            part: part.open(self._database, brought[part], now) for part in sorted(brought, key=lambda part: part.name)
        }

    def _forget_counted(self, doubted: list[CallRecord]) -> None:
        if not doubted:
            return
        there = statements.recorded(
            self._database,
            [record.invocation_id for record in doubted if type(record) is Intent],
            [record.invocation_id for record in doubted if type(record) is Outcome],
        )
        for record in doubted:
            if record.invocation_id in there[type(record) is Outcome]:
                record.brings = None

    def _admit(self, found: _Found, accepted: list[CallRecord]) -> None:
        """Count the intents; those that a part refuses let go of their keys."""
        for record in accepted:
            if type(record) is not Intent or not record.brings:
                continue
            for part, brought in record.brings.items():
                if (reason := found.parts[part].admit(brought)) is not None:
                    found.refused[record.invocation_id] = part, reason
                    if record.key is not None:
                        statements.free_key(self._database, record.key, record.invocation_id)
                    break

    def _write_envelopes(self, accepted: list[CallRecord]) -> None:
        rows = [record.row for record in accepted if type(record) is Intent]
        if rows:
            statements.insert(self._database, statements.ENVELOPE, rows)

    def _take(self, found: _Found, batch: list[Record], now: float) -> None:
        # In one order in every process: no deadlock.
        takes = sorted((record for record in batch if type(record) is Take), key=lambda take: take.bucket)
        found.drawn = {id(record): buckets.take(self._database, record, now) for record in takes}

    def _write_invocations(self, found: _Found, accepted: list[CallRecord]) -> None:
        rows = [record.row for record in accepted if type(record) is Outcome]
        if rows and statements.insert(self._database, statements.INVOCATION, rows) != len(rows):
            found.superseded = statements.superseded(self._database, rows)

    @staticmethod
    def _count(found: _Found, accepted: list[CallRecord], uses: list[Use]) -> None:
        """Add the facts to the parts, and write them."""
        happened: list[Record] = [
            record
            for record in accepted
            if type(record) is Outcome and record.brings and record.invocation_id not in found.superseded
        ]
        for record in (*happened, *uses):
            for part, brought in (record.brings or {}).items():
                found.parts[part].add(brought)
        for opened in found.parts.values():
            opened.write()

    def _free_keys(self, accepted: list[CallRecord]) -> None:
        for record in accepted:
            if type(record) is Outcome and record.frees is not None:
                statements.free_key(self._database, record.frees, record.invocation_id)

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


@dataclass(slots=True)
class _Found:
    """The findings of a transaction about its batch, step by step."""

    alive: set[str] = field(default_factory=set)
    """Sessions that live."""
    firsts: Firsts = field(default_factory=dict)
    parts: Mapping[LedgerPart, BatchPart] = field(default_factory=dict)
    refused: dict[str, tuple[LedgerPart, Any]] = field(default_factory=dict)
    """Intents that a part refuses, by invocation."""
    drawn: dict[int, tuple[float, float]] = field(default_factory=dict)
    superseded: set[str] = field(default_factory=set)

    def accepts(self, record: Record) -> TypeGuard[CallRecord]:
        return (
            isinstance(record, Intent | Outcome)
            and self._is_in_session(record)
            and _is_first(record.key, record.invocation_id, self.firsts)
        )

    def verdicts(self, batch: list[Record]) -> list[Verdict]:
        is_plain = not (self.firsts or self.drawn or self.superseded or self.parts)
        if is_plain and all(map(self._is_in_session, batch)):
            return [_FINE] * len(batch)
        return [self._verdict(record) for record in batch]

    def _is_in_session(self, record: Record) -> bool:
        return record.session_id is None or record.session_id in self.alive

    def _verdict(self, record: Record) -> Verdict:
        if type(record) is Take:
            wait_seconds, tokens = self.drawn[id(record)]
            return Verdict(wait_seconds=wait_seconds, tokens=tokens)
        verdict = Verdict(session_alive=self._is_in_session(record))
        if isinstance(record, Intent | Outcome):
            if record.key is not None and not _is_first(record.key, record.invocation_id, self.firsts):
                verdict.first_invocation_id, verdict.first_fingerprint = self.firsts[record.key[:2]]
            verdict.superseded = record.invocation_id in self.superseded
        if type(record) is Intent:
            self._say_parts(record, verdict)
        elif type(record) is Use and not record.in_doubt:
            verdict.said = self._said(record)
        return verdict

    def _say_parts(self, record: Intent, verdict: Verdict) -> None:
        """Add the parts' statements about an intent; for a repeat of a refused one, those about the original."""
        refusal = self.refused.get(verdict.first_invocation_id or record.invocation_id)
        if refusal is not None:
            verdict.refused_by, verdict.first_invocation_id = refusal, ""
        elif record.brings and not verdict.first_invocation_id and verdict.session_alive:
            verdict.said = self._said(record)

    def _said(self, record: Record) -> dict[LedgerPart, Any]:
        return {part: self.parts[part].said(brought) for part, brought in (record.brings or {}).items()}


def _is_first(key: Key | None, invocation_id: str, firsts: Firsts) -> bool:
    first = None if key is None else firsts.get(key[:2])
    return first is None or first[0] == invocation_id
