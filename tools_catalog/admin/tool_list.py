"""The columns of the list of tools: kind, availability, and usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.admin.base import mark
from sessions_app.kit.admin.ranked import Figure
from sessions_app.kit.shown import breakable, clipped, visible
from tools_catalog import usage
from tools_catalog.admin.figures import FIGURES, FigureColumns
from tools_catalog.admin.switch import SwitchActions
from tools_catalog.catalog.listing import estimated_tokens
from tools_catalog.kinds.registry import KINDS, by_approval
from tools_catalog.models import McpToolDefinition, McpUpstreamTool
from tools_catalog.models.definitions import McpToolDefinitionQuerySet

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

_APPROVAL = {
    "new": ("wait", _("Waiting")),
    "changed": ("wait", _("Change pending")),
    "approved": ("good", _("Approved")),
    "rejected": ("off", _("Rejected")),
    "refused": ("bad", _("Refused")),
    "gone": ("off", _("Gone")),
}


def token_words(rows: McpToolDefinitionQuerySet) -> str:
    """Return the size of the list of these tools for a model."""
    count = number_format(estimated_tokens(rows.characters()), use_l10n=True, force_grouping=True)
    return _t("about %(count)s tokens (estimated: characters / 4)") % {"count": count}


class ToolList(FigureColumns, SwitchActions):
    list_before_template = "admin/hub/tools_size.html"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        size = token_words(McpToolDefinition.objects.all())
        return super().changelist_view(request, {**(extra_context or {}), "tools_size": size})

    list_display = ["shown_name", "source", "state", "version", "effects", "approval", *FIGURES]
    list_display_links = None  # the title stands in the cell of the name, and is no part of the link

    def ranking(self, figure: str) -> Mapping[int, Figure]:
        found = usage.ranking(figure)
        none: Figure | None = (0,) if figure == "calls" else None  # who sorts by calls looks for unused tools, too
        keys = McpToolDefinition.objects.order_by().values_list("pk", "name")
        return {pk: each for pk, name in keys if (each := found.get(name, none)) is not None}

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Return the list with related data of other tables, read for all rows at once."""
        listed = super().get_changelist_instance(request)
        listed.result_list = rows = list(listed.result_list)
        recent = usage.recent([row.name for row in rows]) if usage.may_see(request.user) else {}
        kinds = by_approval()
        offers = McpUpstreamTool.objects.filter(tool__in=[row.pk for row in rows if row.backend in kinds])
        states = dict(offers.values_list("tool", "state"))
        preserved: dict[str, Any] = {"opts": self.opts, "preserved_filters": self.get_preserved_filters(request)}
        for row in rows:
            page = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row.pk])
            row.page = add_preserved_filters(preserved, page)
            row.recent, row.approval_state = recent.get(row.name, usage.Recent()), states.get(row.pk)
        return listed

    def switch_remarks(self, request: HttpRequest, rows: list[Any], enabled: bool) -> Mapping[object, str]:
        if enabled or not usage.may_see(request.user):
            return {}
        found = usage.callers([row.name for row in rows])
        return {row.pk: called_by(found.get(row.name, usage.Callers())) for row in rows}

    @admin.display(description=_("name"), ordering="name")
    def shown_name(self, tool: Any) -> SafeString:
        title = format_html(
            '<br><span class="hub-cell hub-subtle" title="{}">{}</span>',
            clipped(tool.description, 60),
            clipped(tool.title, 60),
        )
        return format_html(
            '<a class="hub-link hub-mono" href="{}">{}</a>{}',
            tool.page,
            breakable(tool.name),
            title if tool.title else "",
        )

    @admin.display(description=_("source"), ordering="backend")
    def source(self, tool: McpToolDefinition) -> SafeString:
        """Return the tool's backend: a function, a service, a connection."""
        kind = KINDS.get(tool.backend)
        behind = kind.source(tool.configuration) if kind is not None and isinstance(tool.configuration, dict) else ""
        return format_html(
            '{}<br><span class="hub-cell hub-subtle" title="{}">{}</span>',
            kind.short_label if kind is not None else tool.backend,
            visible(behind, one_line=True),
            clipped(behind, 60),
        )

    @admin.display(description=_("effects"))
    def effects(self, tool: McpToolDefinition) -> SafeString:
        if tool.read_only:
            what = mark("good", _("Read-only"))
        else:
            what = mark("warn", _("Destructive")) if tool.destructive else mark("edit", _("Writes"))
        more = [_t("idempotent")] if tool.idempotent and not tool.read_only else []
        more += [_t("open world")] if tool.open_world else []
        return format_html('{}<br><span class="hub-subtle">{}</span>', what, ", ".join(more))

    @admin.display(description=_("approval"))
    def approval(self, tool: Any) -> SafeString | str:
        """Return whether the upstream's current offer is the approved one; the hub's own tools need no approval."""
        state = tool.approval_state if hasattr(tool, "approval_state") else _approval_state(tool)
        return mark(*_APPROVAL[state]) if state in _APPROVAL else "–"


def _approval_state(tool: McpToolDefinition) -> str | None:
    if tool.backend not in by_approval():
        return None
    return McpUpstreamTool.objects.filter(tool=tool.pk).values_list("state", flat=True).first()


def called_by(found: usage.Callers) -> str:
    """Return the callers of a tool in recent days."""
    if not found.counted:
        return _t("Not called in the last %(days)d days.") % {"days": usage.DAYS}
    counted = [(clipped(each, 90), number_format(each.calls, force_grouping=True)) for each in found.counted]
    names = ", ".join(f"{name}: {calls}" for name, calls in counted)
    if found.is_whole:
        return _t("Called in the last %(days)d days by %(names)s.") % {"days": usage.DAYS, "names": names}
    return _t("Its newest calls came from %(names)s; there are more in the last %(days)d days.") % {
        "days": usage.DAYS,
        "names": names,
    }
