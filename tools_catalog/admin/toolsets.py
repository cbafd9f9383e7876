"""The page of toolsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from django.conf import settings
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import clipped, mono, visible
from sessions_app.workspaces.pages import WorkspacePages
from tools_catalog.admin.switch import SwitchActions
from tools_catalog.admin.tool_list import token_words
from tools_catalog.filters import TOOLSET_FILTERS
from tools_catalog.models import McpToolDefinition, McpToolset, reach

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

_CHANGED = moment("updated_at", _("changed"))
_REGISTERED = moment("created_at", _("registered"))
_MOST_SHOWN = 200
_Found = TypeVar("_Found")


@admin.register(McpToolset)
class McpToolsetAdmin(WorkspacePages, SwitchActions, RecordedAdmin):
    workspace_pages = ("changelist", "add", "change", "delete", "switch", "history", "history_entry")
    other_workspace_pages = ("autocomplete",)
    list_display = ["shown_slug", "shown_title", "mode", "shown_count", "state", _CHANGED]
    list_display_links = ["shown_slug"]
    filters = TOOLSET_FILTERS
    list_select_related = False  # no column follows a relation
    search_fields = ["slug", "title", "description"]
    search_help_text = _("Name, title or description")
    autocomplete_fields = ["tools", "prompts", "resources", "groups"]
    page_facts = (
        "title",
        "description",
        "shown_address",
        "state",
        "mode",
        "shown_tools",
        "shown_tokens",
        "shown_policies",
    )
    actions = ["enable_selected", "disable_selected"]
    readonly_fields = ["shown_address", "shown_tools", "shown_tokens", "shown_policies", _REGISTERED, _CHANGED]
    fieldsets = [
        (_("What clients see"), {"fields": ["slug", "shown_address", "title", "description", "mode"]}),
        (_("Its tools"), {"fields": ["tools", "patterns", "shown_tools", "shown_tokens", "shown_policies"]}),
        (_("Its prompts and resources"), {"fields": ["reads", "prompts", "resources", "read_patterns"]}),
        (_("Access"), {"fields": ["enabled", "workspace", "groups", _REGISTERED, _CHANGED]}),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: McpToolset | None = None) -> list[str] | tuple[str, ...]:
        # Clients are configured with the address, so the name stays.
        return [*self.readonly_fields, *(["slug"] if obj is not None else [])]

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        may: bool = super().has_delete_permission(request, obj)
        return may and not (
            isinstance(obj, McpToolset) and _once(obj, "losses", lambda: (reach.losses_without(obj),))[0]
        )

    shown_slug = column(_("name"), lambda row: mono(row.slug), ordering="slug")
    shown_title = column(_("title"), lambda row: clipped(row.title, 80) or "-", ordering="title")
    shown_address = column(
        _("address"),
        lambda row: (
            mono(settings.MCPHUB_PUBLIC_URL.rstrip("/") + row.path)
            if row.pk
            else _t("Available once the workspace is saved.")
        ),
    )
    shown_count = column(_("tools"), lambda row: str(len(_names(row))))

    @admin.display(description=_("current tools"))
    def shown_tools(self, row: McpToolset) -> SafeString | str:
        names = _names(row) if row.pk else []
        if not names:
            return _t("None.")
        shown = [visible(name, one_line=True) for name in names[:_MOST_SHOWN]]
        more = len(names) - len(shown)
        words = ", ".join(shown) + (" " + _t("and %(count)d more") % {"count": more} if more else "")
        return format_html('<span class="hub-mono">{}</span>', words)

    @admin.display(description=_("policies in force"))
    def shown_policies(self, row: McpToolset) -> str:
        return _once(row, "policies", lambda: _policies(row)) if row.pk else _t("None.")

    @admin.display(description=_("size of the list"))
    def shown_tokens(self, row: McpToolset) -> str:
        if not row.pk:
            return _t("Available once the workspace is saved.")
        all_of_them = _once(row, "tokens", lambda: token_words(McpToolDefinition.objects.filter(name__in=_names(row))))
        if row.mode == McpToolset.Mode.SEARCH:
            return _t("Three tools. The full list would be %(size)s.") % {"size": all_of_them}
        return all_of_them

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        if enabled:
            return (
                ngettext("Enable %(count)d toolset?", "Enable %(count)d toolsets?", count),
                _t("Clients can use their addresses again within 250 ms."),
                ngettext("%(count)d toolset enabled: %(names)s.", "%(count)d toolsets enabled: %(names)s.", count),
            )
        return (
            ngettext("Disable %(count)d toolset?", "Disable %(count)d toolsets?", count),
            _t("Their addresses return 404. The tools stay as they are."),
            ngettext("%(count)d toolset disabled: %(names)s.", "%(count)d toolsets disabled: %(names)s.", count),
        )


def _once(row: McpToolset, what: str, find: Callable[[], _Found]) -> _Found:
    """Find something of a row once a request: the page asks for each of its columns several times."""
    found: _Found = vars(row).setdefault("_of_page", {}).get(what) or find()
    vars(row)["_of_page"][what] = found
    return found


def _names(row: McpToolset) -> list[str]:
    """Return the names of the tools that the row selects now, by choice or by pattern."""
    return _once(row, "names", row.names)


def _policies(row: McpToolset) -> str:
    named = reach.naming(row)
    if not named:
        return _t("None.")
    words = _t(
        "%(named)s. A change that would take a tool out of their reach waits for a second person unless a superuser "
        "makes it."
    )
    return words % {"named": ", ".join(named)}
