"""Rows of calls that wait for approval, and the approval policy of each tool."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from invocations.redaction import records
from sessions_app.history.guarding import GuardedModel
from sessions_app.kit.fields import JSONText
from sessions_app.protocol.json import Json
from sessions_app.workspaces.scope import OwnedQuerySet, RecordedInWorkspace


class McpApproval(RecordedInWorkspace):
    """A call that somebody must allow: these arguments, of the tool as it was asked for, by this caller, once."""

    class Status(models.TextChoices):
        PENDING = "pending", _("Waiting")
        APPROVED = "approved", _("Approved")
        DENIED = "denied", _("Denied")
        USED = "used", _("Called")
        EXPIRED = "expired", _("Expired")

    class Decider(models.TextChoices):
        CALLER = "caller", _("The caller")
        ANOTHER = "another", _("Another person")

    id = models.CharField(_("ID"), primary_key=True, max_length=40)
    principal = models.CharField(_("caller"), max_length=80, editable=False)
    credential = models.CharField(_("credential"), max_length=80, blank=True, editable=False)
    caller_label = models.CharField(_("key"), max_length=150, editable=False)
    session_id = models.CharField(_("session"), max_length=64, blank=True, editable=False)
    transport = models.CharField(_("transport"), max_length=40, default="chat", editable=False)
    client_name = models.CharField(_("client"), max_length=200, blank=True, editable=False)
    turn_id = models.CharField(_("turn"), max_length=36, blank=True, editable=False)
    call_id = models.CharField(_("call"), max_length=200, blank=True, editable=False)
    tool_name = models.CharField(_("tool"), max_length=256)
    tool_version = models.CharField(_("version"), max_length=100)
    tool_digest = models.CharField(_("digest"), max_length=80, blank=True, editable=False)
    """Of the tool with everything that decides what its call does and where: `Tool.effect`."""
    workspace = models.CharField(_("workspace"), max_length=32, null=True, editable=False)  # noqa: DJ001 - as of calls
    effects = models.CharField(_("effects"), max_length=200, blank=True)
    arguments = JSONText(_("arguments"))
    clear = models.TextField(null=True, blank=True, editable=False)  # noqa: DJ001 - null: the row shows all
    """The arguments as the caller sent them, encrypted, as long as the call may still be made."""
    edited = JSONText(_("edited arguments"), null=True, default=None)
    """The approver's version of the arguments; null: the original ones are used."""
    edited_clear = models.TextField(null=True, blank=True, editable=False)  # noqa: DJ001 - as `clear`
    binding = models.CharField(
        _("fingerprint"), max_length=64, help_text=_("Digest of the tool, its definition, the arguments and the rule.")
    )
    idempotency = models.CharField(max_length=64, blank=True, editable=False)
    """Digest of the caller's idempotency key."""
    is_task = models.BooleanField(default=False, editable=False)
    """It waits within a task, whose intent has the original arguments."""
    rule = models.CharField(
        _("rule"), max_length=100, blank=True, help_text=_("Leave blank: the tool's own setting decides.")
    )
    rule_version = models.PositiveIntegerField(_("rule version"), default=0)
    words = models.TextField(_("rule's message"), blank=True)
    decider = models.CharField(
        _("who decides"),
        max_length=10,
        choices=Decider,
        default=Decider.ANOTHER,
        help_text=_("Must be approved by someone other than the requester."),
    )
    group = models.CharField(_("approving group"), max_length=150, blank=True)
    needed = models.PositiveSmallIntegerField(_("approvals needed"), default=1)
    given = models.PositiveSmallIntegerField(_("approvals given"), default=0)
    approvers = JSONText(_("approved by"), default=list)
    """[principal, name] of each person who has approved the current arguments."""
    status = models.CharField(_("status"), max_length=10, choices=Status, default=Status.PENDING)
    reason = models.TextField(_("reason"), blank=True)
    decided_by = models.CharField(_("decided by"), max_length=150, blank=True)
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)
    granted_until = models.DateTimeField(
        _("granted until"),
        null=True,
        blank=True,
        help_text=_("Until then, the caller's calls of this tool need no approval."),
    )
    granted_session = models.CharField(_("granted for the session"), max_length=64, blank=True, editable=False)
    invocation_id = models.CharField(_("invocation"), max_length=64, blank=True, editable=False)
    created_at = models.DateTimeField(_("requested"))
    expires_at = models.DateTimeField(_("expires"))

    objects = OwnedQuerySet["McpApproval"].as_manager()

    class Meta:
        app_label = "invocations"
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
        ordering = ["-created_at"]
        permissions = [("decide_mcpapproval", _("Can approve or deny calls"))]
        indexes = [
            models.Index(fields=["principal", "binding", "status"], name="approval_of_call"),  # a call is made
            models.Index(fields=["principal", "tool_name", "granted_until"], name="approval_grant"),  # likewise
            models.Index(fields=["expires_at"], name="approval_expiry"),  # the sweep, the inbox
            models.Index(fields=["-created_at"], name="approval_recent"),  # the admin's list
            models.Index(fields=["status", "-created_at"], name="approval_by_status"),  # what waits
            models.Index(fields=["turn_id"], name="approval_by_turn"),  # transcripts
            models.Index(
                fields=["workspace", "-created_at"], condition=Q(workspace__isnull=False), name="approval_of_workspace"
            ),
            models.Index(fields=["tool_name", "-decided_at"], name="approval_by_tool"),  # the last approved call
            models.Index(
                fields=["expires_at"],
                condition=Q(clear__isnull=False) | Q(edited_clear__isnull=False),
                name="approval_with_clear_text",
            ),  # the sweep
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["pending", "approved", "denied", "used", "expired"]),
                name="approval_status_known",
            ),
            models.CheckConstraint(condition=Q(decider__in=["caller", "another"]), name="approval_decider_known"),
            models.CheckConstraint(condition=Q(needed__in=[1, 2]), name="approval_needs_one_or_two"),
            models.CheckConstraint(
                condition=Q(status="pending", decided_at=None) | (~Q(status="pending") & ~Q(decided_at=None)),
                name="approval_decided_once",
            ),
            # Of a turn of the chat each call waits for itself, as its conversation says.
            models.UniqueConstraint(
                fields=["principal", "binding"], condition=Q(status="pending", turn_id=""), name="approval_asked_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} ({self.id})"

    @property
    def needs_another(self) -> bool:
        return self.decider == self.Decider.ANOTHER

    def asked(self) -> Json:
        """Return the arguments as the caller sent them; once nobody can make the call, as they are recorded.

        For the caller, and for the call. Raises SecretError where the key is gone.
        """
        return self.arguments if self.clear is None else records.unseal(self.clear, of=self.of(self.pk))

    def approved_arguments(self) -> Json:
        """Return the arguments that the call is made with: edited, or as asked. Raises SecretError."""
        if self.edited is None:
            return self.asked()
        sealed = self.edited_clear
        return self.edited if sealed is None else records.unseal(sealed, of=f"{self.of(self.pk)} edited")

    @staticmethod
    def of(id_: str) -> str:
        return f"approval {id_}"


class McpToolApproval(GuardedModel):
    """The approval policy of a tool, for every endpoint. Clients and rules may demand more, never less."""

    GUARDED: ClassVar[dict[str, Any]] = {"policy": "always"}

    class Policy(models.TextChoices):
        NEVER = "never", _("Runs immediately")
        DESTRUCTIVE = "destructive", _("Waits if marked destructive")
        ALWAYS = "always", _("Waits for approval")

    tool = models.OneToOneField(
        "tools_catalog.McpToolDefinition", models.CASCADE, related_name="approval_policy", verbose_name=_("tool")
    )
    policy = models.CharField(_("calls"), max_length=12, choices=Policy, default=Policy.ALWAYS)

    class Meta:
        app_label = "invocations"
        verbose_name = _("approval policy")
        verbose_name_plural = _("approval policies")
        constraints = [
            models.CheckConstraint(
                condition=Q(policy__in=["never", "destructive", "always"]), name="tool_approval_policy_known"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool}: {self.get_policy_display()}"
