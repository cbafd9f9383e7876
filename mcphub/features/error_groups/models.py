"""Failures that are alike, as one row: kept up while rows are sealed, and judged by people. No evidence."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.fields import JSONText


class ErrorGroup(models.Model):
    """Failed calls of one tool with one code and one message, apart from varying parts.

    The sealing process writes the figures (`errors.grouping`), people the state.
    """

    class State(models.TextChoices):
        OPEN = "open", _("Open")
        MUTED = "muted", _("Muted")
        RESOLVED = "resolved", _("Resolved")

    id = models.BigAutoField(_("number"), primary_key=True)
    key = models.CharField(max_length=64, unique=True, editable=False)
    tool_name = models.CharField(_("tool"), max_length=128, blank=True)
    error_code = models.CharField(_("error code"), max_length=40)
    message = models.CharField(_("message"), max_length=300, blank=True)
    calls = models.BigIntegerField(_("calls"))
    first_at = models.DateTimeField(_("first seen"))
    last_at = models.DateTimeField(_("last seen"))
    first_sequence = models.BigIntegerField()
    last_sequence = models.BigIntegerField()
    hours = JSONText(help_text=_("Calls per hour (UTC), the newest that are kept."))
    days = JSONText(help_text=_("Calls per day (UTC), the newest that are kept."))
    callers = JSONText(_("callers"), help_text=_("Label and calls per principal, for the first principals affected."))
    unnamed_calls = models.BigIntegerField(default=0, help_text=_("Calls of callers beyond that number."))
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.OPEN)
    state_at = models.DateTimeField(_("since"), default=timezone.now)
    state_by = models.CharField(_("by"), max_length=150, blank=True)
    reopened = models.BooleanField(_("recurred"), default=False)

    class Meta:
        app_label = "invocations"
        verbose_name = _("error group")
        verbose_name_plural = _("errors")
        ordering = ["-last_at"]
        default_permissions = ("view", "change")
        constraints = [
            models.CheckConstraint(condition=Q(state__in=["open", "muted", "resolved"]), name="error_group_state")
        ]
        indexes = [
            models.Index(fields=["last_at", "id"], name="error_group_by_time"),
            models.Index(fields=["state", "last_at"], name="error_group_by_state"),
            models.Index(fields=["tool_name", "error_code"], name="error_group_by_tool"),
            models.Index(fields=["last_sequence"], name="error_group_by_sequence"),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name or '-'} {self.error_code} #{self.pk}"
