"""`tools/call` that is answered with a task, or may be: when it becomes one, who may, and how it asks its client.

In 2025-11-25 the client says that it wants a task, in 2026-07-28 that it can follow one, and the hub decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async

from invocations.calling import CallResult
from invocations.context import Asker, CallContext, Suspended
from invocations.origin import Origin
from invocations.records import Touch
from invocations.tasks.job import Begin, Job
from mcphub.server import asking
from mcphub.server.answers import IDENTITY
from mcphub.server.context import RequestContext, Result
from mcphub.server.rounds import Rounds
from sessions_app import bus
from sessions_app.protocol import envelope, json, jsonrpc, tasks
from sessions_app.protocol.envelope import RoutingHeaders
from sessions_app.protocol.errors import (
    AskFailed,
    DuplicateRequest,
    InvalidParams,
    MethodNotFound,
    MissingClientCapability,
    SessionNotFound,
)  # fmt: skip
from sessions_app.protocol.tasks import Task, TaskSupport
from tools_catalog.backends.questions import BadAnswer, Question

if TYPE_CHECKING:
    from mcphub.runtime import Hub
    from tools_catalog.catalog import Tool

_TRIES = 5
"""How often a question is asked whose answers cannot be used."""
_SHOWN = 300
"""Characters of a client's own words that a tool is shown."""

KeyOf = Callable[[RequestContext, dict[str, Any], Rounds | None], str | None]
_PROGRESS_SECONDS = 0.1
"""Each message may be a row of the change bus, and a tool may report progress in a loop."""

Shape = Callable[[RequestContext, CallResult], Result]


async def tools_call(
    context: RequestContext, params: dict[str, Any], headers: RoutingHeaders | None, key_of: KeyOf, shape: Shape
) -> Result:
    """Make a call of a tool that may run as a task, or one that asks for a task.

    `headers` are those that must agree with the arguments, `key_of` gives the client's own key of the call, `shape`
    the result of a call that was answered like any other.
    """
    name, arguments = params.get("name"), params.get("arguments", {})
    selection = context.catalog()
    tool = selection.tools.get(name) if isinstance(name, str) else None
    rounds: Rounds | None = None
    if context.revision.stateless and ("requestState" in params or "inputResponses" in params):
        rounds = Rounds.of(context.origin, context.revision, "tools/call", params)

    def check(found: Tool) -> None:
        _check(context, params, found, arguments, headers)
        if rounds is not None:
            rounds.check()

    def ordinary() -> Asker:
        return rounds or asking.asker(context, "tools/call", params)

    more: dict[str, Any] = {
        "request_id": context.request_id, "idempotency_key": key_of(context, params, rounds), "check": check,
        "voice": context.voice, "progress_token": context.progress_token, "log_level": context.log_level,
        "watch": context.watch, "meta": params.get("_meta"), "selection": selection if context.toolset else None,
    }  # fmt: skip
    origin = context.origin
    if rounds is not None and rounds.continues:
        origin = origin.continuing(rounds.continues)
    begin = None if tool is None else _begin(context, params, tool)
    if begin is None:
        answer = await context.hub.calls.call_tool(origin, name, arguments, asker=ordinary, **more)
        return shape(context, answer)
    job = await _job(context, origin, params, begin)
    try:
        made = await context.hub.tasks.run(job, name, arguments, asker=lambda: InTask(job, context, ordinary), **more)
    except DuplicateRequest:
        taken = job.taken
        if taken is None or taken.digest != job.request_digest:
            raise
        made = taken.task
    if isinstance(made, CallResult):
        return shape(context, made)
    meta = {"mcphub/invocationId": made.invocation_id}
    if context.revision.stateless:
        return {"resultType": "task", **tasks.flat(made), "_meta": meta | IDENTITY}
    return {"task": tasks.core(made), "_meta": meta}


def _begin(context: RequestContext, params: dict[str, Any], tool: Tool) -> Begin | None:
    """When the call becomes a task; None: never, and where that is against the rules `_check` says so."""
    if tool.task_support == TaskSupport.FORBIDDEN:
        return None
    if context.revision.core_tasks:
        return Begin.AT_ONCE if "task" in params else None
    if not context.revision.stateless or not tasks.declared(context.origin.client_capabilities):
        return None
    if getattr(tool.backend, "begins_task", False):
        return Begin.WHEN_TOLD
    return Begin.AT_ONCE if tool.task_support == TaskSupport.REQUIRED else Begin.WHEN_LATE


def _check(
    context: RequestContext, params: dict[str, Any], tool: Tool, arguments: Any, headers: RoutingHeaders | None
) -> None:
    """Refuse what the tool and the client do not allow each other."""
    revision = context.revision
    if tool.param_headers and headers is not None:
        envelope.check_param_headers(tool.param_headers, arguments, headers)
    required = tool.task_support == TaskSupport.REQUIRED
    if revision.stateless:
        if required and not tasks.declared(context.origin.client_capabilities):
            raise MissingClientCapability(
                tasks.REQUIRED_CAPABILITIES,
                f"The tool {tool.name} runs as a task only. Declare the extension {tasks.EXTENSION} in the request.",
            )
    elif revision.core_tasks and "task" in params:
        if tool.task_support == TaskSupport.FORBIDDEN:
            raise MethodNotFound(f"The tool {tool.name} does not run as a task. Call it without params.task.")
        tasks.wanted_ttl(params)
    elif required and revision.core_tasks:
        raise MethodNotFound(f"The tool {tool.name} runs as a task only. Call it with params.task, such as {{}}.")
    elif required:
        raise MethodNotFound(
            f"The tool {tool.name} runs as a task only, which takes a client of 2025-11-25 or later. "
            "The hub's operator can let it run without."
        )


