"""Draws tokens of one key as fast as it can: one process of the rig in test_limit_rig.py.

    python -m tests.features.chat.drawing SECONDS CAPACITY REFILL_SECONDS

Waits for a line on standard input, draws until the time is over, prints how many it was given and the longest wait that
it was told.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")

import django

django.setup()

from invocations.ledger.limits import Quota, draw  # noqa: E402
from invocations.ledger.writer import Ledger  # noqa: E402 - needs the settled apps


async def main(seconds: float, quota: Quota) -> None:
    ledger = Ledger()
    ledger.start()
    try:
        await draw(ledger, "warm", quota)
        print("ready", flush=True)
        sys.stdin.readline()
        given, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            drawn = await asyncio.gather(*(draw(ledger, "key:1", quota) for _ in range(5)))
            given += sum(not each.wait_seconds for each in drawn)
        print(given, flush=True)
    finally:
        await ledger.stop()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), Quota("chat", int(sys.argv[2]), 1 / float(sys.argv[3]))))
