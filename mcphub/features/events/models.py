"""The log of events for clients, in the order of commits."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import ClassVar

from django.db import models
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcphub.features.events import arguments
from sessions_app.kit.fields import JSONText
from tools_catalog import secrets
from tools_catalog.models import McpConnection


class EventLog(models.Model):
    """The end and the beginning of the log: one row, whose lock makes positions grow in the order of commits."""

    key = models.CharField(max_length=10, primary_key=True, default="events")
    newest = models.BigIntegerField(default=0)
    removed_upto = models.BigIntegerField(default=0)
    """The highest position that was deleted."""

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.removed_upto} to {self.newest}"

    @classmethod
    def now(cls) -> EventLog:
        """Return the row as it is committed: every event up to `newest` is, too."""
        return cls.objects.filter(key="events").first() or cls()

    @classmethod
    def next_position(cls, count: int = 1) -> int:
        """Take the next positions; return the first. Within a transaction, whose end lets the next event come."""
        cls.objects.get_or_create(key="events")
        cls.objects.filter(key="events").update(newest=F("newest") + count)
        return int(cls.objects.values_list("newest", flat=True).get(key="events")) - count + 1


class Occurrence(models.Model):
    """The beginning or end of a notice's state, a notice without an end, or an event of an upstream."""

    position = models.BigIntegerField(_("position"), primary_key=True)
    mark = models.UUIDField(_("event ID"), default=uuid.uuid4, unique=True)
    name = models.CharField(_("kind"), max_length=140)
    state = models.CharField(_("state"), max_length=8)
    subject = models.CharField(_("subject"), max_length=200, blank=True)
    facts = JSONText(_("facts"), default=dict)
    principal = models.CharField(_("caller"), max_length=80, blank=True)
    """The caller concerned, who needs no permission for it."""
    connection = models.CharField(_("connection"), max_length=100, blank=True)
    """The upstream concerned."""
    workspace = models.CharField(_("workspace"), max_length=32, blank=True)
    happened_at = models.DateTimeField(_("time"), default=timezone.now)
    id_there = models.CharField(max_length=200, blank=True)
    """Of an upstream's event: its ID there. The facts are its data."""
    dated_there = models.DateTimeField(null=True)
    """Of an upstream's event: its time, as stated there."""

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        default_permissions = ("view",)
        ordering = ["-position"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=["began", "ended", "happened"]), name="occurrence_state_known"
            ),
            models.UniqueConstraint(
                fields=["name", "id_there"], condition=~models.Q(id_there=""), name="occurrence_once_there"
            ),
        ]
        indexes = [
            models.Index(fields=["name", "position"], name="occurrence_by_name"),  # each poll
            models.Index(fields=["happened_at"], name="occurrence_by_time"),  # removal
        ]

    def __str__(self) -> str:
        return self.event_id

    @property
    def event_id(self) -> str:
        return f"evt_{self.mark.hex}"


