"""Notices as a service of the hub."""

from __future__ import annotations

from mcphub.features.notifications.service import Telling
from mcphub.process.runtime import Hub
from mcphub.process.services import BackgroundService


class Notifications(BackgroundService):
    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._telling = Telling(hub.process_id, hub.conditions)

    def listen(self) -> None:
        self._telling.follow(self.hub.follower)

    def start(self) -> None:
        self._telling.start()

    def drain(self) -> None:
        self._telling.drain()

    async def stop(self) -> None:
        await self._telling.stop()
