"""Toolsets: named selections of the catalogue, each served at an endpoint of its own, `/mcp/s/<slug>`."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.protocol.json import Json
from sessions_app.workspaces.scope import OwnedModel
from tools_catalog.models.content import Switchable, keep_groups
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.models.short_names import SHORT_NAME, check_short_name

_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]{1,64}")
_READ_PATTERN = re.compile(r"[!-Z\\^-~]{1,500}")
"""Printable ASCII but brackets, which would be sets of characters."""


class McpToolset(OwnedModel, LoadableModel):
    """Which tools a client sees at `/mcp/s/<slug>`, and whether as a list or by searching."""

    GUARDED_LINKS = ("groups",)

    class Mode(models.TextChoices):
        LIST = "list", _("List them")
        SEARCH = "search", _("Offer search, describe and call")

    class Reads(models.TextChoices):
        ALL = "all", _("All of the hub")
        CHOSEN = "chosen", _("Those chosen below")

    slug = models.CharField(
        _("name"),
        max_length=32,
        unique=True,
        validators=[check_short_name],
        help_text=_("The last part of its address: /mcp/s/NAME"),
    )
    title = models.CharField(_("title"), max_length=200, blank=True)
    description = models.TextField(
        _("description"), blank=True, help_text=_("Sent to clients as instructions: say what these tools are for.")
    )
    mode = models.CharField(
        _("how clients find the tools"),
        max_length=10,
        choices=Mode,
        default=Mode.LIST,
        help_text=_("Search suits many tools: the client sees three tools that find and call the others."),
    )
    tools = models.ManyToManyField(
        "tools_catalog.McpToolDefinition", verbose_name=_("tools"), blank=True, related_name="toolsets"
    )
    patterns = models.TextField(
        _("name patterns"),
        blank=True,
        help_text=_("Tools whose name matches are in it too, later ones included: bitbucket.* tickets.read_?"),
    )
    reads = models.CharField(
        _("prompts and resources"),
        max_length=10,
        choices=Reads,
        default=Reads.ALL,
        help_text=_("What clients find at the address beside the tools."),
    )
    prompts = models.ManyToManyField(
        "tools_catalog.McpPrompt", verbose_name=_("prompts"), blank=True, related_name="toolsets"
    )
    resources = models.ManyToManyField(
        "tools_catalog.McpResource", verbose_name=_("resources"), blank=True, related_name="toolsets"
    )
    read_patterns = models.TextField(
        _("patterns of prompts and resources"),
        blank=True,
        help_text=_("Prompts whose name and resources whose URI matches are in it too: review_* docs://handbook/*"),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    groups = models.ManyToManyField(
        Group,
        verbose_name=_("groups"),
        blank=True,
        help_text=_("Who may use the address. Empty: every caller. The groups of each tool count as well."),
    )
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = Switchable.as_manager()

    class Meta:
        verbose_name = _("toolset")
        verbose_name_plural = _("toolsets")
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(condition=Q(slug__regex=SHORT_NAME.pattern), name="toolset_slug_wellformed"),
            models.CheckConstraint(condition=Q(mode__in=["list", "search"]), name="toolset_mode_known"),
            models.CheckConstraint(condition=Q(reads__in=["all", "chosen"]), name="toolset_reads_known"),
        ]

    def __str__(self) -> str:
        return self.slug

    def clean(self) -> None:
        problems: dict[str, Json] = {}
        for pattern in self.patterns.split():
            if not _PATTERN.fullmatch(pattern):
                words = _("%(pattern)r is no pattern: write names of tools, * and ?, with blanks between.")
                problems.setdefault("patterns", words % {"pattern": pattern[:100]})
        for pattern in self.read_patterns.split():
            if not _READ_PATTERN.fullmatch(pattern):
                words = _("%(pattern)r is no pattern: write names of prompts, URIs, * and ?, with blanks between.")
                problems.setdefault("read_patterns", words % {"pattern": pattern[:100]})
        if problems:
            raise ValidationError(problems)

    def save(self, *args: object, **kwargs: object) -> None:
        self.patterns = " ".join(self.patterns.split())
        self.read_patterns = " ".join(self.read_patterns.split())
        super().save(*args, **kwargs)

    def names(self) -> list[str]:
        """Give the names of the tools that it selects now, by choice or by pattern, a former name as the present."""
        from tools_catalog.models.aliases import McpAlias
        from tools_catalog.models.definitions import McpToolDefinition

        chosen, patterns = set(self.tools.values_list("name", flat=True)), self.patterns.split()
        if not patterns:
            return sorted(chosen)
        known = [(name, name) for name in McpToolDefinition.objects.values_list("name", flat=True)]
        known += McpAlias.objects.live().filter(tool__isnull=False).values_list("name", "tool__name")
        return sorted(
            chosen | {name for called, name in known if any(fnmatchcase(called, pattern) for pattern in patterns)}
        )

    @property
    def path(self) -> str:
        return f"/mcp/s/{self.slug}"


keep_groups(McpToolset)
