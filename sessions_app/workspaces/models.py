"""Sharing: workspaces, and their groups of people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.history.guarding import GuardedModel, needs_second_person
from sessions_app.workspaces.belonging import ROLES, Workspace

SLUG = r"^[a-z0-9][a-z0-9-]{0,31}\Z"
MOST_WORKSPACES = 500
"""Of a hub. Each is kept by every worker."""


class McpWorkspace(GuardedModel):
    """A team. Its people are those of the groups named here; its rows name it."""

    RECORDED_AS = "workspace"
    UNRECORDED: ClassVar[tuple[str, ...]] = ()
    GUARDED_LINKS = ROLES
    """Members call its tools; the people of the others read bodies, and decide about calls that wait."""
    JUDGED_LINKS = ("members",)

    slug = models.CharField(
        _("name"),
        max_length=32,
        unique=True,
        validators=[
            RegexValidator(SLUG, _("1 to 32 lowercase letters, digits and -, beginning with a letter or digit."))
        ],
        help_text=_("Part of the workspace's address, /w/NAME/mcp, and of its call records. It can't be changed."),
    )
    title = models.CharField(_("title"), max_length=200, blank=True)
    description = models.TextField(_("description"), blank=True, help_text=_("The team's purpose for it."))
    members = models.ManyToManyField(
        Group,
        verbose_name=_("members"),
        blank=True,
        related_name="+",
        help_text=_("Members of these groups call its tools."),
    )
    auditors = models.ManyToManyField(
        Group,
        verbose_name=_("auditors"),
        blank=True,
        related_name="+",
        help_text=_("Members of these groups also read its calls, with arguments and results."),
    )
    operators = models.ManyToManyField(
        Group,
        verbose_name=_("operators"),
        blank=True,
        related_name="+",
        help_text=_(
            "Members of these groups also manage its toolsets, rules and keys, and decide about waiting calls."
        ),
    )
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
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
            words = _t("The hub has %(most)d workspaces, the maximum.") % {"most": MOST_WORKSPACES}
            raise ValidationError({"slug": words})

    def admitted_links(self, links: Mapping[str, Iterable[models.Model]]) -> dict[str, list[models.Model]]:
        """A group is taken out of the members by one person, and let in by two."""
        admitted = super().admitted_links(links)
        if "members" not in admitted or self._state.adding or not needs_second_person():
            return admitted
        wanted, known = admitted["members"], set(self.members.values_list("pk", flat=True))
        kept = [group for group in wanted if group.pk in known]
        if len(kept) < len(wanted):
            self.hold_links("members", kept, wanted, ())
        return {**admitted, "members": kept}

    def delete(self, *args: object, **kwargs: object) -> tuple[int, dict[str, int]]:
        # Calls on record name it: whoever made another of this name would read them.
        raise ValidationError(_t("A workspace can't be deleted: its calls are recorded. Remove its groups instead."))

    @property
    def path(self) -> str:
        return f"/w/{self.slug}/mcp"


for _role in ROLES:
    _through = getattr(McpWorkspace, _role).through
    _through._meta.get_field("group").remote_field.on_delete = models.PROTECT  # who it was for is said by who edits it


def keys_of(groups: Any) -> models.QuerySet[McpWorkspace, int]:
    """Return the keys of the workspaces that people of any of these groups belong to, for a condition."""
    within = Q(members__in=groups) | Q(auditors__in=groups) | Q(operators__in=groups)
    return McpWorkspace._default_manager.filter(within).order_by().values_list("pk", flat=True)


def open_to(groups: Any, relation: str = "") -> Q:
    """Return the condition of visibility for members of these groups: by the groups, and by the workspace of a row."""
    reserved = Q(**{f"{relation}groups": None}) | Q(**{f"{relation}groups__in": groups})
    return reserved & (Q(**{f"{relation}workspace": None}) | Q(**{f"{relation}workspace__in": keys_of(groups)}))


def read_workspaces() -> dict[int, Workspace]:
    """Return the workspaces with their people's groups, by key."""
    groups: dict[int, set[int]] = {}
    for role in ROLES:
        through = getattr(McpWorkspace, role).through
        for workspace, group in through._default_manager.values_list("mcpworkspace_id", "group_id"):
            groups.setdefault(workspace, set()).add(group)
    rows = McpWorkspace._default_manager.values_list("pk", "slug")
    return {pk: Workspace(pk, slug, frozenset(groups.get(pk, ()))) for pk, slug in rows}
