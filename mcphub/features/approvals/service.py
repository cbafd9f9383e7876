"""Follows decisions of other processes, and answers what is held when this one stops."""

from __future__ import annotations

from mcphub.features.approvals import asking
from mcphub.features.approvals.releasing import Approvals
from mcphub.process.services import BackgroundService


class ApprovalService(BackgroundService):
    def listen(self) -> None:
        self.hub.follower.on([asking.CHANGED], lambda event: self._approvals.heard(event.payload))

    def drain(self) -> None:
        self._approvals.drain()

    @property
    def _approvals(self) -> Approvals:
        return self.hub.calls.stages.one(Approvals)
