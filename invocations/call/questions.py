"""Questions of a running call to its client, as rows beside its own: recorded before they are sent, and once
answered.

The answer is kept as a keyed digest, like redacted values: equal answers have equal digests.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from invocations.call.committing import Commits
from invocations.ledger.records import Key, Outcome, new_invocation_id
from invocations.ledger.rows import Recorded
from invocations.redaction.bodies import StoredBodies
from invocations.subject import RowSubject
from sessions_app.protocol import json
from sessions_app.protocol.errors import AuditUnavailable, Cancelled, HubError
from sessions_app.protocol.json import Json
from tools_catalog.call.noted import NOTHING_NOTED, Noted

_ACTIONS = ("accept", "decline", "cancel")


class Question:
    """One question, and the content of its row. `close` it in the end."""

    key: Key | None = None
    session: str | None = None
    request_json: str | None = None
    noted = NOTHING_NOTED

    def __init__(self, commits: Commits, asking: Recorded, method: str, params: Mapping[str, Json]) -> None:
        """`params`: as the client gets them."""
        self._commits = commits
        self._is_open = True
        self._began = time.monotonic()
        self.invocation_id = new_invocation_id()
        self.configuration = asking.configuration
        self.source = asking.source
        self.tool = RowSubject(
            method=method,
            target=asking.tool.name or asking.tool.target or "",
            digest=asking.tool.digest,
            connection=asking.tool.connection,
            definition=asking.tool.definition,
            asked_by=asking.invocation_id,
            workspace=asking.tool.workspace,
        )
        self.workspace = asking.workspace
        text = json.canonical(dict(params))
        self.stored = StoredBodies(dict(params), text, self.configuration.redaction.of_read(self.tool))
        self.arguments, self.digest = self.stored.arguments, self.stored.digest
        self.received = time.time()

    def stored_with(self, outcome: str) -> StoredBodies:
        return self.stored

    def note(self, noted: Noted) -> None:
        self.noted = noted.over(self.noted)

    async def intended(self) -> None:
        """Commit that it is about to be asked; raise AuditUnavailable where that fails."""
        await self._commits.intend(self)

    async def answered(self, answer: Mapping[str, Json]) -> None:
        """Commit that the client gave this answer, before anybody uses it."""
        told: dict[str, Any] = {"answer": self.configuration.redaction.tag(dict(answer))}
        if answer.get("action") in _ACTIONS:
            told["action"] = answer["action"]
        self._is_open = False
        await self._commits.record(self._outcome(json.canonical(told), None))

    def close(self, error: HubError | None = None) -> None:
        """Record that no answer came, or none of use, unless an answer is on record. Nobody waits for the commit."""
        if not self._is_open:
            return
        self._is_open = False
        with contextlib.suppress(AuditUnavailable):  # it is owed, or its envelope tells of it
            committed = self._commits.ledger.append(self._outcome(None, error or Cancelled()))
            committed.add_done_callback(lambda future: future.cancelled() or future.exception())

    def _outcome(self, result: str | None, error: HubError | None) -> Outcome:
        rendered, code = None, ""
        if error is not None:
            code = error.code
            rendered = self.configuration.errors.render(
                error, invocation_id=self.invocation_id, trace_id=self.source.trace_id, tool=self.tool.target
            )
        seconds = time.monotonic() - self._began
        row = self._commits.rows.outcome(self, self.received, seconds, result, code, rendered)
        return Outcome(row, self.invocation_id)


class Unrecorded:
    """In place of a question of work that leaves no row."""

    async def intended(self) -> None:
        pass

    async def answered(self, answer: Mapping[str, Json]) -> None:
        pass

    def close(self, error: HubError | None = None) -> None:
        pass


def question_of(
    commits: Commits | None, asking: Recorded | None, method: str, params: Mapping[str, Json]
) -> Question | Unrecorded:
    """Return the record of a question that `asking` puts to its client."""
    if commits is None or asking is None:
        return Unrecorded()
    return Question(commits, asking, method, params)