class EventSubscription(models.Model):
    """A callback of a client that receives the events of one name, until it expires."""

    SECRETS: ClassVar[tuple[str, ...]] = ("url", "secret", "previous")

    mark = models.CharField(_("ID"), max_length=40, unique=True, editable=False)
    """Derived from caller, address, callback, name and arguments: an equal request finds the same row."""
    name = models.CharField(_("event"), max_length=140, editable=False)
    arguments = JSONText(_("arguments"), default=dict, editable=False)
    principal = models.CharField(_("caller"), max_length=80, editable=False)
    caller_label = models.CharField(_("key"), max_length=200, editable=False)
    subscriber = JSONText(default=dict, editable=False)
    """The credential and the address, as `EventSubscriber.stored` returns them."""
    url_ciphertext = models.TextField(editable=False)
    url_print = models.CharField(max_length=80, editable=False)
    """Equal for equal callbacks."""
    shown_url = models.CharField(_("callback"), max_length=300, editable=False)
    """The host alone: paths and queries of callbacks are often their password."""
    secret_ciphertext = models.TextField(editable=False)
    previous_ciphertext = models.TextField(editable=False, blank=True)
    previous_until = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), editable=False)
    read_upto = models.BigIntegerField(editable=False)
    """Events up to this position have their deliveries."""
    has_gap = models.BooleanField(default=False, editable=False)
    """Events were skipped, and the callback was not notified of that yet."""
    is_ending = models.BooleanField(default=False, editable=False)
    """An operator ended it; the callback gets the end, and the row goes."""
    sent = models.PositiveBigIntegerField(_("events sent"), default=0, editable=False)
    abandoned = models.PositiveBigIntegerField(_("events abandoned"), default=0, editable=False)
    last_sent_at = models.DateTimeField(_("last sent"), null=True, editable=False)
    last_error = models.CharField(_("last error"), max_length=20, blank=True, editable=False)
    failing_since = models.DateTimeField(_("failing since"), null=True, editable=False)
    turned_at = models.DateTimeField(default=timezone.now, editable=False)
    leased_by = models.CharField(max_length=64, blank=True, editable=False)
    leased_until = models.DateTimeField(null=True, editable=False)
    """The worker that sends; after this moment another may."""

    class Meta:
        verbose_name = _("event subscription")
        verbose_name_plural = _("event subscriptions")
        default_permissions = ("view", "delete")
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["principal", "url_print"], name="event_sub_of_caller"),  # bounds, verified callbacks
            models.Index(fields=["name", "read_upto"], name="event_sub_unread"),  # the sender
            models.Index(fields=["expires_at"], name="event_sub_expiry"),  # removal
        ]

    def __str__(self) -> str:
        return f"{self.name} → {self.shown_url}"

    def seal(self, field: str, plain: str) -> None:
        """Encrypt one of `SECRETS` under this row's mark; call save() afterwards."""
        setattr(self, f"{field}_ciphertext", secrets.encrypt(plain, aad=self._binding(field)) if plain else "")

    def unseal(self, field: str) -> str:
        """Return one of `SECRETS`. Raises SecretError."""
        token = getattr(self, f"{field}_ciphertext")
        return secrets.decrypt(token, aad=self._binding(field)) if token else ""

    def keys(self, now: datetime) -> tuple[str, ...]:
        """Return the secrets that sign now: the current one, and for a while the one before it."""
        is_kept = self.previous_until is not None and self.previous_until > now
        return (self.unseal("secret"), *([self.unseal("previous")] if is_kept else []))

    def encrypt_anew(self) -> list[str]:
        changed = []
        for field in self.SECRETS:
            token = getattr(self, f"{field}_ciphertext")
            if token and not secrets.is_current(token):
                self.seal(field, self.unseal(field))
                changed.append(f"{field}_ciphertext")
        return changed

    def _binding(self, field: str) -> str:
        return f"events.EventSubscription:{self.mark}:{field}"


class EventDelivery(models.Model):
    """An event on its way to a callback. The row goes when the event arrived or is abandoned."""

    subscription = models.ForeignKey(EventSubscription, models.CASCADE, related_name="deliveries")
    occurrence = models.ForeignKey(Occurrence, models.CASCADE, related_name="+")
    tries = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["subscription", "occurrence"], name="event_delivery_once")]
        indexes = [models.Index(fields=["due_at"], name="event_delivery_due")]  # the sender

    def __str__(self) -> str:
        return f"{self.subscription_id} {self.occurrence_id}"


class EventChallenge(models.Model):
    """One verification of a callback: counted, so that nobody has the hub flood a host with them."""

    principal = models.CharField(max_length=80)
    host = models.CharField(max_length=260)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["at"], name="event_challenge_by_time")]

    def __str__(self) -> str:
        return f"{self.principal} {self.host}"


class EventSource(models.Model):
    """An upstream that declares events. The worker with the lease alone lists and receives them."""

    connection = models.OneToOneField(McpConnection, models.CASCADE, primary_key=True, related_name="event_source")
    listed_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, blank=True)
    """Why its list cannot be read, or is not read to its end."""
    hour_began_at = models.DateTimeField(default=timezone.now)
    hour_count = models.PositiveIntegerField(default=0)
    """Events that were stored since."""
    paused_until = models.DateTimeField(null=True)
    """As many as an hour may have are stored; nothing is read before that."""
    leased_by = models.CharField(max_length=64, blank=True)
    leased_until = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.connection_id)


class UpstreamEventQuerySet(models.QuerySet["UpstreamEvent"]):
    def served(self) -> UpstreamEventQuerySet:
        """Return those that clients may subscribe."""
        return self.filter(connection__enabled=True).exclude(approved={})


