"""Calls that a dead process left open become invocations `error/interrupted`, once, by whoever notices first."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from invocations.columns import IN_BOTH
from invocations.mapping.error_map import ErrorMap
from invocations.models import McpRequestEnvelope, McpToolInvocation
from invocations.recovery import open_calls
from invocations.subject import READS
from invocations.tasks import store as tasks
from sessions_app.models import ProcessTransport, ServerProcess
from sessions_app.protocol import json
from sessions_app.protocol.errors import Interrupted
from tools_catalog.models import McpToolDefinition

logger = logging.getLogger(__name__)

SILENT_SECONDS = 20
"""A process that has not been seen for so long is dead. It is seen every 3 s."""


LATE_SECONDS = 60
"""The database may still commit a dead process's last statements; its calls are checked for this long."""


_DIED = "The process ended without a word."
_DEAD = "ZX"
"""States of a process that has ended and that its parent has not asked for."""


def boot_mark(pid: int) -> str:
    """Return an identifier that tells processes of one number apart: boot, process namespace, start time. Linux; else
    empty.
    """
    try:
        return _mark_of(pid)
    except OSError:
        return ""


def _mark_of(pid: int) -> str:
    """Return the mark, empty if no such process runs; raise OSError where that cannot be looked up."""
    try:
        state, *found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state in _DEAD else f"{_machine()}{found[18]}"
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return ""


@cache
def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot.replace('-', '')[:20]}:{os.stat('/proc/self/ns/pid').st_ino}:"


def is_gone(process: ServerProcess, host: str) -> bool:
    """Return whether the process is dead: at once where its number can be looked up, else after its silence.

    Containers may share a host name and never a process namespace: one cannot look into the other. A process whose
    number cannot be looked up for want of descriptors or memory is not judged.
    """
    if process.host == host and process.boot_mark:
        try:
            if process.boot_mark.startswith(_machine()):
                return _mark_of(process.pid) != process.boot_mark
        except OSError as error:
            logger.warning("Whether the process %s runs cannot be looked up: %s", process.pk, error)
            return False
    return process.last_seen_at < timezone.now() - timedelta(seconds=SILENT_SECONDS)


def has_ended(process: ServerProcess, host: str) -> bool:
    """Return whether the process serves nothing any more: it stopped, or is dead.

    One that was taken for dead and has been seen since serves again, though its status stays.
    """
    if process.status == ServerProcess.Status.STOPPED:
        return True
    is_awake = process.stopped_at is not None and process.last_seen_at > process.stopped_at
    return (process.status == ServerProcess.Status.ERROR and not is_awake) or is_gone(process, host)


def is_neighbour(process: ServerProcess) -> bool:
    """Return whether the process runs on this machine, and in this container."""
    return bool(process.boot_mark) and process.boot_mark.startswith(_machine())


def recover(host: str, own_process_id: str, errors: ErrorMap) -> int:
    """Mark dead processes and record their open calls; return the number of calls."""
    live = [ServerProcess.Status.STARTING, ServerProcess.Status.RUNNING, ServerProcess.Status.STOPPING]
    # One that was taken for dead may have woken up, made calls and died for good; or its last commit was late.
    again = Q(status=ServerProcess.Status.ERROR) & (
        Q(stopped_at__isnull=True)
        | Q(last_seen_at__gt=F("stopped_at"))
        | Q(stopped_at__gt=timezone.now() - timedelta(seconds=LATE_SECONDS))
    )
    gone = [
        process
        for process in ServerProcess.objects.filter(Q(status__in=live) | again).exclude(pk=own_process_id)
        if is_gone(process, host)
    ]
    if not gone:
        return 0
    left: dict[str, list[McpRequestEnvelope]] = {process.pk: [] for process in gone}
    for envelope in open_calls.of(left):
        left[envelope.process_id].append(envelope)
    for process in gone:
        with transaction.atomic():
            if (
                process.status != ServerProcess.Status.ERROR
                or process.stopped_at is None
                or (process.last_seen_at > process.stopped_at)
            ):
                ServerProcess.objects.filter(pk=process.pk).update(
                    status=ServerProcess.Status.ERROR, stopped_at=timezone.now()
                )
                ProcessTransport.objects.filter(process=process.pk, is_active=True).update(
                    is_active=False, last_error=_DIED, last_error_at=timezone.now()
                )
            _close(process, left[process.pk], errors)
    begun = [envelope.invocation_id for envelopes in left.values() for envelope in envelopes]
    recorded = McpToolInvocation.objects.filter(invocation_id__in=begun).count() if begun else 0
    if recorded:
        logger.warning("%d calls of processes that are gone were recorded as interrupted", recorded)
    if recorded < len(begun):
        logger.error("%d calls of processes that are gone cannot be recorded as interrupted", len(begun) - recorded)
    return recorded


def has_open(process_id: str) -> bool:
    """Return whether a process leaves calls or tasks behind."""
    return bool(open_calls.of([process_id])) or tasks.has_open(process_id)


def _close(process: ServerProcess, left: list[McpRequestEnvelope], errors: ErrorMap) -> None:
    again = set(McpToolDefinition.objects.filter(retry_safe=True).values_list("name", flat=True)) if left else set()
    rows = [
        _interrupted(envelope, errors, envelope.tool_name in again or envelope.method in READS) for envelope in left
    ]
    try:
        with transaction.atomic():
            _record(rows)
    except IntegrityError:  # a row that breaks a rule of the table; the others are none the worse for it
        for row in rows:
            with suppress(IntegrityError), transaction.atomic():
                _record([row])
    tasks.interrupt(process.pk, errors.render(Interrupted()))


def _record(rows: list[McpToolInvocation]) -> None:
    # Another process that noticed at the same moment wins or loses by the unique id.
    McpToolInvocation.objects.bulk_create(rows, ignore_conflicts=True, batch_size=500)


def _interrupted(envelope: McpRequestEnvelope, errors: ErrorMap, retry_safe: bool) -> McpToolInvocation:
    rendered: dict[str, Any] = errors.render(
        Interrupted(), invocation_id=envelope.invocation_id, tool=envelope.tool_name, retry_safe=retry_safe
    )
    arguments = envelope.params.get("arguments", {})
    context = dict(envelope.context)
    digest = context.pop("arguments_digest", None) or json.digest(json.canonical(arguments))
    return McpToolInvocation(
        arguments=arguments,
        arguments_digest=digest,
        status="error",
        error=rendered,
        error_code="interrupted",
        jsonrpc_code=rendered["code"],
        retryable=rendered["data"]["retryable"],
        started_at=envelope.received_at,
        finished_at=timezone.now(),
        duration_ms=0,
        **{name: getattr(envelope, name) for name in IN_BOTH},
        **context,
    )
