"""Places for work, shared fairly by caller: a semaphore of the event loop with a turn-taking queue.

A free place goes to the waiting caller with the fewest, among equals to the one with the oldest turn. One caller
never holds them all, where there are enough: another finds one free even if the first gives none back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar


class NoPlace(Exception):
    """The queue is full, and no caller has more waiting than this one."""


class Places:
    """`most` at once; `most_waiting` wait. Used on the event loop alone."""

    def __init__(self, most: int, most_waiting: int) -> None:
        self.most = most
        self.most_waiting = most_waiting
        self.most_of_caller = share_of(most)
        self.waiting = 0
        self._held: dict[str, int] = {}
        self._free = most
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        """Caller -> its waiters, the first first. Callers stand in the order of their turns."""

    def take_at_once(self, caller: str) -> bool:
        """Hold a place if there is one now; False where the caller has to wait."""
        if self._free and self._held.get(caller, 0) < self.most_of_caller:
            self._hold(caller)
            return True
        return False

    async def take(self, caller: str) -> None:
        """Wait for a place and hold it. Raises NoPlace, at once or when a caller with fewer waiters comes."""
        if self.take_at_once(caller):
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
        held = self._held[caller] - 1
        if held:
            self._held[caller] = held
        else:
            del self._held[caller]
        if self._queues:
            self._serve()

    def _serve(self) -> None:
        while self._free and (following := self._following()) is not None:
            turn = self._queues[following][0]
            self._leave(following, turn)
            if following in self._queues:
                self._queues[following] = self._queues.pop(following)  # the others' turns come first
            self._hold(following)
            turn.set_result(None)

    def _hold(self, caller: str) -> None:
        self._free -= 1
        self._held[caller] = self._held.get(caller, 0) + 1

    def _following(self) -> str | None:
        """Return the next caller; None if nobody waits who may have one more."""
        held = self._held
        found = min(self._queues, key=lambda caller: held.get(caller, 0), default=None)
        return found if found is not None and held.get(found, 0) < self.most_of_caller else None

    def _make_room_for(self, caller: str) -> None:
        """Remove the youngest waiter of the caller with most; raise NoPlace if that is the newcomer."""
        longest = max(self._queues, key=lambda each: len(self._queues[each]), default=caller)
        if len(self._queues.get(longest, ())) <= len(self._queues.get(caller, ())) + 1:
            raise NoPlace
        turn = self._queues[longest][-1]
        self._leave(longest, turn)
        turn.set_exception(NoPlace())

    def _leave(self, caller: str, turn: asyncio.Future[None]) -> None:
        """Remove a waiter from the queue."""
        queue = self._queues[caller]
        queue.remove(turn)
        self.waiting -= 1
        if not queue:
            del self._queues[caller]


class RequestTurn:
    """The place that one request holds, until it has its answer or waits for something else than the hub."""

    is_held = True
    is_away = False
    """It waits for a client, or for what a tool calls."""
    looks = 0
    """How often it was found at work while others waited."""

    def __init__(self, caller: str) -> None:
        self.caller = caller


class Turns(Places):
    """Places for whatever takes the event loop and the ledger: few for each caller, so that nobody waits behind many.

    A caller who is alone may hold them all, since shared commits make many requests cheaper than few. From the moment
    that another comes, each holds `few` at most, and one is alone again after `_ALONE_AFTER` requests without others.

    While requests wait, they get the places of those that are away, and of those that have held one for long.
    """

    def __init__(self, most: int = 64, few: int = 8, most_waiting: int = 10_000) -> None:
        super().__init__(most, most_waiting)
        self._few = few
        self._turns: dict[RequestTurn, None] = {}
        """Those that hold a place, the oldest first."""
        self._newest = ""
        self._in_a_row = 0
        """Requests of the newest caller since one of another; 0: as many as make it alone."""
        self._next_look: asyncio.TimerHandle | None = None
        self.most_of_caller = most

    def begin_at_once(self, caller: str) -> RequestTurn | None:
        """Return the turn of a request; None where it has to `begin` in the queue."""
        if self._in_a_row or caller != self._newest:
            self._note(caller)
        held = self._held.get(caller, 0)
        if held >= self.most_of_caller or not self._free:
            return None
        self._free -= 1
        self._held[caller] = held + 1
        turn = RequestTurn(caller)
        self._turns[turn] = None
        return turn

    async def begin(self, caller: str) -> RequestTurn:
        """Wait for a turn. Raises NoPlace."""
        self._reclaim()
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self.look)
        await self.take(caller)
        turn = RequestTurn(caller)
        self._turns[turn] = None
        return turn

    def end(self, turn: RequestTurn) -> None:
        if turn.is_held:
            turn.is_held = False
            del self._turns[turn]
            self.give_back(turn.caller)

    def look(self) -> None:
        """Pass the places of requests that wait for something else to those that wait here. Called now and then."""
        self._next_look = None
        for turn in self._turns:
            turn.looks += 1
        self._reclaim()
        if self.waiting:
            self._next_look = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self.look)

    def _reclaim(self) -> None:
        for turn in [each for each in self._turns if each.is_away or each.looks >= _MOST_LOOKS]:
            self.end(turn)

    def _note(self, caller: str) -> None:
        """Find out whether this caller is alone."""
        if not self._newest:
            self._newest = caller
        elif caller != self._newest:
            self._newest, self._in_a_row, self.most_of_caller = caller, 1, self._few
        else:
            self._in_a_row += 1
            if self._in_a_row > _ALONE_AFTER:
                self._in_a_row, self.most_of_caller = 0, self.most


_LOOK_SECONDS = 0.02
_MOST_LOOKS = 10
_ALONE_AFTER = 512
current_turn: ContextVar[RequestTurn | None] = ContextVar("current_turn", default=None)
"""Of the request that the running task serves."""


def share_of(most: int) -> int:
    """Return how many of so many places one caller may hold: of four or more a quarter is left to others."""
    return most - most // 4