async def _job(context: RequestContext, origin: Origin, params: dict[str, Any], begin: Begin) -> Job:
    hub = context.hub
    if not origin.handshake:
        return Job(hub.tasks, origin, begin)
    # The call outlives the session, so the ledger does not tie it to one: that the session lives is asked here.
    if not (await hub.ledger.append(Touch(origin.session_id))).session_alive:
        hub.sessions.forget(origin.session_id)
        raise SessionNotFound
    request = json.canonical(context.request_id)
    try:
        ttl = tasks.wanted_ttl(params)
    except InvalidParams:
        ttl = None  # `_check` refuses the call, once it is known whether the tool may be known
    told = {member: params.get(member) for member in ("name", "arguments", "task")}
    return Job(
        hub.tasks, origin.beyond_session(), begin, ttl_ms=ttl,
        request_key=f"{origin.session_id} {json.digest(request)}", request_digest=json.digest(json.canonical(told)),
        make_teller=lambda task: SessionTeller(hub, origin.session_id, task),
    )  # fmt: skip


class SessionTeller:
    """Speaks of a task on a stream of the session that made it, whichever process holds one."""

    def __init__(self, hub: Hub, session_id: str, task: Task) -> None:
        self._hub = hub
        self._session_id = session_id
        self._task_id = task.task_id
        self._progressed = 0.0

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/progress":
            now = time.monotonic()
            if now - self._progressed < _PROGRESS_SECONDS:
                return
            self._progressed = now
        params = {**params, "_meta": tasks.related(params.get("_meta"), self._task_id)}
        await self.send(jsonrpc.encode_notification(method, params))

    async def send(self, message: bytes) -> None:
        if message and not self._hub.streams.send(self._session_id, message):
            await database_sync_to_async(bus.publish)(bus.SESSION_MESSAGE, f"{self._session_id} {message.decode()}")

    async def status(self, task: Task) -> None:
        await self.send(jsonrpc.encode_notification("notifications/tasks/status", tasks.core(task)))


class InTask:
    """Asks from within a task: the tool waits, and the answers come whenever the client gives them.

    Before the call is a task, a tool that begins it itself asks the `ordinary` way.
    """

    def __init__(self, job: Job, context: RequestContext, ordinary: Callable[[], Asker]) -> None:
        self._job = job
        self._origin, self._revision = context.origin, context.revision
        self._make_ordinary = ordinary
        self._ordinary: Asker | None = None

    async def ask(self, call: CallContext, questions: Mapping[str, Question]) -> dict[str, Any]:
        if self._job.begin is Begin.WHEN_TOLD and self._job.task is None:
            self._ordinary = self._ordinary or self._make_ordinary()
            return await self._ordinary.ask(call, questions)
        self._refuse_impossible(questions)
        answers: dict[str, Any] = {}
        why = ""
        for number in range(1, _TRIES + 1):
            if answers.keys() == questions.keys():
                return answers
            # A key names one request of a task, for ever: who is asked again is asked under another.
            keys = {key if number == 1 else f"{key}_again_{number}": key for key in questions.keys() - answers.keys()}
            requests = {
                key: {"method": questions[own].method, "params": questions[own].params(self._revision)}
                for key, own in keys.items()
            }
            for key, given in (await self._job.ask(requests)).items():
                try:
                    answers[keys[key]] = questions[keys[key]].read(_result(given, questions[keys[key]]))
                except BadAnswer as error:
                    why = str(error)
        if answers.keys() == questions.keys():
            return answers
        raise AskFailed(f"The client's answers cannot be used, {_TRIES} times: {why}")

    def suspended(self, call: CallContext) -> Suspended:
        assert self._ordinary is not None
        return self._ordinary.suspended(call)

    def _refuse_impossible(self, questions: Mapping[str, Question]) -> None:
        able = self._origin.client_capabilities
        missing = [each for each in questions.values() if not each.is_possible(able, self._revision)]
        if not missing:
            return
        required = {name: value for each in missing for name, value in each.required.items()}
        if self._revision.stateless:
            raise MissingClientCapability(required)
        raise AskFailed(
            f"The tool asks for {missing[0].method}, which the client does not support. Use a client that does.",
            requiredCapabilities=required,
        )


def _result(given: Mapping[str, Any], question: Question) -> dict[str, Any]:
    """Give the result among what a client answered; raise AskFailed for an error."""
    if "error" in given:
        words = str(given["error"].get("message", ""))[:_SHOWN]
        raise AskFailed(f"The client refused {question.method}: {words}", client_code=given["error"].get("code"))
    result: dict[str, Any] = given["result"]
    return result
