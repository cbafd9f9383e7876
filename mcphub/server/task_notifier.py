"""How a task speaks to the session that made it, whichever process holds a stream of that session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from invocations.tasks.background_call import TaskNotifier
from sessions_app import bus
from sessions_app.protocol import jsonrpc, tasks
from sessions_app.protocol.json import Json
from sessions_app.protocol.tasks import Task
from tools_catalog.call import session_news

if TYPE_CHECKING:
    from mcphub.process.runtime import Hub

_PROGRESS_SECONDS = 0.1
"""Each message may be a row of the change bus, and a tool may report progress in a loop."""


class SessionTaskNotifier(TaskNotifier):
    """Speaks of a task on a stream of the session that made it, whichever process holds one."""

    def __init__(self, hub: Hub, session_id: str, task: Task) -> None:
        self._hub = hub
        self._session_id = session_id
        self._task_id = task.task_id
        self._progressed = 0.0

    async def notify(self, method: str, params: dict[str, Json]) -> None:
        if method == "notifications/progress":
            now = time.monotonic()
            if now - self._progressed < _PROGRESS_SECONDS:
                return
            self._progressed = now
        params = {**params, "_meta": tasks.related(params.get("_meta"), self._task_id)}
        await self.send(jsonrpc.encode_notification(method, params))

    async def send(self, message: bytes) -> None:
        if message and not self._hub.streams.send(self._session_id, message):
            await session_news.announce(bus.SESSION_MESSAGE, self._session_id, message.decode())

    async def status(self, task: Task) -> None:
        await self.send(jsonrpc.encode_notification("notifications/tasks/status", tasks.core(task)))
