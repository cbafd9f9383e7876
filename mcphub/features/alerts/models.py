"""Alerts: thresholds that operators set on calls and on money, of a part of the hub or of everything."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from mcphub.features.alerts.judging import ERRORS, QUIET, SLOW, SPEND, AlertThreshold
from mcphub.parts import RecordedSpend
from sessions_app.kit.features import declared, loaded
from sessions_app.kit.fields import JSONText
from sessions_app.models import ApiKey, McpWorkspace
from sessions_app.workspaces.belonging import ROLES
from tools_catalog.models import McpConnection, McpToolDefinition
from tools_catalog.models.loadable import LoadableModel

MOST_ALERTS = 200
"""Of a hub: each is judged twice a minute."""
MOST_MILLISECONDS = 86_400_000
MOST_MONEY = 1_000_000_000


class Alert(LoadableModel):
    """One threshold. While calls pass it, a notice holds for people whose subscriptions ask for it."""

    RECORDED_AS = "alert"
    UNRECORDED: ClassVar[tuple[str, ...]] = ("loaded_by", "checked_at", "fires_since", "measured")

    WATCHED: ClassVar[tuple[str, ...]] = ("tool", "connection", "workspace", "person", "key")
    """Links to its scope."""

    class Measure(models.TextChoices):
        ERRORS = ERRORS, _("Error rate")
        SLOW = SLOW, _("Latency (p95)")
        QUIET = QUIET, _("No calls")
        SPEND = SPEND, _("Money spent by the chat")

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
        help_text=_(
            "Percent of calls that fail, milliseconds, or whole units of the hub's currency. Leave blank for No calls."
        ),
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
        help_text=_("Calls of its tools. For money: what its keys and the people in its groups spend."),
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("person"),
        help_text=_("For money: what this person spends, with all their keys."),
    )
    key = models.ForeignKey(
        "sessions_app.ApiKey",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("key"),
        help_text=_("For money: what a key without a person spends."),
    )
    provider = models.CharField(
        _("provider"),
        max_length=40,
        blank=True,
        help_text=_("For money: what models of this provider cost. Leave blank for all providers."),
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
            models.CheckConstraint(condition=Q(measure__in=[ERRORS, SLOW, QUIET, SPEND]), name="alert_measure_known"),
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
            models.CheckConstraint(
                condition=Q(measure=SPEND, tool=None, connection=None)
                & (Q(person=None, key=None) | Q(person=None, workspace=None) | Q(key=None, workspace=None))
                | ~Q(measure=SPEND) & Q(person=None, key=None, provider=""),
                name="alert_scope_of_measure",
                violation_error_message=_(
                    "For money choose one of workspace, person and key, or none for everybody; for calls one of tool, "
                    "connection and workspace."
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems: dict[str, Any] = self._problems_of_limit()
        if self.pk is None and Alert.objects.count() >= MOST_ALERTS:
            problems["name"] = _("A hub has at most %(most)d alerts. Delete one first.") % {"most": MOST_ALERTS}
        problems |= self._problems_of_spend() if self.measure == SPEND else self._problems_of_calls()
        if problems:
            raise ValidationError(problems)

    def _problems_of_limit(self) -> dict[str, Any]:
        if self.measure == QUIET:
            self.limit = None
            return {}
        if not self.limit:
            return {"limit": _("Enter a threshold of at least 1.")}
        if self.measure == ERRORS and self.limit > 100:
            return {"limit": _("Enter a percentage from 1 to 100.")}
        if self.measure == SPEND and self.limit > MOST_MONEY:
            return {"limit": _("Enter at most %(most)d.") % {"most": MOST_MONEY}}
        if self.measure == SLOW and self.limit > MOST_MILLISECONDS:
            return {"limit": _("Enter at most %(most)d milliseconds.") % {"most": MOST_MILLISECONDS}}
        return {}

    def _problems_of_calls(self) -> dict[str, Any]:
        problems: dict[str, Any] = {}
        if sum(each is not None for each in (self.tool_id, self.connection_id, self.workspace_id)) > 1:
            problems["connection"] = _("Choose one of tool, connection and workspace, or none for all calls.")
        given = (("person", self.person_id), ("key", self.key_id), ("provider", self.provider))
        for name, value in given:
            if value:
                problems[name] = _("This is for money. Leave it blank for calls.")
        return problems

    def _problems_of_spend(self) -> dict[str, Any]:
        problems: dict[str, Any] = {}
        records = declared(RecordedSpend)
        if not records:
            problems["measure"] = _("Nothing records money: the feature chat is off. Enable it first.")
        for name, value in (("tool", self.tool_id), ("connection", self.connection_id)):
            if value is not None:
                problems[name] = _("Tools cost no money. Choose a workspace, a person, a key or a provider.")
        if sum(each is not None for each in (self.workspace_id, self.person_id, self.key_id)) > 1:
            problems["person"] = _("Choose one of workspace, person and key, or none for everybody.")
        if self.key is not None and self.key.owner is not None:
            problems["key"] = _("What this key spends is recorded for its person. Choose the person %(name)s.") % {
                "name": self.key.owner.get_username()
            }
        known = sorted(name for part in records for name in loaded(part.providers)())
        if self.provider and records and self.provider not in known:
            problems["provider"] = _("Unknown provider. Choose from: %(names)s.") % {"names": ", ".join(known) or "-"}
        return problems

    @property
    def threshold(self) -> AlertThreshold:
        return AlertThreshold(self.measure, self.limit or 0, self.least_calls)

    @property
    def scope(self) -> str:
        """Return the name of its scope; empty: everything."""
        return " ".join(filter(None, [self._scope, self.provider]))

    @property
    def _scope(self) -> str:
        if self.tool is not None:
            return self.tool.name
        if self.connection is not None:
            return self.connection.slug
        if self.person is not None:
            return str(self.person.get_username())
        if self.key is not None:
            return self.key.name
        return self.workspace.slug if self.workspace is not None else ""

    @property
    def principals(self) -> frozenset[str] | None:
        """Return the callers that count for money; None: all. Asks the database for a workspace's."""
        if self.person_id is not None:
            return frozenset({f"user:{self.person_id}"})
        if self.key_id is not None:
            return frozenset({f"key:{self.key_id}"})
        if self.workspace is None:
            return None
        keys = ApiKey.objects.filter(workspace=self.workspace_id).values_list("pk", "owner_id")
        groups = {pk for role in ROLES for pk in getattr(self.workspace, role).values_list("pk", flat=True)}
        people = get_user_model()._default_manager.filter(groups__in=groups).values_list("pk", flat=True)
        of_keys = (f"key:{pk}" if owner is None else f"user:{owner}" for pk, owner in keys)
        return frozenset([*of_keys, *(f"user:{pk}" for pk in people)])

    @property
    def condition(self) -> str:
        """Return the condition under which it fires, in a line."""
        within = self.get_window_minutes_display()
        if self.measure == QUIET:
            return _t("no calls within %(window)s") % {"window": within}
        if self.measure == SPEND:
            amount = f"{self.limit} {settings.MCPHUB_CURRENCY}"
            return _t("%(amount)s or more spent within %(window)s") % {"amount": amount, "window": within}
        words = _t("%(limit)d %% errors or more within %(window)s")
        if self.measure == SLOW:
            words = _t("p95 of %(limit)d ms or more within %(window)s")
        return words % {"limit": self.limit or 0, "window": within}

    # Its scope by names, for bundles ------------------------------------------------------

    @property
    def tool_name(self) -> str:
        return self.tool.name if self.tool is not None else ""

    @tool_name.setter
    def tool_name(self, name: str) -> None:
        self.tool = McpToolDefinition.objects.get(name=name) if name else None

    @property
    def connection_slug(self) -> str:
        return self.connection.slug if self.connection is not None else ""

    @connection_slug.setter
    def connection_slug(self, slug: str) -> None:
        self.connection = McpConnection.objects.get(slug=slug) if slug else None

    @property
    def workspace_slug(self) -> str:
        return self.workspace.slug if self.workspace is not None else ""

    @workspace_slug.setter
    def workspace_slug(self, slug: str) -> None:
        self.workspace = McpWorkspace._default_manager.get(slug=slug) if slug else None

    @property
    def person_name(self) -> str:
        return str(self.person.get_username()) if self.person is not None else ""

    @person_name.setter
    def person_name(self, name: str) -> None:
        self.person = get_user_model()._default_manager.get(username=name) if name else None

    @property
    def key_prefix(self) -> str:
        return self.key.prefix if self.key is not None else ""

    @key_prefix.setter
    def key_prefix(self, prefix: str) -> None:
        self.key = ApiKey.objects.get(prefix=prefix) if prefix else None
