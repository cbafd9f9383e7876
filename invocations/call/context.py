"""The ToolContext of a call that runs in this process. A part is made when the tool first uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from invocations.call.questions import Question, Unrecorded, question_of
from invocations.call.running import Work
from sessions_app.protocol import revisions, shapes
from sessions_app.protocol.errors import AskFailed, Cancelled, HubError, UrlElicitationRequired
from sessions_app.workspaces.scope import Scope, of_caller
from tools_catalog.call import addresses
from tools_catalog.call.base import Json
from tools_catalog.call.context import NO_TASK, CallInfo, Permissions, TaskControl
from tools_catalog.call.input_requests import Elicited, InputRequest, Inspected, Url

if TYPE_CHECKING:
    from invocations.call.committing import Commits
    from invocations.exchange import CallExchange, CallRequest
    from invocations.ledger.rows import Recorded
    from invocations.stages import ResultStage, Stages
    from invocations.tasks.background_call import BackgroundCall

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""MCP's levels, least severe first (RFC 5424)."""
_SHOWN = 300
"""Characters of a client's own words that a tool is shown."""


class InputRequester(Protocol):
    """How input requests of a running call reach its client. One for each call, made when the tool first asks."""

    resume_token: str | None
    """The name that the client brings back with its responses; None where the call waits for them itself."""

    async def ask(self, call: CallInput, requests: Mapping[str, InputRequest]) -> dict[str, Any]:
        """Return the responses by key; raise AskFailed or MissingClientCapability, or give the call up for now by
        `call.suspend()`."""
        ...

    def suspended(self, invocation_id: str) -> Suspended:
        """Return the answer of a cancelled call."""
        ...


class Suspended(Exception):
    """The call ended without a result, because its client must answer first. `wire` is the client's result,
    `recorded` the audit's copy of it.
    """

    def __init__(self, wire: dict[str, Json], recorded: dict[str, Json]) -> None:
        super().__init__("input required")
        self.wire = wire
        self.recorded = recorded


class CallContext:
    """The ToolContext of one call. Its parts are silent once the call has ended."""

    __slots__ = (
        "_info",
        "_input",
        "_notifier",
        "background",
        "channel",
        "commits",
        "invocation_id",
        "is_open",
        "log_level",
        "progress_token",
        "record",
        "request",
        "source",
        "stages",
        "tool_name",
        "work",
    )

    def __init__(
        self,
        exchange: CallExchange,
        tool_name: str,
        invocation_id: str,
        work: Work,
        request: CallRequest | None = None,
        record: Recorded | None = None,
        commits: Commits | None = None,
        stages: Stages | None = None,
    ) -> None:
        """`request`: of a call, or of something that may ask its client like one. `commits` takes its questions."""
        self.record = record
        self.stages = stages
        self.commits = commits
        self.source = exchange.source
        self.tool_name = tool_name
        self.invocation_id = invocation_id
        self.work = work
        self.channel = exchange.channel
        """The channel to the client at this moment; a call that becomes a task changes it."""
        self.progress_token = exchange.progress_token
        self.log_level = exchange.log_level
        self.request = request
        self.is_open = True
        self.background: BackgroundCall | None = None
        """Of a call that may become a task."""
        self._info: CallInfo | None = None
        self._notifier: CallNotifier | None = None
        self._input: CallInput | None = None

    @property
    def call(self) -> CallInfo:
        if self._info is None:
            caller = self.source.caller
            self._info = CallInfo(
                invocation_id=self.invocation_id,
                tool_name=self.tool_name,
                caller_label=caller.label,
                caller_principal=caller.principal,
                caller_scopes=caller.scopes,
                client_capabilities=self.source.client_capabilities,
                meta=None if self.request is None else self.request.meta,
                log_level=self.log_level if self.log_level in LOG_LEVELS else None,
            )
        return self._info

    @property
    def workspace(self) -> Scope | None:
        caller = self.source.caller
        return None if caller.workspace is None else of_caller(caller)

    @property
    def deadline(self) -> Work:
        return self.work

    @property
    def notifier(self) -> CallNotifier:
        if self._notifier is None:
            self._notifier = CallNotifier(self)
        return self._notifier

    @property
    def input(self) -> CallInput:
        if self._input is None:
            self._input = CallInput(self)
        return self._input

    @property
    def suspension(self) -> CallInput:
        return self.input

    @property
    def task(self) -> TaskControl:
        return self.background or NO_TASK

    @property
    def permissions(self) -> Permissions:
        # Imported here: rules, quotas and approvals stand above what runs one call.
        from invocations.call.checking import CallerPermissions

        assert self.record is not None
        assert self.stages is not None
        return CallerPermissions(self.source, self.record.configuration, self.stages)

    @property
    def result_stages(self) -> tuple[ResultStage, ...]:
        """The stages that inspect what the client gets."""
        return () if self.stages is None or self.record is None else self.stages.of_record(self.record)

    async def inspected(self, method: str, value: dict[str, Json]) -> dict[str, Json]:
        """Return a message to the client as it goes on. Raises the refusal."""
        for stage in self.result_stages:
            assert self.record is not None
            value = await stage.before(self.record, method, value)
        return value

    async def answer(self, request: InputRequest, value: dict[str, Json]) -> dict[str, Json]:
        """Return the client's answer to an input request as it goes on. Raises the refusal."""
        if self.stages is None or self.record is None:
            return value
        return await self.stages.answer(self.record, request, value)

    def suspended(self) -> Suspended:
        """Return the answer of a call that was suspended until its client has answered."""
        return self.input.suspended()

    def close(self) -> None:
        self.is_open = False
        if self._input is not None:
            self._input.close()


