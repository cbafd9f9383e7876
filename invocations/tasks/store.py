"""Tasks in the database: made, found, moved and forgotten. Plain functions; each change is announced to every
process.

The second of two changes finds the task moved already: a change names the states that it leaves, and a trigger
protects ended ones.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from invocations.call_source import CallSource, clip
from invocations.mapping.error_map import ErrorMap, as_result
from invocations.models import McpIdempotencyKey, McpToolInvocation
from invocations.tasks.models import McpTask
from sessions_app import bus
from sessions_app.caller import ANONYMOUS
from sessions_app.protocol.errors import Cancelled, InvalidParams, ServerBusy
from sessions_app.protocol.json import Json
from sessions_app.protocol.tasks import LONGEST_ID, OPEN, Task, TaskState

_OPEN = sorted(state.value for state in OPEN)
_LONGEST_MESSAGE = 500
_LOST = ("cancelled", "interrupted")


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of the tasks. Callers without a key share one principal: their sessions distinguish them."""

    principal: str
    session_id: str | None = None

    @classmethod
    def of(cls, source: CallSource) -> Owner:
        alone = source.in_session and source.caller.principal == ANONYMOUS.principal
        return cls(source.caller.principal, source.session_id if alone else None)

    def tasks(self) -> QuerySet[McpTask]:
        mine = McpTask.objects.filter(principal=self.principal, expires_at__gt=timezone.now())
        return mine if self.session_id is None else mine.filter(session_id=self.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDraft:
    """The initial values of a task."""

    source: CallSource
    invocation_id: str
    process_id: str
    tool_name: str
    ttl_ms: int
    poll_ms: int
    request_key: str | None = None
    request_digest: str = ""
    message: str = ""


class TaskTaken(Exception):
    """The request made a task before."""

    def __init__(self, row: McpTask) -> None:
        self.task = row.view()
        self.digest = row.request_digest


def create(draft: TaskDraft) -> Task:
    """Make a task that works; raise TaskTaken for a request that made one, ServerBusy at the caller's bound."""
    source = draft.source
    mine = McpTask.objects.filter(principal=source.caller.principal, expires_at__gt=timezone.now())
    for kept, limit, advice in (
        (mine.filter(state__in=_OPEN), settings.MCPHUB_MAX_OPEN_TASKS_PER_CALLER, "Wait for one, or cancel one."),
        (mine, settings.MCPHUB_MAX_TASKS_PER_CALLER, "Ask for shorter lifetimes, or wait until some expire."),
    ):
        if kept.count() >= limit:
            busy = ServerBusy(f"You have {limit} tasks, as many as you may. {advice}")
            busy.retry_after_seconds = 10
            raise busy
    now = timezone.now()
    row = McpTask(
        task_id=secrets.token_urlsafe(24),
        invocation_id=draft.invocation_id,
        request_key=draft.request_key,
        request_digest=draft.request_digest,
        principal=source.caller.principal,
        caller_label=clip(source.caller.label, 150),
        session_id=source.session_id,
        process_id=draft.process_id,
        tool_name=draft.tool_name,
        protocol_version=source.protocol_version,
        ttl_ms=draft.ttl_ms,
        poll_ms=draft.poll_ms,
        message=_told(draft.message),
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(milliseconds=draft.ttl_ms),
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        first = McpTask.objects.filter(request_key=draft.request_key).first() if draft.request_key else None
        if first is None:
            raise
        raise TaskTaken(first) from None
    return row.view()


def find(task_id: str, owner: Owner) -> Task:
    """Return the owner's task. Unknown, foreign and expired ones raise the same InvalidParams."""
    return _find(task_id, owner.tasks()).view()


def first_under(source: CallSource, key: str) -> Task | None:
    """Return the task that the caller's first call under an idempotency key became, if it did."""
    used = McpIdempotencyKey.objects.filter(scope=f"caller:{source.caller.principal}", key=key)
    rows = Owner.of(source).tasks().filter(invocation_id__in=used.values("invocation_id"))
    row = rows.first()
    return None if row is None else row.view()


def page(owner: Owner, below: int | None, size: int) -> tuple[list[Task], int | None]:
    """Return the owner's tasks, newest first, and where the next page begins; None: there is none."""
    # Results may be long, and a list tells of them only whether the tool failed, which the call's row says too.
    failed = McpToolInvocation.objects.filter(invocation_id=OuterRef("invocation_id"), status="error")
    rows = owner.tasks().order_by("-id").annotate(tool_failed=Exists(failed))
    rows = rows.defer("result", "error", "input_requests", "input_responses", "clear")
    if below is not None:
        rows = rows.filter(id__lt=below)
    found = list(rows[: size + 1])
    return [row.outline(tool_failed=row.tool_failed) for row in found[:size]], found[size - 1].pk if len(
        found
    ) > size else None


def known(task_ids: list[str], owner: Owner) -> list[str]:
    """Return which of the tasks are the owner's, in the order they came."""
    mine = set(owner.tasks().filter(task_id__in=_wellformed(task_ids)).values_list("task_id", flat=True))
    return [task_id for task_id in dict.fromkeys(task_ids) if task_id in mine]


def look(task_id: str) -> Task | None:
    """Return a task that this process runs, as the others left it; None where its row is gone."""
    row = McpTask.objects.filter(task_id=task_id).first()
    return None if row is None else row.view()


def answers_of(task_id: str) -> dict[str, Json]:
    """Return the client's answers so far."""
    row = McpTask.objects.filter(task_id=task_id).only("task_id", "input_responses", "clear").first()
    return {} if row is None else row.answers


def settle(
    task_id: str,
    state: TaskState,
    *,
    result: dict[str, Json] | None = None,
    error: dict[str, Json] | None = None,
    message: str = "",
    shown: Mapping[str, dict[str, Json]] | None = None,
) -> bool:
    """Bring an open task to its end; False where it has ended already.

    `shown`: result and error as the row shows them, where that is not as they are.
    """
    now = timezone.now()
    whole = {"result": result, "error": error}
    recorded = {**whole, **(shown or {})}
    kept = {name: value for name, value in whole.items() if value is not recorded[name]}
    with transaction.atomic():
        ended = McpTask.objects.filter(task_id=task_id, state__in=_OPEN).update(
            state=state.value,
            result=recorded["result"],
            error=recorded["error"],
            clear=McpTask.apart(task_id, kept),
            message=_told(message),
            updated_at=now,
            finished_at=now,
        )
        if ended:
            _tell(task_id)
    return bool(ended)


def cancel(task_id: str, invocation_id: str, errors: ErrorMap) -> bool:
    """Cancel an open task; the process that runs its call receives a bus message. False where it has ended already."""
    rendered = errors.render(Cancelled(), invocation_id=invocation_id)
    return settle(task_id, TaskState.CANCELLED, result=as_result(rendered), message=rendered["message"])


def ask(
    task_id: str, requests: Mapping[str, dict[str, Json]], shown: Mapping[str, dict[str, Json]] | None = None
) -> bool:
    """Put requests to the client under keys that are new to the task; False where the task is over.

    `shown`: the requests as the row shows them.
    """
    with transaction.atomic():
        row = McpTask.objects.select_for_update().filter(task_id=task_id, state__in=_OPEN).first()
        if row is None:
            return False
        row.input_requests = {**row.input_requests, **(shown or requests)}
        _keep(row, "requests", {key: asked for key, asked in requests.items() if row.input_requests[key] != asked})
        row.state = TaskState.INPUT_REQUIRED.value
        row.updated_at = timezone.now()
        row.save(update_fields=["input_requests", "clear", "state", "updated_at"])
        _tell(task_id)
    return True


def withdraw(task_id: str, keys: list[str]) -> None:
    """Take back requests that the tool no longer waits for; their keys stay used."""
    answer(task_id, None, dict.fromkeys(keys))


def answer(
    task_id: str, owner: Owner | None, responses: Mapping[str, Json], shown: Callable[[str, Json], Json] | None = None
) -> None:
    """Store the responses to open requests; others are ignored (MCP 2026-07-28, Tasks, update). `shown`: returns a
    response as the row shows it, given the name of the tool.

    The task works again with the last answer. Raises InvalidParams for a task that is not the owner's.
    """
    with transaction.atomic():
        rows = McpTask.objects.all() if owner is None else owner.tasks()
        row = _find(task_id, rows.select_for_update())
        asked = row.open_requests
        fresh = {key: value for key, value in responses.items() if key in asked}
        if not fresh or row.state not in _OPEN:
            return
        if shown is not None:
            clear, fresh = fresh, {key: shown(row.tool_name, given) for key, given in fresh.items()}
            _keep(row, "responses", {key: given for key, given in clear.items() if fresh[key] is not given})
        row.input_responses = {**row.input_responses, **fresh}
        if not row.open_requests:
            row.state = TaskState.WORKING.value
        row.updated_at = timezone.now()
        row.save(update_fields=["input_responses", "clear", "state", "updated_at"])
        _tell(task_id)


def note(task_id: str, message: str) -> None:
    """Set the status message of an open task, for pollers."""
    McpTask.objects.filter(task_id=task_id, state__in=_OPEN).update(message=_told(message), updated_at=timezone.now())


def interrupt(process_id: str, error: Mapping[str, Json]) -> int:
    """End the tasks that a process left open, once: as their call was recorded, else failed with `error`.

    `error` is the error recorded by recovery for their calls, without its invocation. Give how many there were.
    """
    total = 0
    for row in McpTask.objects.filter(process=process_id, state__in=_OPEN):
        made = McpToolInvocation.objects.filter(invocation_id=row.invocation_id).first()
        whole = made is not None and "result" not in (made.left_out or {})
        if made is not None and isinstance(made.result, dict) and whole and made.error_code not in _LOST:
            # The process died between the two commits: the outcome was recorded, and nobody was told.
            total += settle(row.task_id, TaskState.COMPLETED, result=made.result)
            continue
        problem: Any = made.error if made is not None and made.error is not None else error
        total += settle(row.task_id, TaskState.FAILED, error=problem, message=str(problem.get("message", "")))
    return total


def has_open(process_id: str) -> bool:
    return McpTask.objects.filter(process=process_id, state__in=_OPEN).exists()


def purge(limit: int = 1000) -> int:
    """Delete tasks after their lifetime; return the number. A few at a time, so that no lock is long."""
    old = McpTask.objects.filter(expires_at__lt=timezone.now()).order_by("expires_at")
    return McpTask.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:limit])).delete()[0]


def _find(task_id: str, rows: QuerySet[McpTask]) -> McpTask:
    row = rows.filter(task_id=task_id).first() if _wellformed([task_id]) else None
    if row is None:
        raise InvalidParams("There is no such task, or its lifetime is over. Make the call again for a new one.")
    return row


def _wellformed(task_ids: list[str]) -> list[str]:
    return [id_ for id_ in task_ids if len(id_) <= LONGEST_ID and id_.isascii() and id_.isprintable()]


def _keep(row: McpTask, part: str, more: Mapping[str, Json]) -> None:
    """Store the parts that the row does not show. The row is not saved."""
    if more:
        kept = row.kept()
        row.clear = McpTask.apart(row.task_id, {**kept, part: {**kept.get(part, {}), **more}})


def _told(message: str) -> str:
    return clip(message, _LONGEST_MESSAGE)


def _tell(task_id: str) -> None:
    bus.publish(bus.TASK_CHANGED, task_id)
