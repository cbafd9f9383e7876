"""Tables of questions and answers: sessions, queries, responses and messages.

They are no part of the audit, and may be removed. The calls of a turn's tools stay in the audit, as invocations with
the query's ID as `turn_id`.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from invocations.redaction import records
from mcphub.features.chat import messages as chat_messages
from sessions_app.kit.fields import JSONText
from sessions_app.protocol.json import Json
from tools_catalog.secrets import SecretError

if TYPE_CHECKING:
    from datetime import datetime

logger = logging.getLogger(__name__)

MOST_MESSAGES = 100


class ChatSession(models.Model):
    """A conversation whose history the hub keeps. Belongs to one caller; ends by idleness, age, or its caller."""

    id = models.UUIDField(_("session"), primary_key=True, default=uuid.uuid4, editable=False)
    principal = models.CharField(_("principal"), max_length=64)
    caller_label = models.CharField(_("caller"), max_length=150, blank=True)
    provider_preference = models.CharField(_("preferred provider"), max_length=250, blank=True)
    max_messages = models.PositiveSmallIntegerField(_("maximum messages sent"), default=20)
    context = JSONText(_("context"), default=dict, blank=True)
    clear = models.TextField(null=True, blank=True, editable=False)  # noqa: DJ001 - null: nothing is hidden
    """The hidden parts of the conversation, encrypted, until it ends; see `kept`."""
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    updated_at = models.DateTimeField(_("last activity"), default=timezone.now)
    expires_at = models.DateTimeField(_("expires"))
    ends_at = models.DateTimeField(_("expires at the latest"))
    closed_at = models.DateTimeField(_("closed"), null=True, blank=True)
    turn_id = models.UUIDField(_("turn under way"), null=True, blank=True)
    turn_process_id = models.CharField(_("process"), max_length=32, blank=True)

    class Meta:
        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        ordering = ["-created_at"]
        permissions = [("read_conversations", _("Can read the messages of conversations"))]
        constraints = [
            models.CheckConstraint(
                condition=Q(max_messages__gte=1, max_messages__lte=MOST_MESSAGES), name="chat_session_max_messages"
            ),
            models.CheckConstraint(condition=Q(updated_at__gte=F("created_at")), name="chat_session_activity"),
            models.CheckConstraint(condition=Q(expires_at__lte=F("ends_at")), name="chat_session_expires_by_its_end"),
            models.CheckConstraint(
                condition=Q(turn_id=None, turn_process_id="") | (Q(turn_id__isnull=False) & ~Q(turn_process_id="")),
                name="chat_session_turn_has_process",
            ),
        ]
        indexes = [
            models.Index(fields=["-created_at"], name="chat_session_recent"),  # the admin's list
            models.Index(fields=["principal", "expires_at"], name="chat_session_by_caller"),  # the bound of live ones
            models.Index(fields=["ends_at"], name="chat_session_purge"),
            models.Index(  # the sweep of clear texts
                fields=["expires_at"], condition=Q(clear__isnull=False), name="chat_session_clear"
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    def is_live(self, now: datetime) -> bool:
        return self.closed_at is None and self.expires_at > now

    @property
    def owner(self) -> str:
        """The owner that the clear texts of the session and its messages are bound to."""
        return f"conversation {self.pk}"

    def given_context(self) -> dict[str, Json]:
        """Return the context as the client gave it, for the model and its caller; as recorded where the key is gone."""
        return dict(self.kept().get("context") or self.context)

    def kept(self) -> dict[str, Json]:
        """Return the hidden parts: `context`, if the row shows it redacted, and `hidden`, the values themselves."""
        return dict(_clear(self.clear, {}, self.owner))

    def keep(self, **more: Json) -> None:
        """Keep additional hidden parts. The row is not saved."""
        self.clear = records.seal({**self.kept(), **more}, of=self.owner)


class Query(models.Model):
    """One caller's question: one turn of a conversation, in a session or without one."""

    class State(models.TextChoices):
        RUNNING = "running", _("Running")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")
        INTERRUPTED = "interrupted", _("Interrupted")

    class EntryPoint(models.TextChoices):
        COMPLETIONS = "completions", "/v1/chat/completions"
        RESPONSES = "responses", "/v1/responses"
        QUERY = "query", "/api/query"
        PYTHON = "python", _("Python")
        COMMAND = "command", "mcphub chat"

    id = models.UUIDField(_("query"), primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(
        ChatSession, models.CASCADE, null=True, blank=True, related_name="queries", verbose_name=_("conversation")
    )
    content = models.TextField(_("question"))
    provider = models.CharField(_("requested model"), max_length=250, blank=True)
    timestamp = models.DateTimeField(_("time"), default=timezone.now)
    metadata = JSONText(_("metadata"), default=dict, blank=True)
    principal = models.CharField(_("principal"), max_length=64)
    caller_label = models.CharField(_("caller"), max_length=150, blank=True)
    entry_point = models.CharField(_("entry point"), max_length=12, choices=EntryPoint)
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.RUNNING)
    error_code = models.CharField(_("error code"), max_length=40, blank=True)
    process_id = models.CharField(_("process"), max_length=32)

    class Meta:
        verbose_name = _("question")
        verbose_name_plural = _("questions")
        ordering = ["-timestamp"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["running", "done", "failed", "cancelled", "interrupted"]),
                name="chat_query_state_known",
            ),
            models.CheckConstraint(
                condition=~Q(error_code="") | Q(state__in=["running", "done"]), name="chat_query_failure_has_code"
            ),
        ]
        indexes = [
            models.Index(fields=["-timestamp"], name="chat_query_recent"),  # the admin's list, the purge
            models.Index(fields=["principal", "-timestamp"], name="chat_query_by_principal"),  # usage
            models.Index(fields=["process_id"], condition=Q(state="running"), name="chat_query_running"),
        ]

    def __str__(self) -> str:
        return str(self.id)


