"""Toolsets: named selections of the catalogue, each served at an endpoint of its own, `/mcp/s/<slug>`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models, transaction
from django.db.models import Q
from django.db.models.signals import m2m_changed
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.history import guarding
from sessions_app.protocol.json import Json
from sessions_app.workspaces.scope import OwnedModel
from tools_catalog.models.content import Switchable, keep_groups
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.models.short_names import SHORT_NAME, check_short_name

if TYPE_CHECKING:
    from tools_catalog.models.definitions import McpToolDefinition

_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]{1,64}")
_READ_PATTERN = re.compile(r"[!-Z\\^-~]{1,500}")
"""Printable ASCII but brackets, which would be sets of characters."""


class McpToolset(OwnedModel, LoadableModel):
    """Which tools a client sees at `/mcp/s/<slug>`, and whether as a list or by searching."""

    GUARDED_LINKS = ("groups", "tools")
    JUDGED_LINKS = ("tools",)
    BOUND = ("slug", "patterns", "enabled")

    class Mode(models.TextChoices):
        LIST = "list", _("List every tool")
        SEARCH = "search", _("Offer search, describe and call")

    class Reads(models.TextChoices):
        ALL = "all", _("Everything in the hub")
        CHOSEN = "chosen", _("Only those chosen below")

    slug = models.CharField(
        _("name"),
        max_length=32,
        unique=True,
        validators=[check_short_name],
        help_text=_("The last part of its address: /mcp/s/NAME"),
    )
    title = models.CharField(_("title"), max_length=200, blank=True)
    description = models.TextField(
        _("description"),
        blank=True,
        help_text=_("Sent to clients as instructions: describe the purpose of these tools."),
    )
    mode = models.CharField(
        _("how clients find the tools"),
        max_length=10,
        choices=Mode,
        default=Mode.LIST,
        help_text=_("Search suits large toolsets: the client sees three tools that find and call the others."),
    )
    tools = models.ManyToManyField(
        "tools_catalog.McpToolDefinition", verbose_name=_("tools"), blank=True, related_name="toolsets"
    )
    patterns = models.TextField(
        _("name patterns"),
        blank=True,
        help_text=_("Includes tools with matching names, later ones too: bitbucket.* tickets.read_?"),
    )
    reads = models.CharField(
        _("prompts and resources"),
        max_length=10,
        choices=Reads,
        default=Reads.ALL,
        help_text=_("Prompts and resources at this address."),
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
        help_text=_(
            "Includes prompts with matching names and resources with matching URIs: review_* docs://handbook/*"
        ),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    groups = models.ManyToManyField(
        Group,
        verbose_name=_("groups"),
        blank=True,
        help_text=_(
            "Groups that can use the address. Leave blank for every caller. The groups of each tool also apply."
        ),
    )
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = Switchable.as_manager()

    wanted_tools: frozenset[int] | None = None
    """Which tools it will have once its links are set."""

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
                words = _("%(pattern)r isn't a valid pattern: enter tool names, * and ?, separated by spaces.")
                problems.setdefault("patterns", words % {"pattern": pattern[:100]})
        for pattern in self.read_patterns.split():
            if not _READ_PATTERN.fullmatch(pattern):
                words = _("%(pattern)r isn't a valid pattern: enter prompt names, URIs, * and ?, separated by spaces.")
                problems.setdefault("read_patterns", words % {"pattern": pattern[:100]})
        if problems:
            raise ValidationError(problems)

    def save(self, *args: object, **kwargs: object) -> None:
        self.patterns = " ".join(self.patterns.split())
        self.read_patterns = " ".join(self.read_patterns.split())
        super().save(*args, **kwargs)

    def hold_back(self, only: Iterable[str] | None = None) -> None:
        from tools_catalog.models import reach

        super().hold_back(only)
        reach.hold_back_toolset(self, None if only is None else set(only))

    def admitted_links(self, links: Mapping[str, Iterable[models.Model]]) -> dict[str, list[models.Model]]:
        from tools_catalog.models import reach

        admitted = super().admitted_links(links)
        if "tools" in admitted:
            admitted["tools"] = reach.admitted_tools(self, admitted["tools"])
        return admitted

    def add_tools(self, tools: Iterable[McpToolDefinition]) -> set[int]:
        """Add tools, and return the keys of all that it has now.

        A tool that a policy would lose by it waits for a second person.
        """
        with transaction.atomic():
            admitted = self.admitted_links({"tools": {*self.tools.all(), *tools}})["tools"]
            self.save()
            chosen = {tool.pk for tool in admitted}
            self.tools.set(chosen)
        return chosen

    def names(self) -> list[str]:
        """Return the names of the tools that it selects now, by choice or by pattern, a former name as the present."""
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


def _refuse_unjudged(instance: models.Model, action: str, pk_set: set[Any] | None, **_: Any) -> None:
    """Refuse a change of a toolset's tools that bypasses `admitted_links`."""
    if action not in ("pre_add", "pre_remove", "pre_clear") or pk_set == set() or not guarding.needs_second_person():
        return
    if isinstance(instance, McpToolset):
        if instance.is_fresh:
            return
        if instance.wanted_tools is not None and pk_set is not None:
            strange = pk_set - instance.wanted_tools if action == "pre_add" else pk_set & instance.wanted_tools
            if not strange:
                return
    raise PermissionDenied("The tools of a toolset are changed on its page: policies may name the toolset.")


m2m_changed.connect(_refuse_unjudged, sender=McpToolset.tools.through, dispatch_uid="judged tools of a toolset")
keep_groups(McpToolset)
