"""Places for work, shared fairly by caller: a semaphore of the event loop whose queue takes turns.

A free place goes to the waiting caller who holds the fewest, among equals to the one whose turn was longest ago. One
caller never holds them all, where there are enough: another finds one free even if the first gives none back.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque


class NoPlace(Exception):
    """As many wait as may, and none of them belongs to a caller who has more waiting than this one."""


class Places:
    """`most` at once; `most_waiting` wait. Used on the event loop alone."""

    def __init__(self, most: int, most_waiting: int) -> None:
        self.most = most
        self.most_waiting = most_waiting
        self.most_of_caller = share_of(most)
        self.waiting = 0
        self._held: Counter[str] = Counter()
        self._free = most
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        """Caller -> those of his who wait, the first first. Callers stand in the order of their turns."""

    async def take(self, caller: str) -> None:
        """Wait for a place and hold it. Raises NoPlace, at once or when a caller who has fewer waiting comes."""
        if self._free and self._held[caller] < self.most_of_caller:
            self._hold(caller)
            return
        if self.waiting >= self.most_waiting:
            self._make_room_for(caller)
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(caller, deque()).append(turn)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(caller, turn)
            elif turn.exception() is None:
                self.give_back(caller)  # it came in the same moment
            raise

    def give_back(self, caller: str) -> None:
        self._free += 1
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]
        while self._free and (following := self._following()) is not None:
            turn = self._queues[following][0]
            self._leave(following, turn)
            if following in self._queues:
                self._queues[following] = self._queues.pop(following)  # the others' turns come first
            self._hold(following)
            turn.set_result(None)

    def _hold(self, caller: str) -> None:
        self._free -= 1
        self._held[caller] += 1

    def _following(self) -> str | None:
        """Give whose turn it is; None where nobody waits who may have one more."""
        held = self._held
        found = min(self._queues, key=lambda caller: held.get(caller, 0), default=None)
        return found if found is not None and held.get(found, 0) < self.most_of_caller else None

    def _make_room_for(self, caller: str) -> None:
        """Send away the youngest of the caller who has most waiting; raise NoPlace where the newcomer would be that."""
        longest = max(self._queues, key=lambda each: len(self._queues[each]), default=caller)
        if len(self._queues.get(longest, ())) <= len(self._queues.get(caller, ())) + 1:
            raise NoPlace
        turn = self._queues[longest][-1]
        self._leave(longest, turn)
        turn.set_exception(NoPlace())

    def _leave(self, caller: str, turn: asyncio.Future[None]) -> None:
        """Take one who waits out of the queue."""
        queue = self._queues[caller]
        queue.remove(turn)
        self.waiting -= 1
        if not queue:
            del self._queues[caller]


def share_of(most: int) -> int:
    """Give how many of so many places one caller may hold: of four or more a quarter is left to others."""
    return most - most // 4
