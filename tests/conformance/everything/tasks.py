"""The tools of the fixture that run as tasks, and the tasks extension of 2026-07-28, which the SDK leaves to its users.

Tasks live in this process. Their ids are their protection, as there are no callers here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from tests.conformance.everything.call import Call, Json, Request, fields, form
from tests.conformance.everything.tools import Failed, tool

EXTENSION = "io.modelcontextprotocol/tasks"
NEEDED = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
_TTL_MS, _POLL_MS = 600_000, 50
_CONFIRM = fields(confirm={"type": "boolean"})
_NAME = fields(name={"type": "string"})

Ask = Callable[..., Awaitable[dict[str, Any]]]
Work = Callable[["Task"], Awaitable[str]]


class Task:
    """One task and what it has come to. `label` is what it is about."""

    def __init__(self, label: str) -> None:
        self.id = secrets.token_urlsafe(16)
        self.label = label
        self.status = "working"
        self.message = ""
        self.end: dict[str, Json] = {}
        self.requests: dict[str, Request] = {}
        self._answers: dict[str, asyncio.Future[Json]] = {}
        self._created = self._moved = _now()
        self._job: asyncio.Task[None] | None = None

    def start(self, work: Work) -> None:
        self._job = asyncio.create_task(self._run(work))

    def shown(self) -> dict[str, Json]:
        """The task as a result tells of it."""
        told = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self._created,
            "lastUpdatedAt": self._moved,
            "ttlMs": _TTL_MS,
            "pollIntervalMs": _POLL_MS,
        }
        if self.message:
            told["statusMessage"] = self.message
        return told

    def detailed(self) -> dict[str, Json]:
        asked = {"inputRequests": self.requests} if self.status == "input_required" else {}
        return {**self.shown(), **asked, **self.end}

    async def say(self, words: str) -> None:
        self.message, self._moved = words, _now()

    async def ask(self, **requests: Request) -> dict[str, Json]:
        self._answers = {key: asyncio.get_running_loop().create_future() for key in requests}
        self.requests = dict(requests)
        self._move("input_required")
        given = {key: await answer for key, answer in self._answers.items()}
        self._move("working")
        return given

    def answer(self, given: Mapping[str, Json]) -> None:
        for key, answer in given.items():
            if self.requests.pop(key, None) is not None:
                self._answers[key].set_result(answer)

    def cancel(self) -> None:
        if self._job is not None and self.status in ("working", "input_required"):
            self._move("cancelled")
            self._job.cancel()

    async def _run(self, work: Work) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            try:
                self._over("completed", result=_result(await work(self)))
            except Failed as error:
                self._over("completed", result={**_result(str(error)), "isError": True})
            except MCPError as error:
                self._over("failed", error={"code": error.code, "message": error.message})

    def _over(self, status: str, **end: Json) -> None:
        self.end = end
        self._move(status)

    def _move(self, status: str) -> None:
        self.status, self._moved = status, _now()


class TaskRegistry:
    """The tasks of this server, and the methods by which a client follows them."""

    def __init__(self, server: Server[Any]) -> None:
        self._tasks: dict[str, Task] = {}
        server.extensions[EXTENSION] = {}
        for method, handler in (
            ("tasks/get", self._get),
            ("tasks/update", self._update),
            ("tasks/cancel", self._cancel),
        ):
            server.add_request_handler(method, _Params, handler)

    def began(self, work: Work, label: str) -> dict[str, Json]:
        """Begin a task; give what the call that made it is answered with."""
        task = Task(label)
        self._tasks[task.id] = task
        shown = {"resultType": "task", **task.shown()}
        task.start(work)
        return shown

    def states(self) -> str:
        """Tell what each task is about, and its state."""
        return json.dumps([[task.label, task.status] for task in self._tasks.values()])

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: _Params) -> dict[str, Json]:
        return self._find(ctx, params).detailed()

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: _Params) -> dict[str, Json]:
        self._find(ctx, params).answer(params.input_responses or {})
        return {}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: _Params) -> dict[str, Json]:
        self._find(ctx, params).cancel()
        return {}

    def _find(self, ctx: ServerRequestContext[Any, Any], params: _Params) -> Task:
        if not follows(ctx):
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "The client does not follow tasks.", NEEDED)
        if ctx.request is not None and ctx.request.headers.get("mcp-name", params.task_id) != params.task_id:
            raise MCPError(types.HEADER_MISMATCH, "Mcp-Name is not the task of the request.")
        if params.task_id not in self._tasks:
            raise MCPError(types.INVALID_PARAMS, "There is no such task.")
        return self._tasks[params.task_id]


class _Params(types.RequestParams):
    task_id: str
    input_responses: dict[str, Json] | None = None


class Begun(Exception):
    """The call goes on as a task that does `work`."""

    def __init__(self, work: Work) -> None:
        super().__init__("task")
        self.work = work


def follows(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client of a request can follow a task."""
    declared = ctx.session.client_capabilities
    return declared is not None and EXTENSION in (declared.extensions or {})


def _begin(call: Call, work: Work) -> None:
    """Go on as a task; refuse a client that cannot follow one."""
    if not call.is_modern or not follows(call.ctx):
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "It runs as a task only.", NEEDED)
    raise Begun(work)


@tool(fields(name={"type": "string"}))
async def greet(call: Call) -> str:
    """Greet somebody; never a task."""
    return f"Hello, {call.arguments['name']}!"


@tool(
    {
        "type": "object",
        "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}},
        "required": ["seconds"],
    }
)
async def slow_compute(call: Call) -> str:
    """Take so many seconds; a task where the client can follow one."""
    seconds = float(call.arguments["seconds"])

    async def work(task: Task | None = None) -> str:
        if task is not None:
            await task.say("Computing")
        await asyncio.sleep(seconds)
        return f"Computed in {seconds:g} s."

    if seconds and call.is_modern and follows(call.ctx):
        raise Begun(work)
    return await work()


@tool()
async def failing_job(call: Call) -> None:
    """Fail after a second; a task only."""

    async def work(task: Task) -> str:
        await asyncio.sleep(1)
        raise Failed("The job failed.")

    _begin(call, work)


@tool()
async def protocol_error_job(call: Call) -> None:
    """End in an error of the protocol; a task only."""

    async def work(task: Task) -> str:
        raise MCPError(types.INTERNAL_ERROR, "The job broke.")

    _begin(call, work)


@tool(fields(filename={"type": "string"}))
async def confirm_delete(call: Call) -> None:
    """Ask whether a file may go, and let it be; a task only."""

    async def work(task: Task) -> str:
        given = await task.ask(confirm=form(f"Delete {call.arguments['filename']}?", _CONFIRM))
        agrees = (given["confirm"].get("content") or {}).get("confirm")
        return f"{call.arguments['filename']} was {'deleted' if agrees else 'kept'}."

    _begin(call, work)


@tool()
async def multi_input(call: Call) -> None:
    """Ask two things at once, whose answers may come one by one; a task only."""

    async def work(task: Task) -> str:
        given = await task.ask(name=form("What is your name?", _NAME), confirm=form("Do you agree?", _CONFIRM))
        return f"{given['name'].get('content')} {given['confirm'].get('content')}"

    _begin(call, work)


@tool()
async def test_tool_with_task(call: Call) -> None:
    """Ask for a name before it becomes a task, and use it there."""
    given = (await call.ask(user_name=form("What is your name?", _NAME)))["user_name"]

    async def work(task: Task) -> str:
        return f"Hello, {(given.content or {}).get('name', 'nobody')}, from a task!"

    _begin(call, work)


def _result(text: str) -> dict[str, Json]:
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
