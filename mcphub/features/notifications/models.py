"""Notices, subscriptions to them, and deliveries."""

from __future__ import annotations

import base64
import binascii
import secrets as randomness
import uuid
from datetime import datetime, time, timedelta
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, validate_email
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcphub.features.notifications.catalogue import CHOSEN, KINDS, title_of, words_of
from mcphub.parts import NoticeKind
from sessions_app.history.recording import RecordedModel
from sessions_app.kit.fields import JSONText
from sessions_app.protocol.errors import EgressRefused
from tools_catalog import secrets
from tools_catalog.egress.rules import EgressPolicy

MOST_SUBSCRIPTIONS = 20
"""Of one person or group."""
MOST_ADDRESS_CHARACTERS = 2000


class Notice(models.Model):
    """A reported matter, one row for all processes; a prompt recurrence increments the same row."""

    kind = models.CharField(_("kind"), max_length=40)
    subject = models.CharField(_("subject"), max_length=200, blank=True)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("person")
    )
    """The person concerned, who may read it without another permission."""
    facts = JSONText(_("facts"), default=dict)
    is_current = models.BooleanField(default=True, editable=False)
    """The row that a repetition counts up."""
    count = models.PositiveIntegerField(_("times"), default=1)
    first_at = models.DateTimeField(_("first"), default=timezone.now)
    last_at = models.DateTimeField(_("last"), default=timezone.now)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        verbose_name = _("notification")
        verbose_name_plural = _("notifications")
        default_permissions = ("view",)
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["kind", "subject"], condition=Q(is_current=True), name="notice_one_current")
        ]
        indexes = [
            models.Index(fields=["kind", "first_at"], name="notice_by_kind"),  # the bound of an hour
            models.Index(fields=["last_at"], name="notice_by_time"),  # removal
            models.Index(fields=["ended_at", "kind"], name="notice_open"),  # what still holds
        ]

    def __str__(self) -> str:
        return f"{title_of(self.kind)} ({self.pk})"

    @property
    def described(self) -> NoticeKind | None:
        return KINDS.get(self.kind)

    @property
    def title(self) -> str:
        return title_of(self.kind)

    @property
    def words(self) -> str:
        return words_of(self.kind, self.facts)


