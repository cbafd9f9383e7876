"""Tasks in the forms of the two revisions: the core form of 2025-11-25 and the extension of 2026-07-28.

One task, two serialisers. They differ in more than names: where a tool fails, the core form calls the task
failed, and the extension completed with a result that has `isError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.json import Json

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
REQUIRED_CAPABILITIES: dict[str, Json] = {"extensions": {EXTENSION: {}}}
CORE_CAPABILITY: dict[str, Json] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""The `tasks` capability of a server of 2025-11-25."""

LONGEST_ID = 64


class TaskSupport(StrEnum):
    """A tool's support for tasks, in the terms of `execution.taskSupport`."""

    FORBIDDEN = "forbidden"
    OPTIONAL = "optional"
    REQUIRED = "required"


class TaskState(StrEnum):
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = frozenset({TaskState.WORKING, TaskState.INPUT_REQUIRED})
TERMINAL = frozenset(TaskState) - OPEN
"""States that nothing leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task at one moment."""

    task_id: str
    state: TaskState
    created_at: datetime
    updated_at: datetime
    ttl_ms: int
    """From `created_at` on."""
    poll_ms: int
    message: str = ""
    invocation_id: str = ""
    result: dict[str, Json] | None = None
    """A CallToolResult in its newest form."""
    error: dict[str, Json] | None = None
    """A JSON-RPC error, of a task that failed."""
    requests: Mapping[str, dict[str, Json]] = field(default_factory=dict)
    """The client's unanswered questions: key -> {method, params}."""

    @property
    def is_over(self) -> bool:
        return self.state in TERMINAL


def declared(capabilities: Mapping[str, Json]) -> bool:
    """Return whether the capabilities of a request name the extension (MCP 2026-07-28, Tasks, negotiation)."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(EXTENSION), dict)


def core(task: Task) -> dict[str, Json]:
    """The Task object of 2025-11-25."""
    failed = task.state is TaskState.COMPLETED and task.result is not None and task.result.get("isError") is True
    return {
        "taskId": task.task_id,
        "status": (TaskState.FAILED if failed else task.state).value,
        **({"statusMessage": task.message} if task.message else {}),
        "createdAt": moment(task.created_at),
        "lastUpdatedAt": moment(task.updated_at),
        "ttl": task.ttl_ms,
        "pollInterval": task.poll_ms,
    }


def flat(task: Task) -> dict[str, Json]:
    """The Task members of 2026-07-28, which stand in the result itself."""
    return {
        "taskId": task.task_id,
        "status": task.state.value,
        **({"statusMessage": task.message} if task.message else {}),
        "createdAt": moment(task.created_at),
        "lastUpdatedAt": moment(task.updated_at),
        "ttlMs": task.ttl_ms,
        "pollIntervalMs": task.poll_ms,
    }


def detailed(task: Task) -> dict[str, Json]:
    """The DetailedTask of 2026-07-28: with the members of its state."""
    shape = flat(task)
    if task.state is TaskState.INPUT_REQUIRED:
        shape["inputRequests"] = dict(task.requests)
    elif task.state is TaskState.COMPLETED:
        shape["result"] = task.result or {}
    elif task.state is TaskState.FAILED:
        shape["error"] = task.error or {}
    return shape


def moment(time: datetime) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def wanted_ttl(params: Mapping[str, Json]) -> float | None:
    """The lifetime in ms that `params.task` asks for, None where it leaves that to the server.

    Raises `InvalidParams` for an invalid task augmentation (MCP 2025-11-25, Tasks, creating tasks).
    """
    task = params["task"]
    if not isinstance(task, dict):
        raise InvalidParams('params.task must be an object, such as {} or {"ttl": 60000}.')
    ttl = task.get("ttl")
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not ttl >= 0:
        raise InvalidParams("params.task.ttl must be a number of milliseconds, 0 or more.")
    return float(ttl)


def task_id(params: Mapping[str, Json]) -> str:
    """The task that a request names; raises `InvalidParams` where it names none."""
    value = params.get("taskId")
    if not isinstance(value, str) or not value:
        raise InvalidParams("The request needs taskId, the id that tools/call answered with.")
    return value


def related(meta: Mapping[str, Json] | None, id_: str) -> dict[str, Json]:
    """`_meta` that names the task of a message of 2025-11-25."""
    return {**(meta or {}), RELATED: {"taskId": id_}}
