"""Which call a message of the upstream belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sessions_app.protocol.json import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream.transports.base import OutgoingRequest

SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"


class CallsUnderWay:
    """The requests and tasks under way in one session, by the names that messages of the upstream have for them."""

    def __init__(self) -> None:
        self.requests: dict[int, OutgoingRequest] = {}
        """By id. The client keeps it."""
        self._tasks: dict[str, ToolContext] = {}
        """Id of a task that is followed -> the call that it is of."""

    def __len__(self) -> int:
        return sum(request.is_call for request in self.requests.values())

    def __contains__(self, context: object) -> bool:
        under_way = (request.context for request in self.requests.values() if request.is_call)
        return any(each is context for each in (*under_way, *self._tasks.values()))

    @contextmanager
    def following(self, task_id: str, context: ToolContext) -> Iterator[None]:
        """Note a call that has become a task. A message that names no task is not taken to be about it."""
        self._tasks[task_id] = context
        try:
            yield
        finally:
            del self._tasks[task_id]

    def by_progress_token(self, token: object) -> OutgoingRequest | None:
        return self.requests.get(token) if isinstance(token, int) and not isinstance(token, bool) else None

    def followed(self, meta: Json) -> OutgoingRequest | None:
        """Return the request that a notification on a shared stream names (MCP 2026-07-28, Subscriptions)."""
        id_ = meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None
        return self.requests.get(id_) if isinstance(id_, int) and not isinstance(id_, bool) else None

    def owner(self, task_id: str = "", request: OutgoingRequest | None = None) -> ToolContext | None:
        """Return the call that a message is about; None where it could be another's.

        `task_id` is the task named by the message, `request` the one on whose own stream it came.
        """
        if task_id in self._tasks:
            return self._tasks[task_id]
        if request is not None and request.context is not None:
            return request.context
        calls = [each for each in self.requests.values() if each.is_call]
        return calls[0].context if len(calls) == 1 else None
