"""Sessions, rate buckets, and the change bus's table."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import AnonymousUser, User
from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app import bus, transports
from sessions_app.history import events
from sessions_app.kit import tracing
from sessions_app.kit.fields import JSONText
from sessions_app.kit.shown import clipped
from sessions_app.protocol.lifecycle import TERMINAL, SessionEvent, SessionState, advance

_NAMED = 100
"""Sessions that one event names; of more it gives the number."""


class McpSessionQuerySet(models.QuerySet["McpSession"]):
    def live(self) -> McpSessionQuerySet:
        return self.exclude(state__in=[state.value for state in TERMINAL])

    def end(self, event: SessionEvent, reason: str) -> int:
        """End the live sessions of the selection and notify every process; return the number."""
        ended = []
        with transaction.atomic():
            for row in self.live().select_for_update():
                row.state = advance(SessionState(row.state), event).value
                row.ended_at = timezone.now()
                row.end_reason = reason[:100]
                row.save(update_fields=["state", "ended_at", "end_reason"])
                ResourceSubscription.objects.filter(session=row).delete()
                bus.publish(bus.SESSION_ENDED, row.session_id)
                ended.append(row.session_id)
                _tell_duration(row)
            if ended:
                StreamEvent.objects.filter(session_id__in=ended).delete()
        return len(ended)

    def close(self, reason: str, *, by: User | AnonymousUser | None = None) -> int:
        """End the live sessions of the selection, on record; give the count. `by` is a person or a key."""
        with transaction.atomic():
            named = list(self.live().values_list("session_id", flat=True)[: _NAMED + 1])
            count = self.end(SessionEvent.CLOSE, reason)
            if count:
                events.record(
                    "session.ended",
                    actor=events.actor_of(by),
                    model=McpSession,
                    subject=named[0] if len(named) == 1 else "",
                    label=named[0] if len(named) == 1 else "",
                    after={"sessions": named[:_NAMED], "count": count},
                    reason=reason,
                )
        return count


def _tell_duration(row: McpSession) -> None:
    if not tracing.is_on() or row.ended_at is None:
        return
    is_pipe = row.transport == transports.STDIO.name
    labels = {**(tracing.TRANSPORT_PIPE if is_pipe else tracing.TRANSPORT_HTTP)}
    if row.protocol_version:
        labels["mcp.protocol.version"] = row.protocol_version
    tracing.session_ended("server", (row.ended_at - row.created_at).total_seconds(), labels)


class McpSession(models.Model):
    """A client's logical session. Stateless callers share an implicit one, never seen on the wire."""

    class State(models.TextChoices):
        CREATED = SessionState.CREATED.value, _("Created")
        INITIALIZED = SessionState.INITIALIZED.value, _("Initialized")
        CLOSED = SessionState.CLOSED.value, _("Closed")
        EXPIRED = SessionState.EXPIRED.value, _("Expired")

    session_id = models.CharField(_("session"), max_length=64, primary_key=True)
    transport = models.CharField(_("transport"), max_length=16, choices=transports.choices)
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.CREATED)
    protocol_version = models.CharField(_("protocol version"), max_length=10, blank=True)
    client_name = models.CharField(_("client"), max_length=200, blank=True)
    client_version = models.CharField(_("client version"), max_length=100, blank=True)
    client_capabilities = JSONText(_("client capabilities"), default=dict, blank=True)
    log_level = models.CharField(_("log level"), max_length=10, blank=True)
    principal = models.CharField(
        _("principal"), max_length=64, help_text=_("The only caller that can use the session.")
    )
    caller_label = models.CharField(_("caller"), max_length=150, blank=True)
    is_implicit = models.BooleanField(
        _("implicit"), default=False, help_text=_("Stands for a stateless caller and its client program.")
    )
    implicit_key = models.CharField(max_length=64, null=True, blank=True, editable=False)  # noqa: DJ001 - null is outside the unique index
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    initialized_at = models.DateTimeField(_("initialized"), null=True, blank=True)
    last_activity_at = models.DateTimeField(_("last activity"), default=timezone.now)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    end_reason = models.CharField(_("end reason"), max_length=100, blank=True)

    objects = McpSessionQuerySet.as_manager()

    class Meta:
        verbose_name = _("MCP session")
        verbose_name_plural = _("MCP sessions")
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in SessionState]), name="session_state_known"
            ),
            models.CheckConstraint(condition=~Q(transport=""), name="session_transport_present"),
            models.CheckConstraint(condition=~Q(session_id=""), name="session_id_present"),
            models.CheckConstraint(
                condition=Q(last_activity_at__gte=F("created_at")), name="session_activity_after_creation"
            ),
            models.CheckConstraint(
                condition=~Q(state="initialized") | Q(initialized_at__isnull=False),
                name="session_initialized_by_initialize",
            ),
            models.CheckConstraint(
                condition=Q(state__in=sorted(state.value for state in TERMINAL), ended_at__isnull=False)
                | Q(state__in=["created", "initialized"], ended_at__isnull=True),
                name="session_ended_when_terminal",
            ),
            models.UniqueConstraint(
                fields=["implicit_key"], condition=Q(state="created"), name="session_one_implicit_per_caller"
            ),
        ]
        indexes = [
            models.Index(fields=["state", "expires_at"], name="session_sweep"),  # the idle sweep
            models.Index(fields=["principal", "state"], name="session_by_caller"),  # bound of live sessions
            models.Index(fields=["-created_at"], name="session_recent"),  # admin and REST lists
            models.Index(fields=["state", "-created_at"], name="session_recent_by_state"),  # those lists, by state
        ]

    def __str__(self) -> str:
        return f"{clipped(self.client_name or self.caller_label or self.transport, 60)} {self.session_id[:12]}…"


