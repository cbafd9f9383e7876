"""Waits of tests for what another thread, task or process brings about: asked again, with a generous bound."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 180
"""How long a test waits for what will come: no behaviour, but what a busy machine may need."""


async def until(ask: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """Ask again and again until the answer, or what it resolves to, is true; return it."""
    async with asyncio.timeout(seconds):
        while True:
            answer = ask()
            if inspect.isawaitable(answer):
                answer = await answer
            if answer:
                return answer
            await asyncio.sleep(0.01)


async def until_let(call: Callable[[], Any], refusal: type[Exception]) -> Any:
    """Call again and again until it is not refused any more; return its result."""

    async def attempt() -> list[Any]:
        try:
            return [await call()]
        except refusal:
            return []

    [result] = await until(attempt)
    return result