class AIResponse(models.Model):
    """The answer to a query. Tokens are null if the provider did not report them."""

    id = models.UUIDField(_("response"), primary_key=True, default=uuid.uuid4, editable=False)
    query = models.OneToOneField(Query, models.CASCADE, related_name="response", verbose_name=_("query"))
    content = models.TextField(_("answer"), blank=True)
    provider_used = models.CharField(_("provider"), max_length=40)
    model = models.CharField(_("model"), max_length=200)
    prompt_tokens = models.PositiveBigIntegerField(_("input tokens"), null=True, blank=True)
    completion_tokens = models.PositiveBigIntegerField(_("output tokens"), null=True, blank=True)
    finish_reason = models.CharField(_("finish reason"), max_length=20, blank=True)
    stop_reason = models.CharField(_("ended by the hub"), max_length=40, blank=True)
    rounds = JSONText(_("rounds"), default=list, blank=True)
    timestamp = models.DateTimeField(_("time"), default=timezone.now)
    duration_ms = models.PositiveIntegerField(_("duration, ms"))

    class Meta:
        verbose_name = _("response")
        verbose_name_plural = _("responses")
        ordering = ["-timestamp"]
        constraints = [
            models.CheckConstraint(condition=~Q(provider_used=""), name="chat_response_has_provider"),
            models.CheckConstraint(
                condition=Q(prompt_tokens=None, completion_tokens=None)
                | Q(prompt_tokens__isnull=False, completion_tokens__isnull=False),
                name="chat_response_usage_whole",
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def usage(self) -> dict[str, int] | None:
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


class ChatMessage(models.Model):
    """One message of a turn, in OpenAI's shape, in the order of `id`."""

    class LeftOut(models.TextChoices):
        LIMIT = "limit", _("Over the limit")
        FAILED = "failed", _("Turn failed")

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(
        ChatSession, models.CASCADE, null=True, blank=True, related_name="messages", verbose_name=_("conversation")
    )
    query = models.ForeignKey(Query, models.CASCADE, related_name="messages", verbose_name=_("query"))
    role = models.CharField(_("role"), max_length=10)
    content = JSONText(_("content"), null=True, blank=True)
    tool_calls = JSONText(_("tool calls"), null=True, blank=True)
    clear = models.TextField(null=True, blank=True, editable=False)  # noqa: DJ001 - null: the row shows all
    """Content, tool calls and vendor members, encrypted, as long as the model may read them again."""
    tool_call_id = models.CharField(_("call"), max_length=250, blank=True)
    client_calls = JSONText(_("client-side calls"), default=list, blank=True)
    name = models.CharField(_("name"), max_length=100, blank=True)
    error_code = models.CharField(
        _("error code"), max_length=40, blank=True, help_text=_("Why the call behind this result failed.")
    )
    is_synthetic = models.BooleanField(
        _("placeholder"),
        default=False,
        help_text=_("Stands for a result that never arrived, because each call needs one."),
    )
    left_out = models.CharField(
        _("omitted"), max_length=8, blank=True, choices=LeftOut, help_text=_("No longer sent to the model.")
    )
    created_at = models.DateTimeField(_("time"), default=timezone.now)

    class Meta:
        default_permissions = ()
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        ordering = ["id"]
        indexes = [models.Index(fields=["session"], condition=Q(clear__isnull=False), name="chat_message_clear")]
        constraints = [
            models.CheckConstraint(condition=Q(role__in=sorted(chat_messages.ROLES)), name="chat_message_role_known"),
            models.CheckConstraint(
                condition=Q(role="tool") ^ Q(tool_call_id=""), name="chat_message_result_names_call"
            ),
            models.CheckConstraint(
                condition=Q(tool_calls=None) | Q(role="assistant"), name="chat_message_calls_by_assistant"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.id}"

    def said(self) -> tuple[Json, Json]:
        """Return the original content and tool calls, for the model and the caller; the recorded ones if no session
        continues with them or the key is gone.
        """
        content, calls, *_ = self._clear()
        return content, calls

    def _clear(self) -> Json:
        return _clear(self.clear, [self.content, self.tool_calls], f"conversation {self.session_id}")

    def wire(self) -> dict[str, Json]:
        """Return the message for providers, with its own provider's members."""
        content, calls, *vendor = self._clear()
        message: dict[str, Json] = {"role": self.role, "content": content}
        if vendor:
            message[chat_messages.VENDOR] = vendor[0]
        if calls:
            message["tool_calls"] = calls
        if self.role == "tool":
            message["tool_call_id"] = self.tool_call_id
        if self.name:
            message["name"] = self.name
        return message

    def kept(self) -> chat_messages.StoredMessage:
        return chat_messages.StoredMessage(self.wire(), frozenset(self.client_calls))


def _clear(token: str | None, shown: Json, of: str) -> Json:
    if token is None:
        return shown
    try:
        return records.unseal(token, of=of)
    except SecretError as error:
        logger.warning("The clear text of %s cannot be read, so what is recorded stands for it: %s", of, error)
        return shown
