"""Call rules: permitted callers and arguments, and required approvals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcphub.features.call_rules import expressions
from mcphub.features.call_rules.rule import Policy, Rule
from sessions_app.kit.fields import readable_rows
from sessions_app.protocol.json import Json
from sessions_app.workspaces.scope import OwnedModel
from tools_catalog.models.content import Switchable
from tools_catalog.models.definitions import McpToolDefinition
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.models.scoped import NAMED, ScopedModel
from tools_catalog.models.upstream import McpConnection
from tools_catalog.policy.ask import ANOTHER, CALLER, Ask

_GROUP = re.compile(r"""(?:"([^"\\\n]{1,150})"|'([^'\\\n]{1,150})')\s+in\s+principal\.groups\b""")
"""A group that a condition names."""
_MOST_GROUPS = 1000
MOST_RULES = 500
"""Of a hub. Each that concerns a tool is looked at in its calls."""


class McpPolicyRule(OwnedModel, ScopedModel, LoadableModel):
    """One rule. Its condition is CEL over the call; see docs/secure/call-rules.md."""

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
        ASK = "ask", _("Require approval")
        ALLOW = "allow", _("Allow")

    class Decider(models.TextChoices):
        ANOTHER = ANOTHER, _("Someone else")
        CALLER = CALLER, _("The calling person")

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        validators=[NAMED],
        help_text=_("Appears in the record of each call that the rule decides."),
    )
    condition = models.TextField(
        _("condition"),
        blank=True,
        help_text=_(
            'A CEL condition: args.amount > 100 && !("finance" in principal.groups). Leave blank to always match.'
        ),
    )
    effect = models.CharField(
        _("effect"),
        max_length=5,
        choices=Effect,
        default=Effect.DENY,
        help_text=_(
            "Deny wins over ask, ask over allow. If an allow rule applies to a tool, its calls must match one."
        ),
    )
    words = models.CharField(
        _("message"),
        max_length=500,
        blank=True,
        help_text=_("Shown to the caller and to whoever decides. Suggest an alternative."),
    )
    priority = models.SmallIntegerField(
        _("priority"),
        default=0,
        validators=[MinValueValidator(-1000), MaxValueValidator(1000)],
        help_text=_("Among rules with the same effect, the highest priority wins and its message is shown."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    watching = models.BooleanField(
        _("log only"), default=False, help_text=_("Takes no action: only the record shows the verdict.")
    )
    valid_from = models.DateTimeField(_("valid from"), null=True, blank=True)
    valid_until = models.DateTimeField(_("valid until"), null=True, blank=True)
    ask_decider = models.CharField(_("who decides"), max_length=10, choices=Decider, default=Decider.ANOTHER)
    ask_group = models.CharField(
        _("approving group"),
        max_length=150,
        blank=True,
        help_text=_("Leave blank for anybody with the permission to decide."),
    )
    ask_needed = models.PositiveSmallIntegerField(
        _("approvals required"), default=1, validators=[MinValueValidator(1), MaxValueValidator(2)]
    )
    ask_seconds = models.PositiveIntegerField(
        _("seconds until the request expires"),
        default=24 * 3600,
        validators=[MinValueValidator(10), MaxValueValidator(30 * 24 * 3600)],
    )
    version = models.PositiveIntegerField(_("version"), default=0, editable=False)
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = Switchable.as_manager()

    class Meta:
        app_label = "tools_catalog"
        verbose_name = _("call rule")
        verbose_name_plural = _("call rules")
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
                violation_error_message=_("The end must be after the start."),
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
        if self.enabled and self.effect == self.Effect.ASK and (said := _missing_group(self.ask_group)):
            problems["ask_group"] = said
        if self._state.adding and type(self)._default_manager.count() >= MOST_RULES:
            problems["name"] = _("The hub has %(most)d rules, the maximum. Delete one first.") % {"most": MOST_RULES}
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

    def unknown_names(self) -> list[str]:
        """Return the names in scope and condition that nothing on this hub has: a part of the rule concerns nothing."""
        named: dict[type[models.Model], tuple[str, set[str]]] = {
            Group: ("name", {found[1] or found[2] for found in _GROUP.finditer(self.condition)})
        }
        if self.applies_to in (self.AppliesTo.TOOL, self.AppliesTo.CONNECTION):
            of_tools = self.applies_to == self.AppliesTo.TOOL
            plain = {name for name in self.target.split() if not set(name) & set("*?[")}
            named[McpToolDefinition if of_tools else McpConnection] = ("name" if of_tools else "slug", plain)
        unknown: list[str] = []
        for model, (column, names) in named.items():
            there = set()
            if names:
                there = set(model._default_manager.filter(**{f"{column}__in": names}).values_list(column, flat=True))
            unknown += sorted(names - there)
        return unknown

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


def _missing_group(name: str) -> str:
    """Return why nobody of a group can approve: there is none of this name. Empty if there is, or none is named."""
    if not name or Group.objects.filter(name=name).exists():
        return ""
    near = get_close_matches(name, Group.objects.values_list("name", flat=True)[:_MOST_GROUPS], 1)
    if near:
        words = _("No group is named %(name)s, so nobody could approve. Did you mean %(near)s?")
        return words % {"name": name, "near": near[0]}
    return _("No group is named %(name)s, so nobody could approve. Create it under Access, Groups.") % {"name": name}


def read_rules() -> list[Rule]:
    """Return the rules that are switched on, the watching ones too."""
    return [row.compiled() for row in readable_rows(McpPolicyRule.objects.filter(enabled=True))]


def read() -> Policy:
    """Return them as the snapshot has them, with the names of groups."""
    rules = read_rules()
    return Policy(rules, dict(Group.objects.values_list("pk", "name")) if rules else None)
