"""Cancellation, once for calls and reads: recorded before it reaches whoever cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Value = TypeVar("Value")


async def recorded_first(work: Awaitable[Value]) -> Value:
    """Await work that takes a cancellation of its task for one way to end; pass the cancellation on after that."""
    task = asyncio.current_task()
    assert task is not None
    cancellations = task.cancelling()
    try:
        return await work
    finally:
        is_given_up = task.cancelling() > cancellations
        del task  # what is raised here holds this frame, and the task may hold what is raised
        if is_given_up:
            raise asyncio.CancelledError
