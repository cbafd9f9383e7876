"""The rules of what is not recorded, as rows."""

from __future__ import annotations

import re

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from invocations.redaction import places, policy
from sessions_app.history.recording import RecordedModel
from sessions_app.kit.secret_forms import FORMS

_TOOL = re.compile(r"[A-Za-z0-9_.*-]+")


class McpRedactionRule(RecordedModel):
    """One place that is taken out of bodies before they are recorded; a keyed hash stays in it."""

    RECORDED_AS = "redaction_rule"

    class Kind(models.TextChoices):
        PATH = policy.PATH, _("JSON path")
        HEADER = policy.HEADER, _("Header name")
        FORM = policy.FORM, _("Known form")

    class Part(models.TextChoices):
        BOTH = policy.BOTH, _("Arguments and results")
        ARGUMENTS = policy.ARGUMENTS, _("Arguments")
        RESULT = policy.RESULT, _("Results")

    kind = models.CharField(_("kind"), max_length=6, choices=Kind, default=Kind.PATH)
    place = models.CharField(
        _("place"),
        max_length=places.LONGEST_PATH,
        help_text=_(
            "A path such as $.credentials.password, $.items[*].token or $..secret (at any depth); results begin "
            "with $.structuredContent or $.content. Or the name of a header, such as Authorization. Or the name of a "
            "known form, such as github_token."
        ),
    )
    part = models.CharField(_("part"), max_length=9, choices=Part, default=Part.BOTH)
    tool_name = models.CharField(
        _("tool"),
        max_length=64,
        blank=True,
        help_text=_("Exact name, or with * for any characters: tickets_*. Empty: every tool."),
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
                violation_error_message=_("There is such a rule already."),
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
                    raise ValueError(_("Write one of: %s.") % ", ".join(sorted(FORMS)))
            else:
                places.parse(self.place)
        except ValueError as error:
            raise ValidationError({"place": str(error)}) from error
        if self.tool_name and not _TOOL.fullmatch(self.tool_name):
            raise ValidationError({"tool_name": _("Use the characters A-Z a-z 0-9 _ . - and * for any of them.")})

    def rule(self) -> policy.RedactionRule:
        return self.rule_for(self.tool_name)

    def rule_for(self, tool_name: str) -> policy.RedactionRule:
        """Give what the rule would be for other tools."""
        return policy.RedactionRule(tool_name, self.part, self.kind, self.place)
