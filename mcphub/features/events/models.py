"""The log of events for clients, in the order of commits."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.fields import JSONText


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
    def next_position(cls) -> int:
        """Take the next position. Within a transaction, whose end lets the next event come."""
        cls.objects.get_or_create(key="events")
        cls.objects.filter(key="events").update(newest=F("newest") + 1)
        return int(cls.objects.values_list("newest", flat=True).get(key="events"))


class Occurrence(models.Model):
    """The beginning or end of a notice's state, or a notice without an end."""

    position = models.BigIntegerField(_("position"), primary_key=True)
    mark = models.UUIDField(_("event ID"), default=uuid.uuid4, unique=True)
    name = models.CharField(_("kind"), max_length=40)
    state = models.CharField(_("state"), max_length=8)
    subject = models.CharField(_("subject"), max_length=200, blank=True)
    facts = JSONText(_("facts"), default=dict)
    principal = models.CharField(_("caller"), max_length=80, blank=True)
    """The caller concerned, who needs no permission for it."""
    connection = models.CharField(_("connection"), max_length=100, blank=True)
    """The upstream concerned."""
    workspace = models.CharField(_("workspace"), max_length=32, blank=True)
    happened_at = models.DateTimeField(_("time"), default=timezone.now)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        default_permissions = ("view",)
        ordering = ["-position"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=["began", "ended", "happened"]), name="occurrence_state_known"
            )
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
