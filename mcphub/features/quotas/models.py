"""Quotas as operators keep them, and the sums that the ledger keeps of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcphub.features.quotas.quota import QuotaRule
from mcphub.features.quotas.windows import PERIODS
from sessions_app.models import ApiKey
from tools_catalog.models.content import Switchable
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.models.scoped import NAMED, ScopedModel

MOST_QUOTAS = 200
"""Of a hub. Each that concerns a call is a row that its commit locks."""
MOST_LIMIT = 10**15
_LIMITED = [MinValueValidator(1), MaxValueValidator(MOST_LIMIT)]

_AT_FIELDS = ("hard_limit", "soft_limit", "group", "provider", "applies_to")
"""Codes of constraints about several fields: the one at which the problem is shown."""


class McpQuota(ScopedModel, LoadableModel):
    """How much may be called in a window of time; see docs/secure/quotas.md."""

    RECORDED_AS = "quota"
    UNRECORDED: ClassVar[tuple[str, ...]] = ("loaded_by",)
    GUARDED: ClassVar[Mapping[str, Any]] = {
        "enabled": True,
        "hard_limit": 1,
        "per": "all",
        "unit": "calls",
        "period": "month",
        "applies_to": "all",
        "target": "",
        "provider": "",
        "person_id": None,
        "key_id": None,
        "group_id": None,
    }

    class Per(models.TextChoices):
        PERSON = "person", _("Each person, or key without a person")
        KEY = "key", _("Each key")
        GROUP = "group", _("Each group")
        ALL = "all", _("All together")

    class Unit(models.TextChoices):
        CALLS = "calls", _("Calls")
        BYTES = "bytes", _("Bytes of arguments and results")
        TOKENS = "tokens", _("Chat tokens")
        MONEY = "money", _("Chat spend")

    class Period(models.TextChoices):
        MINUTE = "minute", _("Minute")
        HOUR = "hour", _("Hour")
        DAY = "day", _("Day")
        MONTH = "month", _("Month")

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        validators=[NAMED],
        help_text=_("Shown to whoever is refused, and recorded with the refusal."),
    )
    words = models.CharField(
        _("message"), max_length=500, blank=True, help_text=_("Shown with each refusal. Say who can raise the quota.")
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    per = models.CharField(
        _("counted per"),
        max_length=6,
        choices=Per,
        default=Per.PERSON,
        help_text=_("Each subject has its own sum. All keys and logins of a person count as that person."),
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("only this person"),
        help_text=_("A person or a service account. Leave all three blank for everybody."),
    )
    key = models.ForeignKey(
        ApiKey, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("only this key")
    )
    group = models.ForeignKey(
        Group, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("only this group")
    )
    provider = models.CharField(
        _("only this provider"),
        max_length=40,
        blank=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]*\Z")],
        help_text=_(
            "For tokens and money: counts only usage of this provider's models. Leave blank for all providers."
        ),
    )
    unit = models.CharField(_("what is counted"), max_length=6, choices=Unit, default=Unit.CALLS)
    period = models.CharField(
        _("per"),
        max_length=6,
        choices=Period,
        default=Period.DAY,
        help_text=_("Calendar windows in UTC: a day begins at midnight, a month on its first day."),
    )
    soft_limit = models.BigIntegerField(
        _("warn at"),
        null=True,
        blank=True,
        validators=_LIMITED,
        help_text=_(
            "From here on, callers see a warning in their results and people get a notification. Money in "
            "the hub's currency, such as 25.00. Leave blank for no warning."
        ),
    )
    hard_limit = models.BigIntegerField(
        _("refuse at"),
        null=True,
        blank=True,
        validators=_LIMITED,
        help_text=_(
            "Once usage reaches this, further calls are refused until the window ends. Leave blank to never refuse."
        ),
    )
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = Switchable.as_manager()

    class Meta:
        app_label = "invocations"
        verbose_name = _("quota")
        verbose_name_plural = _("quotas")
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=Q(per__in=["person", "key", "group", "all"]), name="quota_per_known"),
            models.CheckConstraint(
                condition=Q(unit__in=["calls", "bytes", "tokens", "money"]), name="quota_unit_known"
            ),
            models.CheckConstraint(condition=Q(period__in=PERIODS), name="quota_period_known"),
            models.CheckConstraint(
                condition=Q(soft_limit__isnull=False) | Q(hard_limit__isnull=False),
                name="quota_has_limit",
                violation_error_code="hard_limit",
                violation_error_message=_("Enter a warning threshold, a limit, or both."),
            ),
            models.CheckConstraint(
                condition=(Q(soft_limit=None) | Q(soft_limit__gte=1)) & (Q(hard_limit=None) | Q(hard_limit__gte=1)),
                name="quota_limits_positive",
            ),
            models.CheckConstraint(
                condition=Q(soft_limit=None) | Q(hard_limit=None) | Q(soft_limit__lte=F("hard_limit")),
                name="quota_warns_first",
                violation_error_code="soft_limit",
                violation_error_message=_("The warning threshold must be below the limit."),
            ),
            models.CheckConstraint(
                condition=Q(provider="") | Q(unit__in=["tokens", "money"]),
                name="quota_provider_of_chat",
                violation_error_code="provider",
                violation_error_message=_(
                    "Calls and bytes belong to tools, which have no provider. Leave this blank, or count "
                    "tokens or money."
                ),
            ),
            models.CheckConstraint(
                condition=~Q(unit__in=["tokens", "money"]) | Q(applies_to="all"),
                name="quota_chat_of_all_tools",
                violation_error_code="applies_to",
                violation_error_message=_(
                    "Tokens and money are used by chat models, not by tools. Choose all tools, and name a "
                    "provider to narrow the quota."
                ),
            ),
            models.CheckConstraint(
                condition=Q(person=None, key=None) | Q(person=None, group=None) | Q(key=None, group=None),
                name="quota_about_one",
                violation_error_code="group",
                violation_error_message=_("A quota covers one person, one key, one group, or everybody."),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems = self.problems_of_scope()
        if self.name == "usage":
            problems["name"] = _("This name is reserved by the REST API. Choose another.")
        if self._state.adding and type(self)._default_manager.count() >= MOST_QUOTAS:
            problems["name"] = _("The hub has %(most)d quotas, the maximum. Delete one first.") % {"most": MOST_QUOTAS}
        if problems:
            raise ValidationError(problems)

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        try:
            super().validate_constraints(exclude)
        except ValidationError as refused:
            found: dict[str, list[ValidationError]] = {}
            for field, problems in refused.error_dict.items():
                for problem in problems:
                    found.setdefault(problem.code if problem.code in _AT_FIELDS else field, []).append(problem)
            raise ValidationError(found) from refused

    def careful_values(self, stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """A quota in force is loosened by two persons, tightened by one: a lower limit is anybody's."""
        if stored is None or not stored["enabled"]:
            return {}
        was, wanted = stored["hard_limit"], self.hard_limit
        is_tighter = wanted is not None and (was is None or wanted <= was)
        return {**stored, "enabled": True, "hard_limit": wanted if is_tighter else was}

    @property
    def is_in_force(self) -> bool:
        return self.enabled

    @property
    def about(self) -> str:
        """Return its subject for people; empty: everybody."""
        return str(self.person or self.key or self.group or "")

    # Names of others by which files and REST say whom it is about ------------------------------------------

    @property
    def person_name(self) -> str:
        return self.person.get_username() if self.person is not None else ""

    @person_name.setter
    def person_name(self, name: str) -> None:
        self.person = get_user_model().objects.get_by_natural_key(name) if name else None

    @property
    def key_prefix(self) -> str:
        return self.key.prefix if self.key is not None else ""

    @key_prefix.setter
    def key_prefix(self, prefix: str) -> None:
        self.key = ApiKey.objects.get(prefix=prefix) if prefix else None

    @property
    def group_name(self) -> str:
        return self.group.name if self.group is not None else ""

    @group_name.setter
    def group_name(self, name: str) -> None:
        self.group = Group.objects.get(name=name) if name else None

    def compiled(self) -> QuotaRule:
        return QuotaRule(
            key=self.pk or 0,
            name=self.name,
            per=self.per,
            unit=self.unit,
            period=self.period,  # type: ignore[arg-type]  # the constraint knows
            soft=self.soft_limit,
            hard=self.hard_limit,
            applies_to=self.applies_to,
            target=self.target,
            principal=f"user:{self.person_id}" if self.person_id is not None else "",
            credential=f"key:{self.key_id}" if self.key_id is not None else "",
            group=self.group_id,
            words=self.words,
            provider=self.provider,
        )


class QuotaCount(models.Model):
    """One sum: a quota's count for one subject in one window. The ledger writes it. No evidence."""

    key = models.CharField(max_length=250, primary_key=True)
    quota = models.ForeignKey(
        McpQuota, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="counts", verbose_name=_("quota")
    )
    unit = models.CharField(_("what is counted"), max_length=6)
    subject = models.CharField(_("counted per"), max_length=100)
    begins = models.BigIntegerField(_("from"))
    """Seconds since the epoch, as `ends`."""
    ends = models.BigIntegerField(_("released"))
    used = models.BigIntegerField(_("used"), default=0)
    """Of money millionths."""
    estimated = models.BigIntegerField(_("estimated"), default=0)
    """Part of `used` that providers did not report."""
    unpriced = models.BigIntegerField(_("requests without a price"), default=0)
    """Of models, of which a quota of money counts nothing."""

    class Meta:
        app_label = "invocations"
        default_permissions = ()
        verbose_name = _("quota usage")
        verbose_name_plural = _("quota usage")
        indexes = [
            models.Index(fields=["ends"], name="quota_count_by_end")  # the purge, and what counts now
        ]

    def __str__(self) -> str:
        return self.key