class CallNotifier:
    """Notifications on the client's channel, as long as the call runs."""

    __slots__ = ("_call", "_last", "_log_from")

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._last = float("-inf")
        self._log_from = LOG_LEVELS.index(call.log_level) if call.log_level in LOG_LEVELS else len(LOG_LEVELS)

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None, *, is_own: bool = False
    ) -> None:
        """Send `notifications/progress`, if the client gave a token. Progress that does not increase is dropped (MCP,
        Progress). `is_own`: the words are the hub's, and nothing inspects them.
        """
        call = self._call
        if message is not None and not is_own and (call.background is not None or call.progress_token is not None):
            message = await self._inspected_words(message)
        if call.background is not None and message and call.is_open:
            await call.background.note(message)
        if call.progress_token is None or not call.is_open:
            return
        if not self._last < progress < float("inf"):  # NaN neither rises nor can be sent
            return
        self._last = progress
        params: dict[str, Json] = {"progressToken": call.progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
            if call.source.protocol_version:
                params = shapes.progress_for(revisions.revision(call.source.protocol_version), params)
        await call.channel.notify("notifications/progress", params)

    async def log(self, level: str, data: Json, logger: str | None = None) -> None:
        """Send `notifications/message`, if the client asked for the level."""
        if level not in LOG_LEVELS:
            raise ValueError(f"{level!r} is no MCP log level; use one of {', '.join(LOG_LEVELS)}.")
        call = self._call
        if not call.is_open or LOG_LEVELS.index(level) < self._log_from:
            return
        params: dict[str, Json] = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        try:
            params = await call.inspected("notifications/message", params)
        except HubError:
            return  # it is withheld
        if call.is_open:
            await call.channel.notify("notifications/message", params)

    async def elicitation_complete(self, elicitation_id: str) -> None:
        call = self._call
        if addresses.session_of(elicitation_id) == call.source.session_id and call.is_open:
            await call.channel.notify(addresses.METHOD, {"elicitationId": elicitation_id})

    async def _inspected_words(self, message: str) -> str | None:
        """Return the words of a progress as they go on; None where they are withheld, and the number goes on alone."""
        try:
            found = (await self._call.inspected("notifications/progress", {"message": message}))["message"]
        except HubError:
            return None
        return found if isinstance(found, str) else None

    async def close_stream(self) -> None:
        if self._call.is_open:
            await self._call.channel.close()


class CallInput:
    """Input requests of one call, and how it is given up until they are answered."""

    __slots__ = ("_asking", "_call", "_keys", "_own", "_requester", "_suspending")

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._requester: InputRequester | None = None
        self._keys: set[str] = set()
        self._own: set[str] = set()
        """Keys of requests of the hub itself."""
        self._asking: set[asyncio.Task[Any]] = set()
        """Tasks that wait for the client; those of a plain function's thread outlive the call unless they are ended."""
        self._suspending: asyncio.Future[NoReturn] | None = None

    @property
    def deadline(self) -> Work:
        return self._call.work

    # Asking -----------------------------------------------------------------------------------------

    def can_ask(self, request: InputRequest) -> bool:
        source = self._call.source
        if self._make_requester is None or source.protocol_version not in revisions.ALL:
            return False
        return request.is_possible(source.client_capabilities, self._revision)

    async def ask(self, requests: Mapping[str, InputRequest], *, is_own: bool = False) -> dict[str, Any]:
        """Return the answers by key. `is_own`: the hub asks, before the tool may have run, and nothing inspects request
        or answer.
        """
        if not self._call.is_open:
            raise Cancelled
        requester = self._ready_requester()
        if requester is None:
            raise AskFailed("The tool asks its client, and this way in has none that could answer. Use an MCP client.")
        used = self._keys & requests.keys()
        if used:
            raise ValueError(f"A key names one question of a call; {sorted(used)[0]!r} was used before.")
        self._keys |= requests.keys()
        if is_own:
            self._own |= requests.keys()
        task = asyncio.current_task()
        assert task is not None
        self._asking.add(task)
        try:
            if self._call.result_stages and not is_own:
                requests = {key: await self._inspected(each) for key, each in requests.items()}
            return await requester.ask(self, requests)
        finally:
            self._asking.discard(task)

    async def _inspected(self, request: InputRequest) -> InputRequest:
        """Return a request as it goes on to the client. Raises the refusal."""
        try:
            params = request.params(self._revision)
        except ValueError:
            return request  # the revision has no such request, and so nobody is asked
        given = await self._call.inspected(request.method, params)
        return request if given is params else Inspected(request.method, request, given)

    async def taken(
        self, key: str, request: InputRequest, answer: Mapping[str, Any], record: Question | Unrecorded
    ) -> Any:
        """Return the client's answer as the tool gets it: inspected, on record, and read.

        `answer` has a `result` or an `error`. Raises AskFailed for an error, the refusal for what is withheld,
        InvalidInputResponse for what does not fit the request.
        """
        try:
            if "error" not in answer:
                result = await self._inspected_answer(key, request, dict(answer["result"]))
            else:
                told = {"message": str(answer["error"].get("message", ""))[:_SHOWN]}
                words = (await self._inspected_answer(key, request, told)).get("message", "")
                code = answer["error"].get("code")
                raise AskFailed(f"The client refused {request.method}: {words}", client_code=code)
        except HubError as error:
            record.close(error)
            raise
        await record.answered(result)
        return request.read(result)

    async def _inspected_answer(self, key: str, request: InputRequest, value: dict[str, Json]) -> dict[str, Json]:
        return value if key in self._own else await self._call.answer(request, value)

    def question(self, method: str, params: Mapping[str, Json]) -> Question | Unrecorded:
        """Return the record of a question, with the params that the client gets."""
        return question_of(self._call.commits, self._call.record, method, params)

    async def require(self, wanted: Mapping[str, Url]) -> NoReturn:
        if all(map(self.can_ask, wanted.values())) and self._revision.url_elicitation_error:
            raise UrlElicitationRequired([each.params(self._revision) for each in wanted.values()])
        given: Mapping[str, Elicited] = await self.ask(wanted)
        if all(each.accepted for each in given.values()):
            raise AskFailed("The person was led to the address and is not done there. Call again when they are.")
        raise AskFailed("The person did not agree to open the address, without which the tool cannot go on.")

    def elicitation_id(self, name: str = "") -> str:
        return addresses.seal(*self.elicitation_seed, name)

    @property
    def elicitation_seed(self) -> tuple[str, str]:
        """The session, where it can be notified, and the first invocation."""
        source = self._call.source
        hears = source.protocol_version in revisions.ALL and self._revision.url_elicitation_error
        return source.session_id if hears else "", source.continues or self._call.invocation_id

    # Giving the call up until its client has answered -----------------------------------------------

    @property
    def is_suspended(self) -> bool:
        return self._call.work.why == "asks"

    @property
    def resume_token(self) -> str:
        requester = self._ready_requester()
        return (requester.resume_token or "") if requester is not None else ""

    def resume_with(self, token: str) -> bool:
        requester = self._ready_requester()
        if requester is None or requester.resume_token is None:
            return False
        requester.resume_token = token
        return True

    async def suspend(self) -> NoReturn:
        """Return the call up until the client has answered: the tool is cancelled and never comes back from here.

        Not at once, so that parallel questions of the tool share a round.
        """
        loop = asyncio.get_running_loop()
        if self._suspending is None:
            self._suspending = loop.create_future()
            loop.call_soon(self._call.work.cancel, "asks")
        await asyncio.shield(self._suspending)
        raise AssertionError("nobody answers a suspended call")

    def suspended(self) -> Suspended:
        assert self._requester is not None
        return self._requester.suspended(self._call.invocation_id)

    def close(self) -> None:
        if self._suspending is not None:
            self._suspending.cancel()
        for task in self._asking:
            task.cancel()

    @property
    def _make_requester(self) -> Callable[[], InputRequester] | None:
        request = self._call.request
        return None if request is None else request.make_requester

    def _ready_requester(self) -> InputRequester | None:
        if self._requester is None and self._make_requester is not None:
            self._requester = self._make_requester()
        return self._requester

    @property
    def _revision(self) -> revisions.Revision:
        return revisions.revision(self._call.source.protocol_version)
