"""The two commits of a call: its intent before the effect, its outcome before anybody learns of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from typing import Any

from invocations.ledger.parts import LedgerPart
from invocations.ledger.records import Intent, Outcome, Verdict
from invocations.ledger.rows import Recorded, Rows
from invocations.ledger.writer import Ledger
from sessions_app.kit import tracing
from sessions_app.protocol.errors import AuditUnavailable, Cancelled, HubError

logger = logging.getLogger(__name__)


class Commits:
    """One a process."""

    def __init__(self, ledger: Ledger, rows: Rows) -> None:
        self.ledger = ledger
        self.rows = rows

    def intend(self, record: Recorded, brings: Mapping[LedgerPart, Any] | None = None) -> Awaitable[Verdict]:
        """Commit the intent; return the verdict. `brings`: its additions to parts of the commit."""
        intent = Intent(self.rows.envelope(record), record.invocation_id, record.key, record.session)
        if brings:
            intent.brings = brings
        if tracing.recorder is None:
            return self._committed(record, intent)
        return self._in_span(record, intent)

    async def _in_span(self, record: Recorded, intent: Intent) -> Verdict:
        with tracing.span("mcphub.ledger.intent"):
            return await self._committed(record, intent)

    async def record(self, outcome: Outcome) -> Verdict:
        """Commit the outcome; raise AuditUnavailable where another process has closed the call."""
        if tracing.recorder is None:
            verdict = await self.ledger.append(outcome)
        else:
            with tracing.span("mcphub.ledger.outcome"):
                verdict = await self.ledger.append(outcome)
        if verdict.superseded:
            error = AuditUnavailable(
                "The call was taken for dead and recorded as interrupted, so its answer is withheld. "
                "Look the invocation up before trying again."
            )
            error.invocation_id = outcome.invocation_id
            raise error
        return verdict

    async def _committed(self, record: Recorded, intent: Intent) -> Verdict:
        committed = self.ledger.append(intent)
        intent.on_abandoned = lambda verdict: self._disown(
            record, verdict, Cancelled() if committed.cancelled() else AuditUnavailable()
        )
        try:
            return await committed
        except asyncio.CancelledError:
            if not committed.cancelled() and committed.exception() is None:
                self._disown(record, committed.result(), Cancelled())  # the verdict came in the same moment
            raise

    def _disown(self, record: Recorded, verdict: Verdict, error: HubError) -> None:
        """Close an intent whose caller left before the commit was reported: nothing ran."""
        if verdict.session_alive and not verdict.first_invocation_id and verdict.refused_by is None:
            rendered = record.configuration.errors.render(error, invocation_id=record.invocation_id)
            row = self.rows.outcome(record, time.time(), 0, None, error.code, rendered)
            outcome = Outcome(row, record.invocation_id)
            if isinstance(error, AuditUnavailable):
                outcome.frees = record.key  # its caller was told to try again
            try:
                future = self.ledger.append(outcome)
                future.add_done_callback(lambda future: future.cancelled() or future.exception())
            except AuditUnavailable:
                logger.warning("The intent %s stays without an outcome until recovery", record.invocation_id)
