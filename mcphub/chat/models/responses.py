"""Tables of `/v1/responses`: what a conversation was at the end of each response, and the calls that wait for a yes."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from invocations.redaction import records
from sessions_app.history.guarding import GuardedModel
from sessions_app.kit.fields import JSONText
from sessions_app.protocol.json import Json


class ChatResponse(models.Model):
    """One response, kept so that the next one may go on from it. Never changed: two may go on from the same one."""

    id = models.CharField(_("id"), primary_key=True, max_length=40)
    principal = models.CharField(_("caller"), max_length=80, editable=False)
    model = models.CharField(_("model"), max_length=250)
    previous_id = models.CharField(_("goes on from"), max_length=40, blank=True)
    messages = JSONText(_("messages"), help_text=_("The whole conversation, without instructions."))
    """A text: encrypted, as `body` is, since nobody but the caller reads them. `seal` writes them."""
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

    def seal(self, messages: list[dict[str, Json]], body: dict[str, Json]) -> None:
        self.messages = records.seal(messages, of=f"response {self.id} messages")
        self.body = records.seal(body, of=f"response {self.id} body")

    def said(self) -> list[dict[str, Json]]:
        """Give the messages; raise SecretError where the key is gone."""
        sealed = isinstance(self.messages, str)
        return list(records.unseal(self.messages, of=f"response {self.id} messages") if sealed else self.messages)

    def told(self) -> dict[str, Json]:
        """Give the response as its client got it; raise SecretError where the key is gone."""
        return dict(
            records.unseal(self.body, of=f"response {self.id} body") if isinstance(self.body, str) else self.body
        )


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
    clear = models.TextField(null=True, blank=True, editable=False)  # noqa: DJ001 - null: the row shows all
    """The arguments as the model wrote them, encrypted, as long as the call may still be made."""
    binding = models.CharField(
        _("fingerprint"), max_length=64, help_text=_("Of the tool, its definition and the arguments.")
    )
    needs_another = models.BooleanField(
        _("another must approve"),
        default=True,
        help_text=_("The operator demands the approval, so who asked cannot give it."),
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

    def asked(self) -> Json:
        """Give the arguments as the model wrote them; once nobody can make the call, as they are recorded.

        For the caller whose call it is, and for the call. Raises SecretError where the key is gone.
        """
        return self.arguments if self.clear is None else records.unseal(self.clear, of=self.of(self.pk))

    @staticmethod
    def of(id_: str) -> str:
        return f"approval {id_}"


class ToolApproval(GuardedModel):
    """What an operator demands of a tool when a model calls it. Clients may demand more, never less."""

    GUARDED: ClassVar[dict[str, Any]] = {"policy": "always"}

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
