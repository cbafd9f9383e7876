"""The forms of tasks by revision: none, that of 2025-11-25, the extension of 2026-07-28.

In 2025-11-25 the client requests a task; in 2026-07-28 it declares support, and the hub decides.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from invocations.tasks.background_call import BackgroundCall, TaskStart
from mcphub.server.results import IDENTITY
from mcphub.server.task_notifier import SessionTaskNotifier
from sessions_app.protocol import json, shapes, tasks
from sessions_app.protocol.errors import InvalidParams, MethodNotFound, MissingClientCapability
from sessions_app.protocol.tasks import Task, TaskSupport
from tools_catalog.call.base import Json

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange
    from tools_catalog.catalog.snapshot import Tool


class TaskForm:
    """Revisions before 2025-11-25: no call is a task."""

    def need(self, exchange: McpExchange) -> None:
        """Refuse clients that the methods of tasks are not for."""
        raise MethodNotFound("Tasks take a client of 2025-11-25 or later.")

    def start(self, exchange: McpExchange, params: dict[str, Json], tool: Tool) -> TaskStart | None:
        """Return when the call becomes a task; None: never, and `check` raises if that is against the rules."""
        return None

    def check(self, exchange: McpExchange, params: dict[str, Json], tool: Tool) -> None:
        """Refuse combinations that tool and client do not both allow."""
        if tool.task_support == TaskSupport.REQUIRED:
            raise MethodNotFound(
                f"The tool {tool.name} runs as a task only, which takes a client of 2025-11-25 or later. "
                "The hub's operator can let it run without."
            )

    async def background_call(
        self, exchange: McpExchange, params: dict[str, Json], start: TaskStart
    ) -> tuple[BackgroundCall, McpExchange]:
        """Return the call that may become a task, and the exchange in which it is made."""
        raise NotImplementedError

    def created(self, task: Task) -> dict[str, Json]:
        """Return the result of `tools/call` that became a task."""
        raise NotImplementedError

    def shown(self, exchange: McpExchange, task: Task) -> dict[str, Json]:
        """Return the result of `tasks/get`."""
        raise NotImplementedError

    def cancelled(self, task: Task, was_open: bool) -> dict[str, Json]:
        """Return the result of `tasks/cancel`."""
        raise NotImplementedError


class CoreTasks(TaskForm):
    """Tasks of sessions of 2025-11-25."""

    def need(self, exchange: McpExchange) -> None:
        pass

    def start(self, exchange: McpExchange, params: dict[str, Json], tool: Tool) -> TaskStart | None:
        is_one = "task" in params and tool.task_support != TaskSupport.FORBIDDEN
        return TaskStart.AT_ONCE if is_one else None

    def check(self, exchange: McpExchange, params: dict[str, Json], tool: Tool) -> None:
        if "task" in params:
            if tool.task_support == TaskSupport.FORBIDDEN:
                raise MethodNotFound(f"The tool {tool.name} does not run as a task. Call it without params.task.")
            tasks.wanted_ttl(params)
        elif tool.task_support == TaskSupport.REQUIRED:
            raise MethodNotFound(f"The tool {tool.name} runs as a task only. Call it with params.task, such as {{}}.")

    async def background_call(
        self, exchange: McpExchange, params: dict[str, Json], start: TaskStart
    ) -> tuple[BackgroundCall, McpExchange]:
        hub, source = exchange.hub, exchange.source
        # The call outlives the session, so the ledger does not tie it to one: that the session lives is asked here.
        await hub.touch_session(source.session_id)
        request = json.canonical(exchange.request_id)
        try:
            ttl = tasks.wanted_ttl(params)
        except InvalidParams:
            ttl = None  # `check` refuses the call, once it is known whether the tool may be known
        digested = {member: params.get(member) for member in ("name", "arguments", "task")}
        outliving = dataclasses.replace(source, in_session=False)
        call = BackgroundCall(
            hub.tasks,
            outliving,
            start,
            ttl_ms=ttl,
            request_key=f"{source.session_id} {json.digest(request)}",
            request_digest=json.digest(json.canonical(digested)),
            make_notifier=lambda task: SessionTaskNotifier(hub, source.session_id, task),
        )
        return call, dataclasses.replace(exchange, source=outliving)

    def created(self, task: Task) -> dict[str, Json]:
        return {"task": tasks.core(task), "_meta": {"mcphub/invocationId": task.invocation_id}}

    def shown(self, exchange: McpExchange, task: Task) -> dict[str, Json]:
        return tasks.core(task)

    def cancelled(self, task: Task, was_open: bool) -> dict[str, Json]:
        if not was_open:
            state = tasks.core(task)["status"]
            raise InvalidParams(f"The task is {state} already, so it cannot be cancelled.")
        return tasks.core(task)


class ExtensionTasks(TaskForm):
    """Tasks of stateless clients that declared the extension."""

    def need(self, exchange: McpExchange) -> None:
        if not tasks.declared(exchange.source.client_capabilities):
            raise MissingClientCapability(
                tasks.REQUIRED_CAPABILITIES, f"Declare the extension {tasks.EXTENSION} in the request."
            )

    def start(self, exchange: McpExchange, params: dict[str, Json], tool: Tool) -> TaskStart | None:
        if tool.task_support == TaskSupport.FORBIDDEN or not tasks.declared(exchange.source.client_capabilities):
            return None
        if getattr(tool.backend, "begins_task", False):
            return TaskStart.WHEN_TOLD
        return TaskStart.AT_ONCE if tool.task_support == TaskSupport.REQUIRED else TaskStart.WHEN_LATE

    def check(self, exchange: McpExchange, params: dict[str, Json], tool: Tool) -> None:
        if tool.task_support == TaskSupport.REQUIRED and not tasks.declared(exchange.source.client_capabilities):
            raise MissingClientCapability(
                tasks.REQUIRED_CAPABILITIES,
                f"The tool {tool.name} runs as a task only. Declare the extension {tasks.EXTENSION} in the request.",
            )

    async def background_call(
        self, exchange: McpExchange, params: dict[str, Json], start: TaskStart
    ) -> tuple[BackgroundCall, McpExchange]:
        return BackgroundCall(exchange.hub.tasks, exchange.source, start), exchange

    def created(self, task: Task) -> dict[str, Json]:
        meta = {"mcphub/invocationId": task.invocation_id}
        return {"resultType": "task", **tasks.flat(task), "_meta": meta | IDENTITY}

    def shown(self, exchange: McpExchange, task: Task) -> dict[str, Json]:
        return {"resultType": "complete", **self.detailed(exchange, task), "_meta": IDENTITY}

    def detailed(self, exchange: McpExchange, task: Task) -> dict[str, Json]:
        shown = tasks.detailed(task)
        if "result" in shown:
            shown["result"] = shapes.result_for(exchange.revision, shown["result"])
        return shown

    def cancelled(self, task: Task, was_open: bool) -> dict[str, Json]:
        return {"resultType": "complete", "_meta": IDENTITY}


NO_TASKS = TaskForm()
CORE_TASKS = CoreTasks()
EXTENSION_TASKS = ExtensionTasks()
