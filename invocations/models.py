"""The record: accepted calls, their outcomes, error mappings, and the keys that detect a repeat.

Envelopes and invocations are written by `ledger.py` on its own connection, never by the ORM, and never
updated or deleted by the application.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from invocations.chain import models as chain_models  # noqa: F401 - where Django looks for models
from invocations.mapping import error_map as mapping
from invocations.subject import COMPLETE, ELICIT, LIST_ROOTS, LONGEST_TARGET, PROMPTS_GET, RESOURCES_READ, SAMPLE
from sessions_app import transports
from sessions_app.kit.append_only import AppendOnly, AppendOnlyQuerySet
from sessions_app.kit.fields import JSONText
from sessions_app.kit.shown import clipped
from sessions_app.models import McpSession, ServerProcess
from sessions_app.protocol import errors
from sessions_app.workspaces.scope import OwnedQuerySet, RecordedInWorkspace
from tools_catalog.models.loadable import LoadableModel

from invocations.redaction.models import McpRedactionRule  # isort: skip  # models of this app, in files of their own
from invocations.tasks.models import McpTask  # isort: skip

__all__ = [
    "CallTally",
    "McpErrorMapping",
    "McpIdempotencyKey",
    "McpRedactionRule",
    "McpRequestEnvelope",
    "McpTask",
    "McpToolInvocation",
    "OpenCall",
    "OpenCallMark",
]


class McpRequestEnvelope(AppendOnly):
    """The write-ahead record of an accepted call: committed before anything with side effects runs."""

    id = models.BigAutoField(primary_key=True)
    invocation_id = models.CharField(_("invocation"), max_length=36, unique=True)
    session = models.ForeignKey(
        McpSession,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="envelopes",
        verbose_name=_("session"),
    )
    process = models.ForeignKey(
        ServerProcess,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="envelopes",
        verbose_name=_("process"),
    )
    request_id = JSONText(_("request ID"), null=True, blank=True)
    method = models.CharField(_("method"), max_length=100)
    params = JSONText(_("parameters"))
    tool_name = models.CharField(_("tool"), max_length=128)
    tool_version = models.CharField(_("tool version"), max_length=20)
    tool_digest = models.CharField(max_length=64)
    principal = models.CharField(_("principal"), max_length=64)
    context = JSONText(
        _("context"), default=dict, help_text=_("Caller, client and transport, for a row that recovery may write.")
    )
    received_at = models.DateTimeField(_("received"), default=timezone.now)

    class Meta:
        verbose_name = _("request envelope")
        verbose_name_plural = _("request envelopes")
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=~Q(method=""), name="envelope_method_present"),
            models.CheckConstraint(
                condition=~Q(method="tools/call") | ~Q(tool_name=""), name="envelope_call_names_tool"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.tool_name} {self.invocation_id}"


class OpenCall(models.Model):
    """A call that had no outcome when its envelope was looked at (`open_calls.py`). No evidence."""

    envelope = models.OneToOneField(McpRequestEnvelope, models.DO_NOTHING, primary_key=True, db_constraint=False)
    process_id = models.CharField(max_length=32)

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["process_id"], name="open_call_by_process")]  # recovery

    def __str__(self) -> str:
        return str(self.envelope_id)


class OpenCallMark(models.Model):
    """One row: through which envelope the open calls are noted."""

    ONLY = 1

    through = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ()
        constraints = [models.CheckConstraint(condition=Q(id=1), name="open_call_mark_is_one")]

    def __str__(self) -> str:
        return str(self.through)


class CallQuerySet(AppendOnlyQuerySet, OwnedQuerySet[Any]):  # type: ignore[override, unused-ignore]
    """Recorded calls; in a workspace, only the workspace's."""


