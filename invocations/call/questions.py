"""What a running call asks its client, as rows beside the call's own: recorded before it is asked, and once answered.

Of the answer a keyed digest is kept, as of what redaction takes out: equal answers have equal ones.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from invocations.call.running import Call, Read
from invocations.ledger.records import Key, Outcome, new_invocation_id
from invocations.redaction.bodies import StoredBodies
from invocations.subject import RowSubject
from sessions_app.protocol import json
from sessions_app.protocol.errors import AuditUnavailable, Cancelled, HubError
from sessions_app.protocol.json import Json
from tools_catalog.policy.rules import NO_RULING

if TYPE_CHECKING:
    from invocations.calling import Calls

_ACTIONS = ("accept", "decline", "cancel")


class Question:
    """One question, and what its row will say. `close` it in the end."""

    key: Key | None = None
    session: str | None = None
    request_json: str | None = None
    ruling = NO_RULING
    guarded: str | None = None

    def __init__(self, calls: Calls, work: Call | Read, method: str, params: Mapping[str, Json]) -> None:
        """`params`: as the client gets them."""
        self._calls = calls
        self._is_open = True
        self._began = time.monotonic()
        self.invocation_id = new_invocation_id()
        self.configuration = work.configuration
        self.source = work.source
        self.tool = RowSubject(
            method=method,
            target=work.tool.name or work.tool.target or "",
            digest=work.tool.digest,
            connection=work.tool.connection,
            definition=work.tool.definition,
            asked_by=work.invocation_id,
            workspace=work.tool.workspace,
        )
        self.workspace = work.workspace
        text = json.canonical(dict(params))
        self.stored = StoredBodies(dict(params), text, self.configuration.redaction.of_read(self.tool))
        self.arguments, self.digest = self.stored.arguments, self.stored.digest
        self.received = time.time()

    def stored_with(self, outcome: str) -> StoredBodies:
        return self.stored

    async def intended(self) -> None:
        """Commit that it is about to be asked; raise AuditUnavailable where that fails."""
        await self._calls.intend(self)

    async def answered(self, answer: Mapping[str, Json]) -> None:
        """Commit that the client gave this answer, before anybody uses it."""
        told: dict[str, Any] = {"answer": self.configuration.redaction.tag(dict(answer))}
        if answer.get("action") in _ACTIONS:
            told["action"] = answer["action"]
        self._is_open = False
        await self._calls.record(self._outcome(json.canonical(told), None))

    def close(self, error: HubError | None = None) -> None:
        """Record that no answer came, or none of use, unless an answer is on record. Nobody waits for the commit."""
        if not self._is_open:
            return
        self._is_open = False
        with contextlib.suppress(AuditUnavailable):  # it is owed, or its envelope tells of it
            committed = self._calls.ledger.append(self._outcome(None, error or Cancelled()))
            committed.add_done_callback(lambda future: future.cancelled() or future.exception())

    def _outcome(self, result: str | None, error: HubError | None) -> Outcome:
        rendered, code = None, ""
        if error is not None:
            code = error.code
            rendered = self.configuration.errors.render(
                error, invocation_id=self.invocation_id, trace_id=self.source.trace_id, tool=self.tool.target
            )
        seconds = time.monotonic() - self._began
        row = self._calls.rows.outcome(self, self.received, seconds, result, code, rendered)
        return Outcome(row, self.invocation_id)


class Unrecorded:
    """In place of a question of work that leaves no row."""

    async def intended(self) -> None:
        pass

    async def answered(self, answer: Mapping[str, Json]) -> None:
        pass

    def close(self, error: HubError | None = None) -> None:
        pass


def question_of(calls: Calls | None, work: object, method: str, params: Mapping[str, Json]) -> Question | Unrecorded:
    if calls is None or not isinstance(work, Call | Read):
        return Unrecorded()
    return Question(calls, work, method, params)
