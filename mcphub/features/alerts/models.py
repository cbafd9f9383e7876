"""Alerts: thresholds that operators set on calls of a tool, a connection, a workspace, or of everything."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from mcphub.features.alerts.judging import ERRORS, QUIET, SLOW, AlertThreshold
from sessions_app.history.recording import RecordedModel
from sessions_app.kit.fields import JSONText

MOST_ALERTS = 200
"""Of a hub: each is judged twice a minute."""
MOST_MILLISECONDS = 86_400_000


class Alert(RecordedModel):
    """One threshold. While calls pass it, a notice holds for people whose subscriptions ask for it."""

    RECORDED_AS = "alert"
    UNRECORDED = ("checked_at", "fires_since", "measured")

    class Measure(models.TextChoices):
        ERRORS = ERRORS, _("Error rate")
        SLOW = SLOW, _("Latency (p95)")
        QUIET = QUIET, _("No calls")

    class Window(models.IntegerChoices):
        FIVE_MINUTES = 5, _("5 minutes")
        QUARTER = 15, _("15 minutes")
        HALF = 30, _("30 minutes")
        HOUR = 60, _("1 hour")
        SIX_HOURS = 360, _("6 hours")
        DAY = 1440, _("24 hours")

    name = models.CharField(_("name"), max_length=80, unique=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    measure = models.CharField(_("measure"), max_length=10, choices=Measure, default=Measure.ERRORS)
    limit = models.PositiveIntegerField(
        _("threshold"),
        null=True,
        blank=True,
        help_text=_("Percent of calls that fail, or milliseconds. Leave blank for No calls."),
    )
    window_minutes = models.PositiveIntegerField(_("within"), choices=Window, default=Window.QUARTER)
    least_calls = models.PositiveIntegerField(
        _("minimum calls"),
        default=20,
        validators=[MinValueValidator(1), MaxValueValidator(1_000_000)],
        help_text=_("Fewer calls within the time don't fire, so that one failure at night wakes nobody."),
    )
    tool = models.ForeignKey(
        "tools_catalog.McpToolDefinition",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("tool"),
        help_text=_("Choose a tool, a connection or a workspace. Leave all blank for all calls."),
    )
    connection = models.ForeignKey(
        "tools_catalog.McpConnection",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("connection"),
        help_text=_("Calls of its tools."),
    )
    workspace = models.ForeignKey(
        "sessions_app.McpWorkspace",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("workspace"),
        help_text=_("Calls of its tools."),
    )
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    checked_at = models.DateTimeField(_("checked"), null=True, blank=True, editable=False)
    fires_since = models.DateTimeField(_("firing since"), null=True, blank=True, editable=False)
    measured = JSONText(default=dict, editable=False)
    """The facts of its notice, while it fires."""

    class Meta:
        verbose_name = _("alert")
        verbose_name_plural = _("alerts")
        default_permissions = ("add", "change", "delete", "view")
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=Q(measure__in=[ERRORS, SLOW, QUIET]), name="alert_measure_known"),
            models.CheckConstraint(
                condition=Q(measure=QUIET, limit__isnull=True) | (~Q(measure=QUIET) & Q(limit__gte=1)),
                name="alert_has_threshold",
                violation_error_message=_("Enter a threshold of at least 1, or none for No calls."),
            ),
            models.CheckConstraint(
                condition=Q(tool=None, connection=None)
                | Q(tool=None, workspace=None)
                | Q(connection=None, workspace=None),
                name="alert_scope_once",
                violation_error_message=_("Choose one of tool, connection and workspace, or none for all calls."),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems: dict[str, Any] = {}
        if self.measure == QUIET:
            self.limit = None
        elif not self.limit:
            problems["limit"] = _("Enter a threshold of at least 1.")
        elif self.measure == ERRORS and self.limit > 100:
            problems["limit"] = _("Enter a percentage from 1 to 100.")
        elif self.limit > MOST_MILLISECONDS:
            problems["limit"] = _("Enter at most %(most)d milliseconds.") % {"most": MOST_MILLISECONDS}
        if self.pk is None and Alert.objects.count() >= MOST_ALERTS:
            problems["name"] = _("A hub has at most %(most)d alerts. Delete one first.") % {"most": MOST_ALERTS}
        if sum(each is not None for each in (self.tool_id, self.connection_id, self.workspace_id)) > 1:
            problems["connection"] = _("Choose one of tool, connection and workspace, or none for all calls.")
        if problems:
            raise ValidationError(problems)

    @property
    def threshold(self) -> AlertThreshold:
        return AlertThreshold(self.measure, self.limit or 0, self.least_calls)

    @property
    def scope(self) -> str:
        """Return the name of what it watches; empty: all calls."""
        if self.tool is not None:
            return self.tool.name
        if self.connection is not None:
            return self.connection.slug
        return self.workspace.slug if self.workspace is not None else ""

    @property
    def condition(self) -> str:
        """Return what makes it fire, in a line."""
        within = self.get_window_minutes_display()
        if self.measure == QUIET:
            return _t("no calls within %(window)s") % {"window": within}
        words = _t("%(limit)d %% errors or more within %(window)s")
        if self.measure == SLOW:
            words = _t("p95 of %(limit)d ms or more within %(window)s")
        return words % {"limit": self.limit or 0, "window": within}