class McpToolInvocation(RecordedInWorkspace, AppendOnly):
    """One attempt at `tools/call`, or to read a resource, a prompt or a completion, appended once, when its outcome is
    known."""

    class Status(models.TextChoices):
        OK = "ok", _("OK")
        ERROR = "error", _("Error")

    class Method(models.TextChoices):
        CALL = "tools/call", "tools/call"
        READ_RESOURCE = RESOURCES_READ, RESOURCES_READ
        GET_PROMPT = PROMPTS_GET, PROMPTS_GET
        COMPLETE = COMPLETE, COMPLETE
        ELICIT = ELICIT, ELICIT
        SAMPLE = SAMPLE, SAMPLE
        LIST_ROOTS = LIST_ROOTS, LIST_ROOTS

    id = models.BigAutoField(_("sequence"), primary_key=True)
    invocation_id = models.CharField(_("invocation"), max_length=36, unique=True)
    session = models.ForeignKey(
        McpSession,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="invocations",
        verbose_name=_("session"),
    )
    process = models.ForeignKey(
        ServerProcess,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="invocations",
        verbose_name=_("process"),
    )
    request_id = JSONText(_("request ID"), null=True, blank=True)
    tool_name = models.CharField(_("tool"), max_length=128)
    tool_version = models.CharField(_("tool version"), max_length=20, blank=True)
    tool_digest = models.CharField(_("definition digest"), max_length=64, blank=True)
    method = models.CharField(  # noqa: DJ001 - as continues
        _("method"),
        max_length=100,
        null=True,
        blank=True,
        choices=Method,
        help_text=_("Set for reads; empty for tool calls."),
    )
    target = models.CharField(  # noqa: DJ001 - as continues
        _("resource or prompt"),
        max_length=LONGEST_TARGET,
        null=True,
        blank=True,
        help_text=_("The resource's URI or template, or the prompt's name."),
    )
    asked_by = models.CharField(  # noqa: DJ001 - as continues
        _("asked by"), max_length=36, null=True, blank=True, help_text=_("The call that asked its client this.")
    )
    arguments = JSONText(_("arguments"))
    arguments_digest = models.CharField(_("arguments digest"), max_length=64)
    status = models.CharField(_("status"), max_length=5, choices=Status)
    result = JSONText(_("result"), null=True, blank=True)
    error = JSONText(_("error"), null=True, blank=True)
    error_code = models.CharField(_("error code"), max_length=40, blank=True)
    jsonrpc_code = models.IntegerField(_("JSON-RPC code"), null=True, blank=True)
    retryable = models.BooleanField(_("retryable"), null=True, blank=True)
    received_at = models.DateTimeField(_("received"))
    started_at = models.DateTimeField(_("started"))
    finished_at = models.DateTimeField(_("finished"))
    duration_ms = models.PositiveIntegerField(_("duration, ms"))
    duplicate_of = models.CharField(
        _("duplicate of"), max_length=36, blank=True, help_text=_("The first call with this request ID.")
    )
    occurrences = models.PositiveIntegerField(
        _("occurrences"), default=1, help_text=_("More than 1: many refusals in a short time, counted in one row.")
    )
    transport = models.CharField(_("transport"), max_length=16, choices=transports.choices)
    protocol_version = models.CharField(_("protocol version"), max_length=10, blank=True)
    principal = models.CharField(_("principal"), max_length=64)
    caller_label = models.CharField(_("caller"), max_length=150, blank=True)
    allowed_client = models.CharField(  # noqa: DJ001 - null is outside the hash of older rows
        _("authorized app"),
        max_length=150,
        null=True,
        blank=True,
        help_text=_(
            "The client that a person authorized and that called in the person's name. Empty for a key, or the person."
        ),
    )
    policy_rule = models.CharField(  # noqa: DJ001 - null is outside the hash of older rows
        _("rule"), max_length=64, null=True, blank=True, help_text=_("The call rule that decided. Empty if none did.")
    )
    policy_version = models.PositiveIntegerField(_("rule version"), null=True, blank=True)
    policy_said = models.CharField(  # noqa: DJ001 - as above
        _("rule's message"), max_length=200, null=True, blank=True
    )
    policy_watched = models.CharField(  # noqa: DJ001 - as above
        _("verdicts of log-only rules"), max_length=2000, null=True, blank=True
    )
    workspace = models.CharField(  # noqa: DJ001 - as above
        _("workspace"),
        max_length=32,
        null=True,
        blank=True,
        help_text=_("The workspace that the call came through, or else that of the tool."),
    )
    guardrails = models.CharField(  # noqa: DJ001 - as above
        _("guardrails"),
        max_length=4000,
        null=True,
        blank=True,
        help_text=_("Guardrails that found something or failed, and their actions."),
    )
    client_name = models.CharField(_("client"), max_length=200, blank=True)
    client_version = models.CharField(_("client version"), max_length=100, blank=True)
    client_address = models.CharField(_("address"), max_length=64, blank=True)
    trace_id = models.CharField(_("trace"), max_length=64, blank=True)
    span_id = models.CharField(_("span"), max_length=16, null=True, blank=True)  # noqa: DJ001 - as `continues`
    continues = models.CharField(  # noqa: DJ001 - null is outside the index, and outside the hash of older rows
        _("continues"),
        max_length=36,
        null=True,
        blank=True,
        help_text=_("The first attempt of a call that asked its client and returned with the answers."),
    )

    # Null is outside the index, and outside the hash of older rows, as above.
    turn_id = models.CharField(  # noqa: DJ001
        _("turn"), max_length=36, null=True, blank=True, help_text=_("The chat turn in which a model made the call.")
    )
    tool_call_id = models.CharField(  # noqa: DJ001
        _("tool call"), max_length=100, null=True, blank=True, help_text=_("The model's own ID of the call.")
    )
    turn_round = models.PositiveSmallIntegerField(
        _("round"),
        null=True,
        blank=True,
        help_text=_("Number of the model's answer in that turn that requested the call, from 1."),
    )
    replay_of = models.CharField(  # noqa: DJ001 - as continues
        _("replay of"), max_length=36, null=True, blank=True, help_text=_("The recorded call that this one replays.")
    )
    called_by = models.CharField(  # noqa: DJ001 - as continues
        _("called by"), max_length=36, null=True, blank=True, help_text=_("The call that made this one, by its tool.")
    )
    left_out = JSONText(
        _("omitted"),
        null=True,
        blank=True,
        help_text=_("Parts of arguments, result and error that are not stored: redacted values, truncated bodies."),
    )
    connection = models.CharField(  # noqa: DJ001 - as continues
        _("connection"), max_length=64, null=True, blank=True, help_text=_("The upstream that received the call.")
    )

    objects: ClassVar[Any] = CallQuerySet.as_manager()

    class Meta:
        verbose_name = _("invocation")
        verbose_name_plural = _("invocations")
        ordering = ["-id"]
        permissions = [
            ("read_bodies", _("Can read arguments, results and errors of calls")),
            ("replay_call", _("Can replay recorded calls, including those that change something")),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(status__in=["ok", "error"]), name="invocation_status_known"),
            models.CheckConstraint(
                condition=Q(status="ok", result__isnull=False, error__isnull=True)
                | Q(status="error", error__isnull=False),
                name="invocation_outcome_matches_status",
            ),
            models.CheckConstraint(condition=Q(duration_ms__gte=0), name="invocation_duration_not_negative"),
            models.CheckConstraint(condition=Q(occurrences__gte=1), name="invocation_occurs"),
            models.CheckConstraint(
                condition=Q(status="ok", error_code="") | (Q(status="error") & ~Q(error_code="")),
                name="invocation_error_has_code",
            ),
            models.CheckConstraint(condition=~Q(transport=""), name="invocation_transport_present"),
        ]
        # Each for a filter of the admin list and of GET /api/invocations/, newest first. The key ascends, so that a row
        # is added at the end of its group; successes are most rows and stand in no index of their own.
        indexes = [
            models.Index(fields=["tool_name", "id"], name="invocation_by_tool"),
            models.Index(fields=["session", "id"], name="invocation_by_session"),
            models.Index(fields=["principal", "id"], name="invocation_by_principal"),
            models.Index(fields=["id"], condition=Q(status="error"), name="invocation_errors"),
            models.Index(fields=["error_code", "id"], condition=Q(status="error"), name="invocation_by_code"),
            models.Index(fields=["started_at", "id"], name="invocation_by_time"),
            # Of few rows; a comparison implies its condition, so SQLite uses it too.
            models.Index(fields=["continues", "id"], condition=Q(continues__isnull=False), name="invocation_rounds"),
            # Calls that are neither traced nor repeated pay nothing.
            models.Index(fields=["trace_id", "id"], condition=~Q(trace_id=""), name="invocation_by_trace"),
            models.Index(fields=["duplicate_of", "id"], condition=~Q(duplicate_of=""), name="invocation_repeats"),
            models.Index(fields=["turn_id", "id"], condition=Q(turn_id__isnull=False), name="invocation_by_turn"),
            models.Index(fields=["replay_of", "id"], condition=Q(replay_of__isnull=False), name="invocation_replays"),
            models.Index(fields=["called_by", "id"], condition=Q(called_by__isnull=False), name="invocation_inner"),
            models.Index(
                fields=["connection", "id"], condition=Q(connection__isnull=False), name="invocation_upstream"
            ),
            models.Index(fields=["method", "id"], condition=Q(method__isnull=False), name="invocation_by_method"),
            models.Index(fields=["target", "id"], condition=Q(target__isnull=False), name="invocation_by_target"),
            models.Index(fields=["asked_by", "id"], condition=Q(asked_by__isnull=False), name="invocation_questions"),
            models.Index(
                fields=["policy_rule", "id"], condition=Q(policy_rule__isnull=False), name="invocation_by_rule"
            ),
            models.Index(fields=["id"], condition=Q(policy_watched__isnull=False), name="invocation_watched"),
            models.Index(fields=["id"], condition=Q(guardrails__isnull=False), name="invocation_guarded"),
            models.Index(fields=["workspace", "id"], condition=Q(workspace__isnull=False), name="invocation_workspace"),
        ]

    def __str__(self) -> str:
        return f"{clipped(self.what, 64)} {self.status} {self.invocation_id}"

    @property
    def what(self) -> str:
        """Return the name of the tool or of the read target."""
        return self.tool_name or self.target or ""

    @property
    def of_method(self) -> str:
        return self.method or self.Method.CALL.value


