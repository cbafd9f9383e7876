"""Work that goes on in a hub beside calls, as features declare it (`mcphub.parts.HubService`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from mcphub.process.runtime import Hub


class BackgroundService:
    """One per hub; a subclass overrides the steps that it needs. The methods stand in the order in which a hub calls
    them.
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def listen(self) -> None:
        """Follow the bus. Called before the configuration is read."""

    def start(self) -> None:
        """Begin. The hub serves; called on its event loop."""

    def look(self) -> None:
        """Do due work, every few seconds, on a thread."""

    def health(self) -> dict[str, str]:
        """Return the problems, by the name of the part."""
        return {}

    def metrics(self) -> list[Metric]:
        """Return the metrics of this service."""
        return []

    def drain(self) -> None:
        """End connections that would otherwise stay open. Called on the event loop when a stop begins."""

    async def stop(self) -> None:
        """End, once calls have ended."""
