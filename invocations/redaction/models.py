"""The redaction rules, as rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from invocations.redaction import places, policy
from sessions_app.history.guarding import GuardedModel
from sessions_app.kit.secret_forms import FORMS

_TOOL = re.compile(r"[A-Za-z0-9_.*-]+")


class McpRedactionRule(GuardedModel):
    """One place that is taken out of bodies before they are recorded; a keyed hash stays in it."""

    RECORDED_AS = "redaction_rule"
    GUARDED: ClassVar[Mapping[str, Any]] = {
        "enabled": True,
        "part": policy.BOTH,
        "tool_name": "",
        "kind": policy.PATH,
        "place": "",
    }

    class Kind(models.TextChoices):
        PATH = policy.PATH, _("JSON path")
        HEADER = policy.HEADER, _("Header name")
        FORM = policy.FORM, _("Known format")

    class Part(models.TextChoices):
        BOTH = policy.BOTH, _("Arguments and results")
        ARGUMENTS = policy.ARGUMENTS, _("Arguments")
        RESULT = policy.RESULT, _("Results")

    kind = models.CharField(_("kind"), max_length=6, choices=Kind, default=Kind.PATH)
    place = models.CharField(
        _("location"),
        max_length=places.LONGEST_PATH,
        help_text=_(
            "A path such as $.credentials.password, $.items[*].token or $..secret (at any depth); results "
            "begin with $.structuredContent or $.content. Or a header name, such as Authorization. Or the "
            "name of a known format, such as github_token."
        ),
    )
    part = models.CharField(_("part"), max_length=9, choices=Part, default=Part.BOTH)
    tool_name = models.CharField(
        _("tool"),
        max_length=64,
        blank=True,
        help_text=_("Exact name, or * for any characters: tickets_*. Leave blank for all tools."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    note = models.CharField(_("note"), max_length=200, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = _("redaction rule")
        verbose_name_plural = _("redaction rules")
        ordering = ["tool_name", "kind", "place"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "place", "part", "tool_name"],
                name="redaction_rule_once",
                violation_error_message=_("This rule already exists."),
            ),
            models.CheckConstraint(
                condition=Q(kind__in=[policy.PATH, policy.HEADER, policy.FORM]), name="redaction_kind_known"
            ),
            models.CheckConstraint(
                condition=Q(part__in=[policy.ARGUMENTS, policy.RESULT, policy.BOTH]), name="redaction_part_known"
            ),
            models.CheckConstraint(condition=~Q(place=""), name="redaction_place_present"),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name or '*'} {self.place}"

    def clean(self) -> None:
        try:
            if self.kind == self.Kind.HEADER:
                places.check_header(self.place)
            elif self.kind == self.Kind.FORM:
                if self.place not in FORMS:
                    raise ValueError(_("Choose one of: %s.") % ", ".join(sorted(FORMS)))
            else:
                places.parse(self.place)
        except ValueError as error:
            raise ValidationError({"place": str(error)}) from error
        if self.tool_name and not _TOOL.fullmatch(self.tool_name):
            raise ValidationError({"tool_name": _("Use the characters A-Z a-z 0-9 _ . - and * as a wildcard.")})

    def careful_values(self, stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """A rule in force is narrowed or switched off by two people, widened by one."""
        if stored is None or not stored["enabled"]:
            return {}
        return {**self.GUARDED, "kind": stored["kind"], "place": stored["place"]}

    def rule(self) -> policy.RedactionRule:
        return self.rule_for(self.tool_name)

    def rule_for(self, tool_name: str) -> policy.RedactionRule:
        """Return the rule for other tools."""
        return policy.RedactionRule(tool_name, self.part, self.kind, self.place)
