"""A wait for a decision ends when its call ends, whatever is heard in the same moment."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from mcphub.features.approvals.models import McpApproval
from mcphub.features.approvals.releasing import Approvals
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db


class Channel:
    """Notes that the wait has begun: its first sign of life was sent."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def progress(self, *_: Any, is_own: bool) -> None:
        self.begun.set()


def test_a_wait_that_hears_of_its_approval_as_it_is_cancelled_ends() -> None:
    async def cancel_as_it_is_heard() -> bool:
        approvals, channel = Approvals(SimpleNamespace()), Channel()
        context: Any = SimpleNamespace(notifier=channel)
        row = McpApproval(pk="appr_1", status=McpApproval.Status.PENDING)
        waiting = asyncio.create_task(approvals._waited(context, row, float("inf")))
        begun = asyncio.create_task(channel.begun.wait())
        await asyncio.wait({begun, waiting}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0)
        approvals.heard("appr_1")
        waiting.cancel()
        await asyncio.wait({waiting}, timeout=PATIENCE_SECONDS)
        ended = waiting.done() and waiting.cancelled()
        waiting.cancel()
        return ended

    assert asyncio.run(cancel_as_it_is_heard())