class Subscription(RecordedModel):
    """A person, or all people of a group, want some kinds of notices at one place."""

    RECORDED_AS = "subscription"
    HIDDEN = ("address_ciphertext", "secret_ciphertext")
    UNRECORDED = ("leased_by", "leased_until", "last_error", "failing_since")

    class Way(models.TextChoices):
        CONSOLE = "console", _("Console")
        EMAIL = "email", _("E-mail")
        WEBHOOK = "webhook", _("Signed webhook")
        SLACK = "slack", _("Chat (Slack format)")
        TEAMS = "teams", _("Chat (Teams format)")

    mark = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    """The binding of its sealed secrets."""
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="notice_subscriptions",
        verbose_name=_("person"),
    )
    """None if it is a group's."""
    group = models.ForeignKey(
        Group,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("group"),
        help_text=_("Shared: members of the group manage it. It sends what the group's permissions allow."),
    )
    name = models.CharField(_("name"), max_length=60)
    way = models.CharField(_("channel"), max_length=10, choices=Way)
    address_ciphertext = models.TextField(editable=False, blank=True)
    shown_address = models.CharField(_("address"), max_length=300, editable=False, blank=True)
    """Paths and queries of webhooks are often their password, so that only the host is shown."""
    secret_ciphertext = models.TextField(editable=False, blank=True)
    kinds = JSONText(_("kinds"), default=list, blank=True)
    """Names of the catalogue; empty: all that the person may read."""
    quiet_from = models.TimeField(_("quiet from"), null=True, blank=True)
    quiet_to = models.TimeField(_("quiet to"), null=True, blank=True)
    zone = models.CharField(
        _("time zone"), max_length=64, default="UTC", help_text=_("For the quiet hours, such as Europe/Berlin.")
    )
    alarms_at_once = models.BooleanField(
        _("send alarms during quiet hours"),
        default=True,
        help_text=_("Alarms of the audit log, and of calls that can't be recorded."),
    )
    group_seconds = models.PositiveIntegerField(
        _("group within seconds"),
        default=30,
        validators=[MaxValueValidator(86_400)],
        help_text=_("Notifications within this time are sent as one e-mail or chat message."),
    )
    language = models.CharField(_("language"), max_length=8, choices=settings.LANGUAGES, default="en")
    enabled = models.BooleanField(_("enabled"), default=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    leased_by = models.CharField(max_length=64, blank=True, editable=False)
    leased_until = models.DateTimeField(null=True, blank=True, editable=False)
    """The worker that sends; after this moment another may."""
    last_error = models.CharField(_("last error"), max_length=500, blank=True, editable=False)
    failing_since = models.DateTimeField(_("failing since"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("subscription")
        verbose_name_plural = _("subscriptions")
        ordering = ["person", "name"]
        constraints = [
            models.UniqueConstraint(fields=["person", "name"], name="subscription_name_once"),
            models.UniqueConstraint(fields=["group", "name"], name="subscription_group_name_once"),
            models.CheckConstraint(
                condition=Q(person=None, group__isnull=False) | Q(person__isnull=False, group=None),
                name="subscription_one_owner",
            ),
            models.CheckConstraint(
                condition=Q(way__in=["console", "email", "webhook", "slack", "teams"]), name="subscription_way_known"
            ),
            models.CheckConstraint(
                condition=Q(quiet_from=None, quiet_to=None) | (~Q(quiet_from=None) & ~Q(quiet_to=None)),
                name="subscription_quiet_whole",
                violation_error_message=_("Enter both the start and the end of the quiet hours, or neither."),
            ),
            models.UniqueConstraint(
                fields=["person"],
                condition=Q(way="console"),
                name="subscription_one_console",
                violation_error_message=_("You already have a console subscription. Change that one."),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems: dict[str, Any] = {}
        if not isinstance(self.kinds, list) or not all(kind in CHOSEN for kind in self.kinds):
            problems["kinds"] = _("Choose from the list: %(kinds)s.") % {"kinds": ", ".join(CHOSEN)}
        if self.zone not in available_timezones():
            problems["zone"] = _("Unknown time zone. Enter one such as Europe/Berlin or UTC.")
        if (self.quiet_from is None) != (self.quiet_to is None):
            problems["quiet_to"] = _("Enter both the start and the end of the quiet hours, or neither.")
        if self.group_id is not None and self.way == self.Way.CONSOLE:
            problems["way"] = _("A group has no console of its own. Choose another channel.")
        of_owner = Q(group=self.group) if self.group_id is not None else Q(person=self.person)
        others = Subscription.objects.filter(of_owner).exclude(pk=self.pk)
        if others.filter(name=self.name).exists():
            problems["name"] = _("There is already a subscription with this name. Choose another.")
        elif others.count() >= MOST_SUBSCRIPTIONS:
            problems["name"] = _("A person or group has at most %(count)d subscriptions. Delete one first.") % {
                "count": MOST_SUBSCRIPTIONS
            }
        if problems:
            raise ValidationError(problems)

    @property
    def owner(self) -> str:
        """The person's name, or `group:NAME`."""
        return f"group:{self.group}" if self.group_id is not None else str(self.person)

    def set_address(self, address: str) -> None:
        """Encrypt the address under this row's mark; call save() afterwards. Raises ValidationError."""
        address = address.strip()
        check_address(self.way, address)
        self.address_ciphertext = secrets.encrypt(address, aad=self._binding("address")) if address else ""
        self.shown_address = shown_address(self.way, address)[:300]

    def set_secret(self, secret: str) -> None:
        """Encrypt the key that signs its webhooks (`whsec_…`); call save() afterwards."""
        signing_key(secret)
        self.secret_ciphertext = secrets.encrypt(secret, aad=self._binding("secret"))

    def address(self) -> str:
        return secrets.decrypt(self.address_ciphertext, aad=self._binding("address")) if self.address_ciphertext else ""

    def secret(self) -> str:
        return secrets.decrypt(self.secret_ciphertext, aad=self._binding("secret")) if self.secret_ciphertext else ""

    def encrypt_anew(self) -> list[str]:
        changed = []
        for name in ("address", "secret"):
            field = f"{name}_ciphertext"
            token = getattr(self, field)
            if token and not secrets.is_current(token):
                plain = secrets.decrypt(token, aad=self._binding(name))
                setattr(self, field, secrets.encrypt(plain, aad=self._binding(name)))
                changed.append(field)
        return changed

    def wants(self, kind: str) -> bool:
        return not self.kinds or kind in self.kinds or kind not in CHOSEN

    def due_at(self, now: datetime, *, is_alarm: bool) -> datetime:
        """Return when something of `now` is sent: after the time of grouping, and not within the quiet hours."""
        due = now if self.way == self.Way.WEBHOOK else now + timedelta(seconds=self.group_seconds)
        if self.quiet_from is None or self.quiet_to is None or (is_alarm and self.alarms_at_once):
            return due
        return end_of_quiet(due, self.quiet_from, self.quiet_to, ZoneInfo(self.zone))

    def _binding(self, field: str) -> str:
        return f"telling.Subscription:{self.mark}:{field}"


class Delivery(models.Model):
    """One notice for one subscription, from the moment that the notice is written until it arrived or was given up."""

    class State(models.TextChoices):
        WAITING = "waiting", _("Waiting")
        SENT = "sent", _("Sent")
        DEAD = "dead", _("Abandoned")

    mark = models.UUIDField(_("message"), default=uuid.uuid4, unique=True, editable=False)
    """The ID by which receivers detect a repetition (`webhook-id`)."""
    notice = models.ForeignKey(Notice, models.CASCADE, related_name="deliveries", verbose_name=_("notification"))
    subscription = models.ForeignKey(
        Subscription, models.CASCADE, related_name="deliveries", verbose_name=_("subscription")
    )
    state = models.CharField(_("state"), max_length=8, choices=State, default=State.WAITING)
    tries = models.PositiveIntegerField(_("attempts"), default=0)
    due_at = models.DateTimeField(_("due"))
    error = models.CharField(_("last error"), max_length=500, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        default_permissions = ("view",)
        permissions = [("replay_delivery", _("Can resend deliveries"))]
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["notice", "subscription"], name="delivery_once"),
            models.CheckConstraint(condition=Q(state__in=["waiting", "sent", "dead"]), name="delivery_state_known"),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(state="waiting"), name="delivery_due"),  # the sender
            models.Index(fields=["subscription", "state", "due_at"], name="delivery_of"),  # one turn of it
            models.Index(fields=["state", "-id"], name="delivery_by_state"),  # the list of what was given up
        ]

    def __str__(self) -> str:
        return f"{self.notice} → {self.subscription}"


class Reader(models.Model):
    """Up to which notice a person has seen the list."""

    person = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="+")
    seen_upto = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.person_id} {self.seen_upto}"


class Position(models.Model):
    """How far the history was read for notices, and by which worker now."""

    name = models.CharField(max_length=40, primary_key=True)
    value = models.BigIntegerField(default=0)
    leased_by = models.CharField(max_length=64, blank=True)
    leased_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.name} {self.value}"


