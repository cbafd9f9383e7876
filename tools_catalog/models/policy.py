"""Rules about calls: who may call what with which arguments, and what a person has to say yes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.fields import readable_rows
from sessions_app.protocol.json import Json
from sessions_app.workspaces.scope import OwnedModel
from tools_catalog.models.content import Switchable
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.models.scoped import NAMED, ScopedModel
from tools_catalog.policy import expressions
from tools_catalog.policy.ask import ANOTHER, CALLER, Ask
from tools_catalog.policy.rules import Rule

MOST_RULES = 500
"""Of a hub. Each that concerns a tool is looked at in its calls."""


class McpPolicyRule(OwnedModel, ScopedModel, LoadableModel):
    """One rule. Its condition is CEL over the call; see docs/policy.md."""

    RECORDED_AS = "policy_rule"
    UNRECORDED: ClassVar[tuple[str, ...]] = ("loaded_by", "version")
    GUARDED: ClassVar[Mapping[str, Any]] = {
        "enabled": True,
        "watching": False,
        "effect": "deny",
        "applies_to": "all",
        "target": "",
        "condition": "",
        "valid_from": None,
        "valid_until": None,
        "ask_decider": ANOTHER,
        "ask_group": "",
        "ask_needed": 2,
    }

    class Effect(models.TextChoices):
        DENY = "deny", _("Deny")
        ASK = "ask", _("Ask a person")
        ALLOW = "allow", _("Allow")

    class Decider(models.TextChoices):
        ANOTHER = ANOTHER, _("Somebody else")
        CALLER = CALLER, _("The person who calls")

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        validators=[NAMED],
        help_text=_("Stands in the record of each call that the rule decides."),
    )
    condition = models.TextField(
        _("condition"),
        blank=True,
        help_text=_(
            'When the rule holds, in CEL: args.amount > 100 && !("finance" in principal.groups). Empty: always.'
        ),
    )
    effect = models.CharField(
        _("effect"),
        max_length=5,
        choices=Effect,
        default=Effect.DENY,
        help_text=_(
            "Deny wins over ask, ask over allow. Where an allow applies to a tool, its calls need one allow that holds."
        ),
    )
    words = models.CharField(
        _("words for the caller"),
        max_length=500,
        blank=True,
        help_text=_("Said to whoever calls, and to who decides. Say what to do instead."),
    )
    priority = models.SmallIntegerField(
        _("priority"),
        default=0,
        validators=[MinValueValidator(-1000), MaxValueValidator(1000)],
        help_text=_("Among rules with one effect the highest decides, and its words are said."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    watching = models.BooleanField(
        _("watch only"), default=False, help_text=_("Decides nothing: the record says what it would have done.")
    )
    valid_from = models.DateTimeField(_("valid from"), null=True, blank=True)
    valid_until = models.DateTimeField(_("valid until"), null=True, blank=True)
    ask_decider = models.CharField(_("who decides"), max_length=10, choices=Decider, default=Decider.ANOTHER)
    ask_group = models.CharField(
        _("group of who decides"), max_length=150, blank=True, help_text=_("Empty: anybody with the right to decide.")
    )
    ask_needed = models.PositiveSmallIntegerField(
        _("persons who must say yes"), default=1, validators=[MinValueValidator(1), MaxValueValidator(2)]
    )
    ask_seconds = models.PositiveIntegerField(
        _("seconds that the question stands"),
        default=24 * 3600,
        validators=[MinValueValidator(10), MaxValueValidator(30 * 24 * 3600)],
    )
    version = models.PositiveIntegerField(_("version"), default=0, editable=False)
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = Switchable.as_manager()

    class Meta:
        verbose_name = _("rule about calls")
        verbose_name_plural = _("rules about calls")
        ordering = ["-priority", "name"]
        constraints = [
            models.CheckConstraint(condition=Q(effect__in=["deny", "ask", "allow"]), name="policy_effect_known"),
            models.CheckConstraint(
                condition=Q(applies_to__in=["all", "toolset", "connection", "tool", "tag", "annotation"]),
                name="policy_applies_to_known",
            ),
            models.CheckConstraint(condition=Q(ask_needed__in=[1, 2]), name="policy_ask_needed_known"),
            models.CheckConstraint(condition=Q(ask_decider__in=[ANOTHER, CALLER]), name="policy_ask_decider_known"),
            models.CheckConstraint(
                condition=Q(valid_from=None) | Q(valid_until=None) | Q(valid_from__lt=F("valid_until")),
                name="policy_valid_in_order",
                violation_error_message=_("The rule must end after it begins."),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems: dict[str, Json] = {}
        try:
            if self.condition.strip():
                expressions.compile(self.condition)
        except expressions.ExpressionRejected as error:
            problems["condition"] = str(error)
        problems |= self.problems_of_scope()
        if self._state.adding and type(self)._default_manager.count() >= MOST_RULES:
            problems["name"] = _("The hub has %(most)d rules, the most there may be. Remove one first.") % {
                "most": MOST_RULES
            }
        if problems:
            raise ValidationError(problems)

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.condition = self.condition.replace("\r\n", "\n").strip()
        self.version += 1
        if kwargs.get("update_fields") is not None:
            kwargs["update_fields"] = {*kwargs["update_fields"], "version"}
        super().save(*args, **kwargs)

    def careful_values(self, stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """A rule in force is loosened by two persons, tightened by one. One that decides nothing is anybody's."""
        if stored is None:
            return {"enabled": False} if self.effect == self.Effect.ALLOW else {}
        if stored["enabled"] and not stored["watching"]:
            # An allow is tightened by nothing that can be told from its fields alone.
            return self.GUARDED if stored["effect"] != self.Effect.ALLOW else dict(stored)
        is_allow = self.Effect.ALLOW in (stored["effect"], self.effect)
        return {"enabled": stored["enabled"], "watching": stored["watching"]} if is_allow else {}

    @property
    def is_in_force(self) -> bool:
        return self.enabled and not self.watching

    def compiled(self) -> Rule:
        condition, broken = None, ""
        try:
            condition = expressions.compile(self.condition) if self.condition.strip() else None
        except expressions.ExpressionRejected as error:
            broken = str(error)
        return Rule(
            key=self.pk or 0,
            name=self.name,
            workspace=self.workspace_id,
            version=self.version,
            effect=self.effect,  # type: ignore[arg-type]  # the constraint knows
            applies_to=self.applies_to,
            target=self.target,
            condition=condition,
            broken=broken,
            words=self.words,
            priority=self.priority,
            watching=self.watching,
            valid_from=self.valid_from.timestamp() if self.valid_from else None,
            valid_until=self.valid_until.timestamp() if self.valid_until else None,
            ask=Ask(
                rule=self.name,
                version=self.version,
                words=self.words,
                decider=self.ask_decider,
                group=self.ask_group,
                needed=self.ask_needed,
                since=self.created_at.timestamp(),
                seconds=self.ask_seconds,
            )
            if self.effect == self.Effect.ASK
            else None,
        )


def read_rules() -> list[Rule]:
    """Give the rules that are switched on, the watching ones too."""
    return [row.compiled() for row in readable_rows(McpPolicyRule.objects.filter(enabled=True))]
