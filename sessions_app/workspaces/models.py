"""WHO shares what: workspaces, and the groups of people that belong to them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.history.recording import RecordedModel
from sessions_app.workspaces.belonging import ROLES, Workspace

SLUG = r"^[a-z0-9][a-z0-9-]{0,31}\Z"
MOST_WORKSPACES = 500
"""Of a hub. Each is kept by every worker."""


class McpWorkspace(RecordedModel):
    """A team. Its people are those of the groups that are named here; what it owns names it."""

    RECORDED_AS = "workspace"
    UNRECORDED: ClassVar[tuple[str, ...]] = ()

    slug = models.CharField(
        _("name"),
        max_length=32,
        unique=True,
        validators=[RegexValidator(SLUG, _("1 to 32 small letters, digits and -, beginning with a letter or digit."))],
        help_text=_("A part of its address, /w/NAME/mcp, and in the record of its calls. It stays."),
    )
    title = models.CharField(_("title"), max_length=200, blank=True)
    description = models.TextField(_("description"), blank=True, help_text=_("What the team does with it."))
    members = models.ManyToManyField(
        Group,
        verbose_name=_("members"),
        blank=True,
        related_name="+",
        help_text=_("Groups whose people call its tools."),
    )
    auditors = models.ManyToManyField(
        Group,
        verbose_name=_("auditors"),
        blank=True,
        related_name="+",
        help_text=_("Groups whose people also read its calls, with arguments and results."),
    )
    operators = models.ManyToManyField(
        Group,
        verbose_name=_("operators"),
        blank=True,
        related_name="+",
        help_text=_("Groups whose people also keep its toolsets, rules and keys, and decide its calls that wait."),
    )
    created_at = models.DateTimeField(_("made"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("workspace")
        verbose_name_plural = _("workspaces")
        ordering = ["slug"]
        constraints = [models.CheckConstraint(condition=Q(slug__regex=SLUG), name="workspace_slug_wellformed")]

    def __str__(self) -> str:
        return self.slug

    def clean(self) -> None:
        if self._state.adding and type(self)._default_manager.count() >= MOST_WORKSPACES:
            words = _t("The hub has %(most)d workspaces, the most there may be.") % {"most": MOST_WORKSPACES}
            raise ValidationError({"slug": words})

    def delete(self, *args: object, **kwargs: object) -> tuple[int, dict[str, int]]:
        # Calls on record name it: whoever made another of this name would read them.
        raise ValidationError(_t("A workspace is not deleted: its calls are on record. Take its groups away."))

    @property
    def path(self) -> str:
        return f"/w/{self.slug}/mcp"


for _role in ROLES:
    _through = getattr(McpWorkspace, _role).through
    _through._meta.get_field("group").remote_field.on_delete = models.PROTECT  # who it was for is said by who edits it


def keys_of(groups: Any) -> models.QuerySet[McpWorkspace, int]:
    """Give the keys of the workspaces that people of any of these groups belong to, for a condition."""
    within = Q(members__in=groups) | Q(auditors__in=groups) | Q(operators__in=groups)
    return McpWorkspace._default_manager.filter(within).order_by().values_list("pk", flat=True)


def read_workspaces() -> dict[int, Workspace]:
    """Give the workspaces with their people's groups, by key."""
    groups: dict[int, set[int]] = {}
    for role in ROLES:
        through = getattr(McpWorkspace, role).through
        for workspace, group in through._default_manager.values_list("mcpworkspace_id", "group_id"):
            groups.setdefault(workspace, set()).add(group)
    rows = McpWorkspace._default_manager.values_list("pk", "slug")
    return {pk: Workspace(pk, slug, frozenset(groups.get(pk, ()))) for pk, slug in rows}
