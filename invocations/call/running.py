"""The calls under way in this process: their deadlines, their cancellation, the clients that went away.

One supervisor looks at all of them a few times a second, so that a call which ends at once pays for no timer and no
task of its own. A call is only cancelled while its backend runs: a recorded outcome stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from django.conf import settings

from invocations.call_source import CallSource, recorded_in
from invocations.ledger.records import Key, new_invocation_id
from invocations.redaction.bodies import StoredBodies
from invocations.subject import RowSubject
from sessions_app.kit.places import current_turn
from sessions_app.protocol import json
from sessions_app.protocol.errors import ServerBusy
from sessions_app.protocol.json import Json
from tools_catalog.call.noted import NOTHING_NOTED, Noted

if TYPE_CHECKING:
    from invocations.exchange import CallExchange

Value = TypeVar("Value")

Why = Literal["timeout", "cancelled", "asks"]
"""`asks`: the tool asked its client, who must call again with the answers."""
Watch = Callable[[], Awaitable[None]]
"""Returns when the client has gone."""

_TICK_SECONDS = 0.05
LONGEST_STATIC_RESULT = 4096
"""Characters of a result that the record holds whole where a row of the hub alone decides it: its history has it."""


class Stopped(Exception):
    """Work was stopped from outside before it ended."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why


class Running:
    """A backend at work, and how it is stopped."""

    task: asyncio.Task[Any] | None = None
    """Set while the backend runs; None before and after."""
    why: Why | None = None
    interrupted = False
    """The task was cancelled for `why`."""

    async def run(self, work: Coroutine[object, object, Value]) -> Value:
        """Await `work` until it ends or `cancel` stops it: then raise Stopped. A cancellation of the task passes."""
        if self.why is not None:
            work.close()
            raise Stopped(self.why)
        task = self.task = asyncio.current_task()
        turn = current_turn.get()
        if turn is not None:
            turn.is_away = True
        try:
            return await work
        except asyncio.CancelledError:
            if self.why is None:
                raise
            raise Stopped(self.why) from None
        finally:
            self.task = None
            if turn is not None:
                turn.is_away = False
            if self.interrupted and task is not None:
                task.uncancel()  # the cancellation was ours; that of a transport or of a stop remains

    def cancel(self, why: Why) -> None:
        """Stop the backend, if it runs. Called on the event loop."""
        if self.why is None:
            self.why = why
            if self.task is not None:
                self.interrupted = self.task.cancel()