class RemoteConnection(models.Model):
    """A stream of the remote profile and the one request that it may have under way.

    The state of a remote profile's connection for all processes: ClientSession and RequestState of the documents. The
    row lives as long as the stream; a request's params stand in its envelope, under the rules of the audit.
    """

    session = models.OneToOneField(McpSession, models.CASCADE, primary_key=True, related_name="remote_connection")
    process_id = models.CharField(max_length=32)  # that holds the stream; as long as it lives the place is taken
    seen_at = models.DateTimeField(default=timezone.now)  # when it last said that the stream is open
    request_id = models.CharField(max_length=300, blank=True)  # of the newest request, as JSON
    method = models.CharField(max_length=100, blank=True)
    received_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.CheckConstraint(
                condition=Q(request_id="", received_at=None, finished_at=None)
                | (~Q(request_id="") & Q(received_at__isnull=False)),
                name="remote_request_received",
            )
        ]

    def __str__(self) -> str:
        return self.session_id


class ResourceSubscription(models.Model):
    """A session follows changes of a resource. Ends with the session."""

    session = models.ForeignKey(McpSession, models.CASCADE, related_name="subscriptions")
    uri = models.CharField(max_length=2000)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "uri"], name="subscription_once")]
        indexes = [models.Index(fields=["uri"], name="subscription_by_resource")]  # a changed resource

    def __str__(self) -> str:
        return f"{self.session_id[:12]}… {self.uri}"


class StreamEvent(models.Model):
    """One event of a call's stream, kept for a client that comes back for it (MCP, Streamable HTTP, Resumability)."""

    session_id = models.CharField(max_length=64)
    stream = models.CharField(max_length=16)
    number = models.PositiveIntegerField()
    message = models.TextField(blank=True)
    is_last = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["session_id", "stream", "number"], name="stream_event_once")]
        indexes = [models.Index(fields=["created_at"], name="stream_event_purge")]

    def __str__(self) -> str:
        return f"{self.stream}.{self.number}"


class RateLimitBucket(models.Model):
    """A token bucket. Refilled and drawn from by one statement, so it holds across workers.

    Negative tokens are debt: the size of a caller's records is known afterwards.
    """

    client_id = models.CharField(_("client"), max_length=150, primary_key=True)
    tokens = models.FloatField(_("tokens"))
    capacity = models.PositiveIntegerField(_("capacity"), default=10)
    refill_per_second = models.FloatField(_("refill per second"))
    last_refill = models.DateTimeField(_("last refill"))
    request_count = models.PositiveBigIntegerField(_("requests"), default=0)
    last_request = models.DateTimeField(_("last request"), null=True, blank=True)

    class Meta:
        verbose_name = _("rate limit bucket")
        verbose_name_plural = _("rate limit buckets")
        ordering = ["client_id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(tokens__gte=-F("capacity")) & Q(tokens__lte=F("capacity")), name="bucket_tokens_or_debt"
            ),
            models.CheckConstraint(condition=Q(refill_per_second__gt=0), name="bucket_refills"),
        ]

    def __str__(self) -> str:
        return self.client_id

    def level(self, now: datetime) -> float:
        """Return the content of the bucket at a moment: the rest, and the refill since."""
        elapsed = max(0.0, (now - self.last_refill).total_seconds())
        return min(float(self.capacity), self.tokens + elapsed * self.refill_per_second)


class BusEvent(models.Model):
    """News between processes. Triggers write one whenever configuration changes, whatever changed it."""

    subject = models.CharField(max_length=40)
    payload = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now, db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["created_at"], name="bus_purge")]

    def __str__(self) -> str:
        return f"{self.id} {self.subject}"
