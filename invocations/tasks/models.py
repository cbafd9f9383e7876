"""The table of tasks: calls that were answered with a handle and go on in the background."""

from __future__ import annotations

import logging
from dataclasses import replace

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from invocations.redaction import records
from sessions_app.kit.fields import JSONText
from sessions_app.kit.shown import clipped
from sessions_app.models import McpSession, ServerProcess
from sessions_app.protocol import tasks
from sessions_app.protocol.json import Json
from tools_catalog.secrets import SecretError

logger = logging.getLogger(__name__)

_OVER = sorted(state.value for state in tasks.TERMINAL)


class McpTask(models.Model):
    """A `tools/call` that its caller polls. Bound to the caller; its outcome is in the invocation that it names."""

    class State(models.TextChoices):
        WORKING = tasks.TaskState.WORKING.value, _("Running")
        INPUT_REQUIRED = tasks.TaskState.INPUT_REQUIRED.value, _("Waiting for input")
        COMPLETED = tasks.TaskState.COMPLETED.value, _("Completed")
        FAILED = tasks.TaskState.FAILED.value, _("Failed")
        CANCELLED = tasks.TaskState.CANCELLED.value, _("Cancelled")

    id = models.BigAutoField(_("sequence"), primary_key=True)
    task_id = models.CharField(_("task"), max_length=tasks.LONGEST_ID, unique=True)
    invocation_id = models.CharField(_("invocation"), max_length=36, unique=True)
    request_key = models.CharField(max_length=400, null=True, blank=True, editable=False)  # noqa: DJ001 - null is outside the unique index
    """Session and JSON request id of the handshake era, where a request id is used once."""
    request_digest = models.CharField(max_length=64, blank=True, editable=False)
    principal = models.CharField(_("principal"), max_length=64, help_text=_("The only caller that can see the task."))
    caller_label = models.CharField(_("caller"), max_length=150, blank=True)
    session = models.ForeignKey(
        McpSession,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="tasks",
        verbose_name=_("session"),
    )
    process = models.ForeignKey(
        ServerProcess,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="tasks",
        verbose_name=_("process"),
        help_text=_("Where the call runs."),
    )
    tool_name = models.CharField(_("tool"), max_length=128)
    protocol_version = models.CharField(_("protocol version"), max_length=10, blank=True)
    state = models.CharField(_("state"), max_length=14, choices=State, default=State.WORKING)
    message = models.CharField(_("message"), max_length=500, blank=True)
    result = JSONText(_("result"), null=True, blank=True)
    error = JSONText(_("error"), null=True, blank=True)
    input_requests = JSONText(_("questions"), default=dict, blank=True)
    input_responses = JSONText(_("answers"), default=dict, blank=True)
    clear = models.TextField(null=True, blank=True, editable=False)  # noqa: DJ001 - null: the row shows all
    """The hidden parts of result, error, questions and answers, encrypted, for the row's life; see `kept`."""
    ttl_ms = models.PositiveBigIntegerField(_("lifetime, ms"))
    poll_ms = models.PositiveIntegerField(_("poll interval, ms"))
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    updated_at = models.DateTimeField(_("last change"), default=timezone.now)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)
    expires_at = models.DateTimeField(_("expires"))

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        ordering = ["-id"]
        permissions = [("cancel_mcptask", _("Can cancel other callers' tasks"))]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in tasks.TaskState]), name="task_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state__in=_OVER, finished_at__isnull=False) | (~Q(state__in=_OVER) & Q(finished_at=None)),
                name="task_finished_when_terminal",
            ),
            models.CheckConstraint(condition=~Q(state="failed") | Q(error__isnull=False), name="task_failed_has_error"),
            models.UniqueConstraint(fields=["request_key"], name="task_one_per_request"),
        ]
        indexes = [
            models.Index(fields=["principal", "-id"], name="task_by_caller"),  # lists and bounds of a caller
            models.Index(fields=["process", "state"], name="task_by_process"),  # recovery
            models.Index(fields=["expires_at"], name="task_sweep"),
        ]

    def __str__(self) -> str:
        return f"{clipped(self.tool_name, 64)} {self.task_id[:12]}…"

    def kept(self) -> dict[str, Json]:
        """Return the parts that the row does not show: `result`, `error`, and by key `requests` and `responses`."""
        if self.clear is None:
            return {}
        try:
            return dict(records.unseal(self.clear, of=f"task {self.task_id}"))
        except SecretError as error:
            logger.warning("What is hidden of the task %s cannot be read: %s", self.task_id, error)
            return {}

    @staticmethod
    def apart(task_id: str, kept: dict[str, Json]) -> str | None:
        """Return the value of `clear` that keeps this."""
        return records.seal(kept, of=f"task {task_id}") if kept else None

    @property
    def answers(self) -> dict[str, Json]:
        """The client's answers, unredacted."""
        return {**self.input_responses, **self.kept().get("responses", {})}

    @property
    def open_requests(self) -> dict[str, dict[str, object]]:
        """The open questions, unredacted."""
        asked = {**self.input_requests, **self.kept().get("requests", {})}
        return {key: each for key, each in asked.items() if key not in self.input_responses}

    def outline(self, *, tool_failed: bool) -> tasks.Task:
        """The task without its questions and outcome."""
        return tasks.Task(
            task_id=self.task_id,
            state=tasks.TaskState(self.state),
            created_at=self.created_at,
            updated_at=self.updated_at,
            ttl_ms=self.ttl_ms,
            poll_ms=self.poll_ms,
            message=self.message,
            invocation_id=self.invocation_id,
            result={"isError": True} if tool_failed else None,
        )

    def view(self) -> tasks.Task:
        """The task as its caller sees it."""
        kept = self.kept()
        return replace(
            self.outline(tool_failed=False),
            result=kept.get("result", self.result),
            error=kept.get("error", self.error),
            requests=self.open_requests,
        )
