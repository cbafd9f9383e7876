"""The calls under way in this process: their deadlines, their cancellation, the clients that went away.

One supervisor looks at all of them a few times a second, so that a call which ends at once pays for no timer
and no task of its own. A call is only ever cancelled while its backend runs: what is recorded stays so.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from invocations.origin import Origin
from invocations.records import Key, new_invocation_id
from invocations.redaction.bodies import Stored
from sessions_app.protocol import json
from tools_catalog.catalog import Tool

Why = Literal["timeout", "cancelled", "asks"]
"""`asks`: the tool asked its client, who must call again with the answers."""
Watch = Callable[[], Awaitable[None]]
"""Returns when the client has gone."""

_TICK_SECONDS = 0.05
_LONGEST_REQUEST_ID = 300
"""Characters of a request id that stand in its key as they are; a longer one is told by its digest."""


class Running:
    """A backend at work, and how it is stopped."""

    __slots__ = ("interrupted", "task", "why")

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None
        """Set while the backend runs; None before and after."""
        self.why: Why | None = None
        self.interrupted = False
        """The task was cancelled for `why`."""

    def cancel(self, why: Why) -> None:
        """Stop the backend, if it runs. Called on the event loop."""
        if self.why is None:
            self.why = why
            if self.task is not None:
                self.interrupted = self.task.cancel()


class Work(Running):
    """What the supervisor looks after."""

    __slots__ = ("deadline", "finished", "invocation_id", "request_json", "session", "watch", "watcher")

    invocation_id: str
    session: str | None
    request_json: str | None
    watch: Watch | None
    watcher: asyncio.Task[None] | None
    deadline: float
    finished: asyncio.Event | None


class Errand(Work):
    """A function that answers a request but is no call of a tool: it leaves no row."""

    __slots__ = ()

    def __init__(self, origin: Origin, request_json: str, watch: Watch | None, seconds: float) -> None:
        super().__init__()
        self.invocation_id = new_invocation_id()
        self.session = origin.session_id if origin.handshake else None
        self.request_json = request_json
        self.watch = watch
        self.watcher = None
        self.deadline = time.monotonic() + seconds
        self.finished = None


class Call(Work):
    """One call under way: what its rows will say, and when and why it ends before its time."""

    __slots__ = ("arguments", "digest", "key", "origin", "received", "stored", "tool")

    def __init__(
        self,
        origin: Origin,
        tool: Tool,
        arguments: str,
        request_json: str | None,
        received: float,
        watch: Watch | None,
        idempotency_key: str | None,
        stored: Stored | None = None,
    ) -> None:
        super().__init__()
        self.invocation_id = new_invocation_id()
        self.origin = origin
        self.tool = tool
        self.stored = stored
        """How the bodies are recorded; None where they are as they are."""
        self.arguments = arguments if stored is None else stored.arguments
        """As they are recorded: canonical JSON."""
        self.digest = json.digest(arguments) if stored is None else stored.digest
        self.request_json = request_json
        """The client's request id as canonical JSON; with the session it is how the client names the call."""
        self.received = received
        """Seconds since the epoch."""
        self.session = origin.session_id if origin.handshake else None
        """A handshake session, which must be live when the call is recorded."""
        self.key: Key | None = None
        """What makes a repeat of this call one: the client's own key, or else its request id in its session."""
        if idempotency_key is not None:
            self.key = (f"caller:{origin.caller.principal}", idempotency_key, self._fingerprint())
        elif self.session is not None and request_json is not None:
            self.key = (f"session:{self.session}", _short(request_json), self._fingerprint())
        self.watch = watch
        self.watcher = None
        self.deadline = 0.0
        self.finished = None

    def _fingerprint(self) -> str:
        return json.digest(f"{self.tool.name}\n{self.digest}")

    def forget_client(self) -> None:
        """Go on whether the client is there or not: it has its answer."""
        self.watch = None
        if self.watcher is not None:
            self.watcher.cancel()


class RunningCalls:
    def __init__(self) -> None:
        self._calls: dict[str, Work] = {}
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

    def add(self, call: Work) -> None:
        self._calls[call.invocation_id] = call

    def remove(self, call: Work) -> None:
        self._calls.pop(call.invocation_id, None)
        if call.watcher is not None:
            call.watcher.cancel()
        if call.finished is not None:
            call.finished.set()

    def cancel_all(self) -> None:
        for call in list(self._calls.values()):
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
        """Give the event of a call's end, or None where it does not run in this process."""
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


def _short(request_json: str) -> str:
    return request_json if len(request_json) <= _LONGEST_REQUEST_ID else f"sha256:{json.digest(request_json)}"
