"""Tables of `/v1/responses`: what a conversation was at the end of each response, and the calls that wait for a yes."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from sessions_app.fields import JSONText


class ChatResponse(models.Model):
    """One response, kept so that the next one may go on from it. Never changed: two may go on from the same one."""

    id = models.CharField(_("id"), primary_key=True, max_length=40)
    principal = models.CharField(_("caller"), max_length=80, editable=False)
    model = models.CharField(_("model"), max_length=250)
    previous_id = models.CharField(_("goes on from"), max_length=40, blank=True)
    messages = JSONText(_("messages"), help_text=_("The whole conversation, without instructions."))
    labels = JSONText(_("servers listed"), default=list)
    body = JSONText(_("response"))
    created_at = models.DateTimeField(_("created"))
    expires_at = models.DateTimeField(_("kept until"))

    class Meta:
        verbose_name = _("response")
        verbose_name_plural = _("responses")
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["expires_at"], name="chat_response_expiry")]  # the sweep

    def __str__(self) -> str:
        return self.id


class ChatApproval(models.Model):
    """A call that a model wants to make and somebody must allow: these arguments, of this version of the tool."""

    class Status(models.TextChoices):
        PENDING = "pending", _("Waits")
        APPROVED = "approved", _("Approved")
        DENIED = "denied", _("Denied")
        USED = "used", _("Called")

    id = models.CharField(_("id"), primary_key=True, max_length=40)
    principal = models.CharField(_("caller"), max_length=80, editable=False)
    caller_label = models.CharField(_("key"), max_length=150, editable=False)
    turn_id = models.CharField(_("turn"), max_length=36, editable=False)
    call_id = models.CharField(_("call"), max_length=200, editable=False)
    tool_name = models.CharField(_("tool"), max_length=256)
    tool_version = models.CharField(_("version"), max_length=100)
    arguments = JSONText(_("arguments"))
    binding = models.CharField(
        _("fingerprint"), max_length=64, help_text=_("Of the tool, its definition and the arguments.")
    )
    status = models.CharField(_("status"), max_length=10, choices=Status, default=Status.PENDING)
    reason = models.TextField(_("reason"), blank=True)
    decided_by = models.CharField(_("decided by"), max_length=150, blank=True)
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)
    created_at = models.DateTimeField(_("asked"))
    expires_at = models.DateTimeField(_("expires"))

    class Meta:
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
        ordering = ["-created_at"]
        permissions = [("decide_chatapproval", _("Can approve or deny calls of models"))]
        indexes = [
            models.Index(fields=["principal", "binding", "status"], name="chat_approval_grant"),  # a call is made
            models.Index(fields=["expires_at"], name="chat_approval_expiry"),  # the sweep, the inbox
            models.Index(fields=["-created_at"], name="chat_approval_recent"),  # the admin's list
            models.Index(fields=["status", "-created_at"], name="chat_approval_by_status"),  # what waits
            models.Index(fields=["turn_id"], name="chat_approval_by_turn"),  # transcripts
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["pending", "approved", "denied", "used"]), name="chat_approval_status_known"
            ),
            models.CheckConstraint(
                condition=Q(status="pending", decided_at=None) | (~Q(status="pending") & ~Q(decided_at=None)),
                name="chat_approval_decided_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} ({self.id})"


class ToolApproval(models.Model):
    """What an operator demands of a tool when a model calls it. Clients may demand more, never less."""

    class Policy(models.TextChoices):
        NEVER = "never", _("Runs at once")
        DESTRUCTIVE = "destructive", _("Waits if it is marked destructive")
        ALWAYS = "always", _("Waits for an approval")

    tool = models.OneToOneField(
        "tools_catalog.McpToolDefinition", models.CASCADE, related_name="chat_approval", verbose_name=_("tool")
    )
    policy = models.CharField(_("calls by models"), max_length=12, choices=Policy, default=Policy.ALWAYS)

    class Meta:
        verbose_name = _("approval policy")
        verbose_name_plural = _("approval policies")
        constraints = [
            models.CheckConstraint(
                condition=Q(policy__in=["never", "destructive", "always"]), name="chat_tool_approval_policy_known"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool}: {self.get_policy_display()}"
