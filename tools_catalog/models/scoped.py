"""Rows that apply to calls of some tools: rules about calls, and guardrails."""

from __future__ import annotations

from typing import Any

from django.core.validators import RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

NAMED = RegexValidator(
    r"^[a-z0-9][a-z0-9_-]{0,63}\Z", _("Use only lowercase letters, digits, - and _, beginning with a letter or digit.")
)


class ScopedModel(models.Model):
    """Defines the tools it applies to, and validates the definition."""

    class AppliesTo(models.TextChoices):
        ALL = "all", _("All tools")
        TOOLSET = "toolset", _("Tools of toolsets")
        CONNECTION = "connection", _("Tools of connections")
        TOOL = "tool", _("Tools by name")
        TAG = "tag", _("Tools with a tag")
        ANNOTATION = "annotation", _("Tools with an annotation")

    applies_to = models.CharField(_("applies to"), max_length=10, choices=AppliesTo, default=AppliesTo.ALL)
    target = models.CharField(
        _("names"),
        max_length=500,
        blank=True,
        help_text=_(
            "Space-separated names; * and ? in names of tools and connections. For an annotation: "
            "destructiveHint, or readOnlyHint=false."
        ),
    )

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.target = " ".join(self.target.split())
        super().save(*args, **kwargs)

    def problems_of_scope(self) -> dict[str, Any]:
        """Return the problems of its scope, by field."""
        if self.applies_to == self.AppliesTo.ALL and self.target.strip():
            return {"target": _("“All tools” takes no names. Leave this blank.")}
        if self.applies_to != self.AppliesTo.ALL and not self.target.strip():
            return {"target": _("Enter at least one name.")}
        if self.applies_to == self.AppliesTo.TOOLSET and (missing := self._missing_toolset()):
            return {"target": _("No toolset named %(name)s.") % {"name": missing}}
        return {}

    def _missing_toolset(self) -> str:
        from tools_catalog.models.toolsets import McpToolset

        named = self.target.split()
        there = set(McpToolset.objects.filter(slug__in=named).values_list("slug", flat=True))
        return next((slug for slug in named if slug not in there), "")
