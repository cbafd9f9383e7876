"""The pages of quotas: rows with their usage."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcphub.features.quotas import amounts, usage
from mcphub.features.quotas.amounts import CALLS
from mcphub.features.quotas.filters import QUOTA_FILTERS
from mcphub.features.quotas.forms import QuotaForm
from mcphub.features.quotas.models import McpQuota
from mcphub.features.quotas.quota import ALL, OF_MODELS
from mcphub.features.quotas.usage import QuotaUse
from mcphub.parts import PanelRows
from sessions_app.history import guarding
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, mark, moment
from sessions_app.kit.admin.check import CheckedForm
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import clipped, mono
from tools_catalog.admin.switch import SwitchActions

_CHANGED = moment("updated_at", _("changed"))
_REGISTERED = moment("created_at", _("registered"))
_MOST_ON_OVERVIEW = 5
_MARKS = {"open": ("good", _("Open")), "warns": ("warn", _("Near the limit")), "refuses": ("bad", _("Used up"))}

# An admin is one object for all requests, and the columns of its pages are given the row alone.
_fullest: ContextVar[Mapping[str, QuotaUse]] = ContextVar("the fullest sum of each quota")


@admin.register(McpQuota)
class McpQuotaAdmin(CheckedForm, SwitchActions, RecordedAdmin):
    form = QuotaForm
    checked_fields = ("name", "applies_to", "target", "provider", "soft_limit", "hard_limit")
    list_display = ["shown_name", "per", "shown_about", "shown_where", "shown_limit", "shown_fullest", "state"]
    list_display_links = ["shown_name"]
    filters = QUOTA_FILTERS
    list_select_related = ["person", "key", "group"]
    search_fields = ["name", "target", "provider", "words"]
    search_help_text = _("Name, tools or words")
    actions = ["enable_selected", "disable_selected"]
    actions_list = ["usage_page"]
    readonly_fields = [_REGISTERED, _CHANGED]
    fieldsets = [
        (None, {"fields": ["name", "words"]}),
        (_("How much"), {"fields": ["unit", "period", "soft_limit", "hard_limit"]}),
        (_("For whom"), {"fields": ["per", "person", "key", "group"]}),
        (_("Which calls"), {"fields": ["applies_to", "target", "provider"]}),
        (_("When it applies"), {"fields": ["enabled", _REGISTERED, _CHANGED]}),
    ]

    shown_name = column(_("name"), lambda row: mono(row.name), ordering="name")
    shown_about = column(_("calls of"), lambda row: clipped(row.about, 60) or _t("everybody"))
    shown_where = column(_("applies to"), lambda row: _where(row), ordering="applies_to")
    shown_limit = column(_("limit"), lambda row: limit_words(row))

    @admin.display(description=_("highest usage now"))
    def shown_fullest(self, row: McpQuota) -> SafeString | str:
        use = _fullest.get({}).get(row.name)
        return "-" if use is None else bar(use)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        fullest: dict[str, QuotaUse] = {}
        for use in usage.uses():
            fullest.setdefault(use.quota, use)
        _fullest.set(fullest)
        page: HttpResponse = super().changelist_view(request, extra_context)
        return page

    def get_readonly_fields(self, request: HttpRequest, obj: McpQuota | None = None) -> list[str] | tuple[str, ...]:
        # The record names it, so the name stays. Who may not look for people chooses none.
        of_person = [] if request.user.has_perm("auth.view_user") else ["person"]
        return [*self.readonly_fields, *of_person, *(["name"] if obj is not None else [])]

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        return ["person", "key", "group"] if request.user.has_perm("auth.view_user") else ["key", "group"]

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        may: bool = super().has_delete_permission(request, obj)
        is_loosening = isinstance(obj, McpQuota) and obj.enabled and guarding.needs_second_person()
        return may and not is_loosening  # switching it off is held back for a second person; removing it would not be

    @detail_action(description=_("Usage"), url_path="usage", icon="data_usage")
    def usage_page(self, request: HttpRequest) -> HttpResponse:
        """Show the sums of the windows that are open now, the fullest first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _t("Usage"),
            "rows": [shown(use) for use in usage.uses()],
            "most": usage.MOST_SHOWN,
            "back": reverse("admin:invocations_mcpquota_changelist"),
        }
        return TemplateResponse(request, "admin/hub/quota_usage.html", context)

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        if enabled:
            return (
                ngettext("Enable %(count)d quota?", "Enable %(count)d quotas?", count),
                _t("They take effect within 250 ms and include the calls already counted in this window."),
                ngettext("%(count)d quota enabled: %(names)s.", "%(count)d quotas enabled: %(names)s.", count),
            )
        return (
            ngettext("Disable %(count)d quota?", "Disable %(count)d quotas?", count),
            _t("They stop counting and refusing. Disabling a quota in force needs a second person."),
            ngettext("%(count)d quota disabled: %(names)s.", "%(count)d quotas disabled: %(names)s.", count),
        )


def limit_words(row: McpQuota) -> str:
    """Return the limits of a quota in a line."""
    told = {"period": row.get_period_display().lower(), "unit": row.get_unit_display().lower()}
    limit = row.hard_limit or row.soft_limit or 0
    words = _t("%(amount)s %(unit)s per %(period)s") if row.unit == CALLS else _t("%(amount)s per %(period)s")
    shown = words % {**told, "amount": amounts.shown(limit, row.unit)}
    return shown if row.hard_limit is not None else _t("%(limit)s, warning only") % {"limit": shown}


def bar(use: QuotaUse) -> SafeString:
    """Return how full a sum is, as a bar and in words."""
    return format_html(
        '{} {}<meter class="hub-share" min="0" max="100" value="{}" aria-hidden="true"></meter>',
        _t("%(share)d %%") % {"share": use.share},
        clipped(_subject(use), 60),
        min(100, use.share),
    )


def _where(row: McpQuota) -> str:
    if row.unit in OF_MODELS:
        return row.provider or _t("all providers")
    return f"{row.get_applies_to_display()} {clipped(row.target, 60)}".strip()


def _subject(use: QuotaUse) -> str:
    return use.label or (_t("all together") if use.subject == ALL else use.subject)


def shown(use: QuotaUse) -> dict[str, object]:
    """Return a sum as the console shows it."""
    kind, word = _MARKS[use.state]
    return {
        "quota": use.quota,
        "link": reverse("admin:invocations_mcpquota_change", args=[use.quota_id]),
        "subject": clipped(_subject(use), 90),
        "principal": use.subject,
        "used": amounts.shown(use.used, use.unit),
        "remarks": ", ".join(amounts.remarks(use.estimated, use.unpriced, use.unit)),
        "limit": amounts.shown(use.limit, use.unit),
        "is_soft": use.hard is None,
        "share": use.share,
        "meter": min(100, use.share),
        "state": mark(kind, word),
        "ends_at": timezone.localtime(use.ends_at),
    }


def nearest(request: HttpRequest) -> PanelRows | None:
    """Return the sums closest to their limits, for the overview."""
    if not request.user.has_perm("invocations.view_mcpquota"):
        return None
    found = usage.uses(most=_MOST_ON_OVERVIEW, is_named=False)

    def named(names: Mapping[str, str]) -> dict[str, object]:
        return {"budgets": [shown(replace(use, label=names.get(use.subject, ""))) for use in found]}

    return PanelRows([use.subject for use in found], named) if found else None