class UpstreamEvent(models.Model):
    """A type of events that an upstream offers. Approved, it is received once for all subscribers."""

    connection = models.ForeignKey(
        McpConnection, models.CASCADE, related_name="+", verbose_name=_("connection"), editable=False
    )
    name_there = models.CharField(_("name there"), max_length=100, editable=False)
    name = models.CharField(_("event"), max_length=140, unique=True, editable=False)
    """`connection/name there`: the hub's own names have no slash."""
    offered = JSONText(_("definition"), default=dict, editable=False)
    """As the upstream listed it last; empty: it lists it no more."""
    approved = JSONText(_("approved definition"), default=dict, editable=False)
    """Served, and held against the events that come. Empty: not approved."""
    arguments = JSONText(_("arguments"), default=dict, editable=False)
    """Sent with each request for it, as they were given at the approval."""
    cursor = models.TextField(blank=True, editable=False)
    """Where to go on there, as JSON; empty: from now on."""
    due_at = models.DateTimeField(default=timezone.now, editable=False)
    """Nothing is asked for before that."""
    received = models.PositiveBigIntegerField(_("received"), default=0, editable=False)
    repeated = models.PositiveBigIntegerField(_("repeated"), default=0, editable=False)
    refused = models.PositiveBigIntegerField(_("refused"), default=0, editable=False)
    gaps = models.PositiveBigIntegerField(_("gaps"), default=0, editable=False)
    """How often the upstream stated that it skipped events, or sent more than is taken."""
    last_refusal = models.CharField(_("last refusal"), max_length=300, blank=True, editable=False)
    last_received_at = models.DateTimeField(_("last received"), null=True, editable=False)
    problem = models.CharField(_("problem"), max_length=300, blank=True, editable=False)
    """Why it is not received now."""
    failures = models.PositiveIntegerField(default=0, editable=False)
    removed_upto = models.BigIntegerField(default=0, editable=False)
    """The highest position of its events that was deleted to bound their number."""

    objects = UpstreamEventQuerySet.as_manager()

    class Meta:
        verbose_name = _("upstream event")
        verbose_name_plural = _("upstream events")
        default_permissions = ("view",)
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["connection", "name_there"], name="upstream_event_once")]

    def __str__(self) -> str:
        return self.name

    STATES: ClassVar[tuple[str, ...]] = ("waits", "on", "changed", "failing", "gone")

    @property
    def state(self) -> str:
        """One of `STATES`. Of a changed one the approved definition stays in force; one that is gone is not offered."""
        if not self.approved:
            return "waits"
        if not self.offered:
            return "gone"
        if self.problem and not self.misfit:
            return "failing"
        return "changed" if self.approved != self.offered else "on"

    @property
    def misfit(self) -> str:
        """The reason for which the type, as it is listed now, cannot be received with the arguments of its approval."""
        if not self.approved or not self.offered or self.approved == self.offered:
            return ""
        return arguments.problem(self.offered, self.arguments)

    @property
    def trouble(self) -> str:
        """The reason for which the type is not received now; empty where it is."""
        return self.misfit or self.problem


class UpstreamCallback(models.Model):
    """The hub's own subscription to a type that its upstream sends by webhook alone."""

    event = models.OneToOneField(UpstreamEvent, models.CASCADE, primary_key=True, related_name="callback")
    url = models.CharField(max_length=500)
    """The address that the upstream was given."""
    arguments = JSONText(default=dict)
    """Those that it was subscribed with: an upstream finds a subscription by them, too."""
    secret_ciphertext = models.TextField()
    control_ids = JSONText(default=list)
    """The `webhook-id` of the newest messages that were no events: each counts once."""

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.event_id)

    def seal(self, secret: str) -> None:
        """Encrypt the secret that the upstream signs with; call save() afterwards."""
        self.secret_ciphertext = secrets.encrypt(secret, aad=self._binding)

    def secret(self) -> str:
        """Return the secret that the upstream signs with. Raises SecretError."""
        return secrets.decrypt(self.secret_ciphertext, aad=self._binding)

    def encrypt_anew(self) -> list[str]:
        if secrets.is_current(self.secret_ciphertext):
            return []
        self.seal(self.secret())
        return ["secret_ciphertext"]

    @property
    def _binding(self) -> str:
        return f"events.UpstreamCallback:{self.event_id}:secret"