def end_of_quiet(moment: datetime, begin: time, end: time, zone: ZoneInfo) -> datetime:
    """Return the moment itself, or the end of the quiet hours that it lies in. Equal times: never quiet."""
    local = moment.astimezone(zone)
    now = local.time()
    is_quiet = begin <= now < end if begin <= end else (now >= begin or now < end)
    if not is_quiet:
        return moment
    day = local.date() if now < end else local.date() + timedelta(days=1)
    return max(moment, datetime.combine(day, end, zone).astimezone(moment.tzinfo))


def check_address(way: str, address: str) -> None:
    """Raise ValidationError where notices cannot go there."""
    if way == Subscription.Way.CONSOLE:
        if address:
            raise ValidationError(_("The console needs no address. Leave it blank."))
        return
    if not address:
        raise ValidationError(_("Enter the destination address."))
    if len(address) > MOST_ADDRESS_CHARACTERS or any(ord(letter) <= 32 for letter in address):
        raise ValidationError(_("An address has at most %(count)d characters and no spaces.") % {
            "count": MOST_ADDRESS_CHARACTERS
        })  # fmt: skip
    if way == Subscription.Way.EMAIL:
        validate_email(address)
        return
    try:
        parts = urlsplit(address)
        EgressPolicy.from_settings().check_url(address)
    except (EgressRefused, ValueError) as error:
        raise ValidationError(str(error)) from error
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ValidationError(_("A webhook needs an https URL, or one on this machine."))


def shown_address(way: str, address: str) -> str:
    if way in (Subscription.Way.CONSOLE, Subscription.Way.EMAIL):
        return address
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "") + "/…"


def new_secret() -> str:
    return "whsec_" + base64.b64encode(randomness.token_bytes(32)).decode()


def signing_key(secret: str) -> bytes:
    """Return the bytes of a secret as Standard Webhooks writes it. Raises ValidationError."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValidationError(_("The secret must be whsec_ followed by 24 to 64 bytes in base64.")) from error
    if not secret.startswith("whsec_") or not 24 <= len(key) <= 64:
        raise ValidationError(_("The secret must be whsec_ followed by 24 to 64 bytes in base64."))
    return key
