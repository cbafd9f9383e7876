"""Toolsets: named selections of the catalogue, each served at an endpoint of its own, `/mcp/s/<slug>`."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from tools_catalog.models_content import Switchable, keep_groups

SLUG = re.compile(r"^[a-z0-9][a-z0-9_-]{0,31}\Z")
_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]{1,64}")


class McpToolset(models.Model):
    """Which tools a client sees at `/mcp/s/<slug>`, and whether as a list or by searching."""

    class Mode(models.TextChoices):
        LIST = "list", _("List them")
        SEARCH = "search", _("Offer search, describe and call")

    slug = models.CharField(
        _("name"), max_length=32, unique=True,
        validators=[RegexValidator(SLUG, _("Use 1 to 32 of a-z 0-9 _ -, beginning with a letter or digit."))],
        help_text=_("The last part of its address: /mcp/s/NAME"),
    )  # fmt: skip
    title = models.CharField(_("title"), max_length=200, blank=True)
    description = models.TextField(
        _("description"), blank=True,
        help_text=_("Sent to clients as instructions: say what these tools are for."),
    )  # fmt: skip
    mode = models.CharField(
        _("how clients find the tools"), max_length=10, choices=Mode, default=Mode.LIST,
        help_text=_("Search suits many tools: the client sees three tools that find and call the others."),
    )  # fmt: skip
    tools = models.ManyToManyField(
        "tools_catalog.McpToolDefinition", verbose_name=_("tools"), blank=True, related_name="toolsets"
    )
    patterns = models.TextField(
        _("name patterns"), blank=True,
        help_text=_("Tools whose name matches are in it too, later ones included: bitbucket.* tickets.read_?"),
    )  # fmt: skip
    enabled = models.BooleanField(_("enabled"), default=True)
    groups = models.ManyToManyField(
        Group, verbose_name=_("groups"), blank=True,
        help_text=_("Who may use the address. Empty: every caller. The groups of each tool count as well."),
    )  # fmt: skip
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = Switchable.as_manager()
    history = HistoricalRecords(m2m_fields=[tools, groups])
    change_reason: str = ""
    _change_reason: str | None = None

    class Meta:
        verbose_name = _("toolset")
        verbose_name_plural = _("toolsets")
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(condition=Q(slug__regex=SLUG.pattern), name="toolset_slug_wellformed"),
            models.CheckConstraint(condition=Q(mode__in=["list", "search"]), name="toolset_mode_known"),
        ]

    def __str__(self) -> str:
        return self.slug

    def clean(self) -> None:
        for pattern in self.patterns.split():
            if not _PATTERN.fullmatch(pattern):
                raise ValidationError(
                    {
                        "patterns": _("%(pattern)r is no pattern: write names of tools, * and ?, with blanks between.")
                        % {"pattern": pattern[:100]}
                    }
                )

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.patterns = " ".join(self.patterns.split())
        super().save(*args, **kwargs)

    @property
    def path(self) -> str:
        return f"/mcp/s/{self.slug}"


keep_groups(McpToolset)