class McpIdempotencyKey(models.Model):
    """Identifies the first call under a key; a unique row decides between processes.

    `scope` is `session:<id>` for the JSON-RPC ids of a handshake session, and `caller:<principal>` for
    keys that clients choose.
    """

    scope = models.CharField(max_length=100)
    key = models.CharField(max_length=300)
    fingerprint = models.CharField(max_length=64, help_text=_("Digest of method and parameters."))
    invocation_id = models.CharField(max_length=36)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["scope", "key"], name="idempotency_key_first")]
        indexes = [models.Index(fields=["created_at"], name="idempotency_purge")]

    def __str__(self) -> str:
        return f"{self.scope} {self.key}"


class CallTally(models.Model):
    """Calls of a subject started in a minute, an hour or a day: the source of overviews (see `tallies`).

    Written by the sealing process with the block that holds the calls, so each is counted once; no evidence.
    """

    id = models.BigAutoField(primary_key=True)
    span = models.PositiveIntegerField(help_text=_("Seconds."))
    slot = models.DateTimeField(help_text=_("Start of the span."))
    subject = models.CharField(max_length=10)
    name = models.CharField(max_length=200, blank=True)
    calls = models.BigIntegerField()
    errors = models.BigIntegerField()
    durations = models.TextField(help_text=_("JSON: calls per duration bucket."))

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subject", "span", "slot", "name"], name="tally_once")]
        indexes = [models.Index(fields=["name", "subject", "span", "slot"], name="tally_by_name")]

    def __str__(self) -> str:
        return f"{self.subject} {self.name} {self.slot:%Y-%m-%d %H:%M} {self.calls}"