class Work(Running):
    """An item that the supervisor watches."""

    watcher: asyncio.Task[None] | None = None
    deadline = 0.0
    """On the monotonic clock."""
    finished: asyncio.Event | None = None
    """Set where somebody waits for the end."""
    _waits = 0
    _left = 0.0

    def __init__(
        self, invocation_id: str, source: CallSource, session: str | None, request_json: str | None, watch: Watch | None
    ) -> None:
        """`request_json`: the ID by which a session's client cancels it."""
        self.invocation_id = invocation_id
        self.principal, self.credential = source.principal, source.caller.credential
        self.session, self.request_json = session, request_json
        self.watch = watch

    def forget_client(self) -> None:
        """Go on whether the client is there or not: it has its answer."""
        self.watch = None
        if self.watcher is not None:
            self.watcher.cancel()

    def remaining_seconds(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    @contextlib.contextmanager
    def waiting_for_client(self) -> Iterator[None]:
        """Time inside it is the client's, not the tool's."""
        self._waits += 1
        if self._waits == 1:
            self._left = self.remaining_seconds()
            self.deadline = float("inf")
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self.deadline = time.monotonic() + self._left


class UnrecordedWork(Work):
    """Something that counts as a call under way, such as a turn of a chat, and leaves no row of its own."""

    def __init__(self, source: CallSource, request_json: str, watch: Watch | None, seconds: float) -> None:
        super().__init__(new_invocation_id(), source, source.live_session_id, request_json, watch)
        self.deadline = time.monotonic() + seconds


class Read(Work):
    """One running read, and the content of its row. It may be made again at will, so nothing makes it a repeat."""

    key: Key | None = None
    noted = NOTHING_NOTED

    def __init__(
        self,
        subject: RowSubject,
        exchange: CallExchange,
        *,
        request_id: str | int | None,
        arguments: Json,
        received: float,
        seconds: float,
        is_static: bool,
    ) -> None:
        """`received`: seconds since the epoch. `is_static`: of a long result the digest alone is recorded."""
        source = exchange.source
        request_json = None if request_id is None else json.canonical(request_id)
        super().__init__(new_invocation_id(), source, source.live_session_id, request_json, exchange.watch)
        self.configuration, self.source = exchange.configuration, source
        self.tool = subject
        """Stands in for the tool in the row."""
        self.workspace = recorded_in(source, subject.workspace)
        redactor = exchange.configuration.redaction.of_read(subject)
        self.stored = StoredBodies(
            arguments, json.canonical(arguments), redactor, longest_result=LONGEST_STATIC_RESULT if is_static else None
        )
        self.arguments, self.digest = self.stored.arguments, self.stored.digest
        self.received = received
        self.deadline = time.monotonic() + seconds

    def stored_with(self, outcome: str) -> StoredBodies:
        return self.stored

    def note(self, noted: Noted) -> None:
        self.noted = noted.over(self.noted)


class RunningCalls:
    def __init__(self) -> None:
        self._calls: dict[str, Work] = {}
        self._by_caller: dict[str, int] = {}
        self._most: int = settings.MCPHUB_MAX_CALLS
        self._most_of_caller: int = settings.MCPHUB_MAX_CALLS_PER_CALLER or max(1, self._most // 5)
        self._supervisor: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def start(self) -> None:
        self._supervisor = asyncio.create_task(self._supervise(), name="mcphub-calls")

    async def stop(self) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor

    async def drained(self, seconds: float) -> bool:
        """Wait until nothing runs; False when something still did after `seconds`."""
        until = time.monotonic() + seconds
        while self._calls and time.monotonic() < until:  # noqa: ASYNC110 - an event would cost every call
            await asyncio.sleep(_TICK_SECONDS)
        return not self._calls

    def admit(self, principal: str) -> None:
        """Raise ServerBusy where there is no place for one more call of this caller."""
        words = None
        if len(self._calls) >= self._most:
            words = "The hub makes as many calls as it may. Try again in a moment."
        elif self._by_caller.get(principal, 0) >= self._most_of_caller:
            words = (
                f"All {self._most_of_caller} places of this caller for running calls are taken. Try again in a moment."
            )
        if words is not None:
            busy = ServerBusy(words)
            busy.retry_after_seconds = 1
            raise busy

    def add(self, call: Work) -> None:
        self._calls[call.invocation_id] = call
        self._by_caller[call.principal] = self._by_caller.get(call.principal, 0) + 1

    def remove(self, call: Work) -> None:
        if self._calls.pop(call.invocation_id, None) is not None:
            left = self._by_caller[call.principal] - 1
            if left:
                self._by_caller[call.principal] = left
            else:
                del self._by_caller[call.principal]
        if call.watcher is not None:
            call.watcher.cancel()
        if call.finished is not None:
            call.finished.set()

    def cancel_all(self) -> None:
        for call in list(self._calls.values()):
            call.cancel("cancelled")

    def cancel_of(self, ended: Collection[str]) -> None:
        """Cancel calls of callers that may no longer call, or by keys (`key:<id>`) that are no longer valid."""
        for call in list(self._calls.values()):
            if call.principal in ended or call.credential in ended:
                call.cancel("cancelled")

    def cancel_request(self, session_id: str, request_id: str) -> bool:
        """Cancel the call that a session named by its JSON request id; False where no backend runs for it here.

        One that waits for its intent is cancelled too, but may turn out to repeat a call of another process.
        """
        found = False
        for call in self._calls.values():
            if call.session == session_id and call.request_json == request_id:
                found = found or call.task is not None
                call.cancel("cancelled")
        return found

    def end_of(self, invocation_id: str) -> asyncio.Event | None:
        """Return the event of a call's end, or None where it does not run in this process."""
        call = self._calls.get(invocation_id)
        if call is None:
            return None
        if call.finished is None:
            call.finished = asyncio.Event()
        return call.finished

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = time.monotonic()
            for call in list(self._calls.values()):
                if call.task is None:
                    continue
                if now >= call.deadline:
                    call.cancel("timeout")
                elif call.watch is not None and call.watcher is None:
                    call.watcher = asyncio.create_task(self._watch(call, call.watch))

    @staticmethod
    async def _watch(call: Work, watch: Watch) -> None:
        await watch()
        call.cancel("cancelled")
