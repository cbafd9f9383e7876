"""What a running tool may know of its call, and say before the answer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from invocations.origin import Origin, Voice
from invocations.running import Work
from sessions_app.protocol import revisions, shapes
from sessions_app.protocol.errors import AskFailed, Cancelled, MissingClientCapability, UrlElicitationRequired
from tools_catalog.backends import addresses
from tools_catalog.backends.asks import Asks
from tools_catalog.backends.questions import Elicited, Question, Url

if TYPE_CHECKING:
    from invocations.tasks.job import Job

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""MCP's levels, least severe first (RFC 5424)."""


class Asker(Protocol):
    """How a running call asks its client. One for each call, made when the tool first asks."""

    async def ask(self, call: CallContext, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Give the answers by key; raise AskFailed or MissingClientCapability, or give the call up for now by
        `call.suspend()`."""
        ...

    def suspended(self, call: CallContext) -> Suspended:
        """Say what a call that was given up is answered with."""
        ...


class Suspended(Exception):
    """The call ended without a result, because its client must answer first. `wire` is what the client gets,
    `recorded` what the audit keeps of it."""

    def __init__(self, wire: dict[str, Any], recorded: dict[str, Any]) -> None:
        super().__init__("input required")
        self.wire = wire
        self.recorded = recorded


class CallContext(Asks):
    """The ToolContext of one call. Silent once the call has ended."""

    __slots__ = (
        "_asker", "_asking", "_keys", "_last", "_left", "_log_from", "_open", "_origin", "_parked", "_token", "_voice",
        "_waits", "deadline", "invocation_id", "job", "make_asker", "meta", "running", "tool_name",
    )  # fmt: skip

    def __init__(
        self,
        origin: Origin,
        tool_name: str,
        invocation_id: str,
        voice: Voice | None,
        progress_token: str | int | None,
        log_level: str | None,
    ) -> None:
        self._origin = origin
        self.tool_name = tool_name
        self.invocation_id = invocation_id
        self._voice = voice
        self._token = progress_token
        self._log_from = LOG_LEVELS.index(log_level) if log_level in LOG_LEVELS else len(LOG_LEVELS)
        self._last = float("-inf")
        self._open = True
        self.deadline = float("inf")
        self.meta: Mapping[str, Any] | None = None
        self.make_asker: Callable[[], Asker] | None = None
        """None where nobody could answer, as with REST."""
        self.running: Work | None = None
        self._asker: Asker | None = None
        self._keys: set[str] | None = None
        self._parked: asyncio.Future[NoReturn] | None = None
        self._asking: set[asyncio.Task[Any]] | None = None
        """Tasks that wait for the client; those of a plain function's thread outlive the call unless they are ended."""
        self._waits = 0
        self._left = 0.0
        self.job: Job | None = None
        """Of a call that may become a task."""

    @property
    def caller_label(self) -> str:
        return self._origin.caller.label

    @property
    def caller_principal(self) -> str:
        return self._origin.caller.principal

    @property
    def caller_scopes(self) -> frozenset[str]:
        return self._origin.caller.scopes

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        return self._origin.client_capabilities

    @property
    def log_level(self) -> str | None:
        return LOG_LEVELS[self._log_from] if self._log_from < len(LOG_LEVELS) else None

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send `notifications/progress`, if the client gave a token. What does not rise is left out (MCP, Progress)."""
        if self.job is not None and message and self._open:
            await self.job.note(message)
        if self._voice is None or self._token is None or not self._open:
            return
        if not self._last < progress < float("inf"):  # NaN neither rises nor can be sent
            return
        self._last = progress
        params: dict[str, Any] = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
            if self._origin.protocol_version:
                params = shapes.progress_for(revisions.revision(self._origin.protocol_version), params)
        await self._voice.notify("notifications/progress", params)

    async def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send `notifications/message`, if the client asked for the level."""
        if level not in LOG_LEVELS:
            raise ValueError(f"{level!r} is no MCP log level; use one of {', '.join(LOG_LEVELS)}.")
        if self._voice is None or not self._open or LOG_LEVELS.index(level) < self._log_from:
            return
        params = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        await self._voice.notify("notifications/message", params)

    def remaining_seconds(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def require_capability(self, name: str) -> None:
        if name not in self._origin.client_capabilities:
            raise MissingClientCapability({name: {}})

    def can_ask(self, question: Question) -> bool:
        version = self._origin.protocol_version
        if self.make_asker is None or version not in revisions.ALL:
            return False
        return question.is_possible(self._origin.client_capabilities, revisions.revision(version))

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Ask the client; see `ToolContext.ask`."""
        if not self._open:
            raise Cancelled
        if self.make_asker is None:
            raise AskFailed("The tool asks its client, and this way in has none that could answer. Use an MCP client.")
        self._keys = self._keys or set()
        used = self._keys & questions.keys()
        if used:
            raise ValueError(f"A key names one question of a call; {sorted(used)[0]!r} was used before.")
        self._keys |= questions.keys()
        if self._asker is None:
            self._asker = self.make_asker()
        task = asyncio.current_task()
        assert task is not None
        self._asking = self._asking or set()
        self._asking.add(task)
        try:
            return await self._asker.ask(self, questions)
        finally:
            self._asking.discard(task)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """What passes within is the client's time, not the tool's."""
        self._waits += 1
        if self._waits == 1:
            self._left = self.remaining_seconds()
            self._set_deadline(float("inf"))
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._set_deadline(time.monotonic() + self._left)

    def _set_deadline(self, moment: float) -> None:
        self.deadline = moment
        if self.running is not None:
            self.running.deadline = moment

    def elicitation_id(self, name: str = "") -> str:
        """Name an address of this call; see `ToolContext.elicitation_id`."""
        return addresses.seal(*self.names_addresses_by, name)

    @property
    def names_addresses_by(self) -> tuple[str, str]:
        """What the ids of this call's addresses are made of: session, where it can be told, and first invocation."""
        origin = self._origin
        hears = origin.protocol_version in revisions.ALL and self._revision.url_elicitation_error
        return origin.session_id if hears else "", origin.continues or self.invocation_id

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client, on the call's own stream, that the person is done at an address of this call."""
        if addresses.session_of(elicitation_id) == self._origin.session_id and self._voice is not None and self._open:
            await self._voice.send(addresses.news(elicitation_id))

    async def require(self, addresses_to_open: Mapping[str, Url]) -> NoReturn:
        """End the call, which cannot go on before a person was there; see `ToolContext.require_url`."""
        wanted = addresses_to_open
        if all(map(self.can_ask, wanted.values())) and self._revision.url_elicitation_error:
            raise UrlElicitationRequired([each.params(self._revision) for each in wanted.values()])
        given: Mapping[str, Elicited] = await self.ask(wanted)
        if all(each.accepted for each in given.values()):
            raise AskFailed("The person was led to the address and is not done there. Call again when they are.")
        raise AskFailed("The person did not agree to open the address, without which the tool cannot go on.")

    @property
    def _revision(self) -> revisions.Revision:
        return revisions.revision(self._origin.protocol_version)

    @property
    def may_be_task(self) -> bool:
        return self.job is not None

    @property
    def is_task(self) -> bool:
        return self.job is not None and self.job.task is not None

    @property
    def parked(self) -> str:
        return getattr(self._ready_asker(), "parked", "")

    @property
    def is_suspended(self) -> bool:
        return self.running is not None and self.running.why == "asks"

    def park(self, name: str) -> bool:
        asker = self._ready_asker()
        if not hasattr(asker, "parked"):
            return False
        asker.parked = name
        return True

    def _ready_asker(self) -> Any:
        if self._asker is None and self.make_asker is not None:
            self._asker = self.make_asker()
        return self._asker

    async def suspend(self) -> NoReturn:
        """Give the call up until the client has answered: the tool is cancelled and never comes back from here.

        Not at once, so that what the tool asks side by side is asked in one round.
        """
        loop = asyncio.get_running_loop()
        if self._parked is None:
            assert self.running is not None
            self._parked = loop.create_future()
            loop.call_soon(self.running.cancel, "asks")
        await asyncio.shield(self._parked)
        raise AssertionError("nobody answers a parked call")

    def suspended(self) -> Suspended:
        assert self._asker is not None
        return self._asker.suspended(self)

    async def close_stream(self) -> None:
        close = getattr(self._voice, "close", None)
        if close is not None and self._open:
            await close()

    async def begin_task(self) -> None:
        """Go on as a task, where the client can follow one: it is answered now, and polls for the result."""
        if self.job is not None:
            await self.job.begin_task()

    def speak_through(self, voice: Voice | None) -> None:
        """Speak another way from now on, or not at all."""
        self._voice = voice

    def close(self) -> None:
        self._open = False
        if self._parked is not None:
            self._parked.cancel()
        for task in self._asking or ():
            task.cancel()

    def _key(self, question: Question) -> str:
        number = 1
        while f"{question.kind}_{number}" in (self._keys or ()):
            number += 1
        return f"{question.kind}_{number}"