class McpErrorMapping(LoadableModel):
    """The wire form of an internal code. Edited by operators, effective within 250 ms."""

    RECORDED_AS = "error_mapping"

    internal_code = models.CharField(_("internal code"), max_length=40, unique=True)
    json_rpc_code = models.IntegerField(
        _("JSON-RPC code"),
        help_text=_("A standard code, one that MCP defines, or one of the hub's own range -31099 to -31000."),
    )
    message_template = models.CharField(
        _("message template"),
        max_length=500,
        help_text=_("Can use {message}, {tool}, {invocation_id} and the details of the error in braces."),
    )
    retryable = models.BooleanField(_("retryable"), default=False)
    data_schema = JSONText(
        _("data schema"),
        default=dict,
        blank=True,
        help_text=_("JSON Schema of the whole error.data. Details that don't match are left out."),
    )
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("error mapping")
        verbose_name_plural = _("error mappings")
        ordering = ["internal_code"]
        constraints = [
            models.CheckConstraint(
                condition=Q(json_rpc_code__in=sorted(errors.STANDARD_CODES | errors.PROTOCOL_CODES))
                | Q(json_rpc_code__gte=errors.OWN_CODES.start, json_rpc_code__lt=errors.OWN_CODES.stop),
                name="mapping_code_in_range",
                violation_error_message=_(
                    "Use -32700, -32600 to -32603, -32020 to -32022, -32042, or a code from -31099 to -31000."
                ),
            ),
            models.CheckConstraint(condition=~Q(message_template=""), name="mapping_template_present"),
            models.CheckConstraint(
                condition=Q(internal_code__in=sorted(errors.MAPPED_CODES)),
                name="mapping_code_known",
                violation_error_message=_("Unknown internal code."),
            ),
        ]

    def __str__(self) -> str:
        return self.internal_code

    def clean(self) -> None:
        problems = mapping.problems(self.internal_code, self.json_rpc_code, self.message_template, self.data_schema)
        if problems:
            raise ValidationError(problems)
