"""The inbox of upstream offers: differences side by side, approved or rejected, one by one or in bulk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, is_confirmed, mark, moment, names_and_count
from sessions_app.kit.admin.difference import difference
from sessions_app.kit.admin.parts import column
from sessions_app.kit.admin.row_page import PagePart, PageWaiting, adds_to_page
from sessions_app.kit.shown import cell, clipped, mono, pretty, visible
from tools_catalog.admin import offers_shown
from tools_catalog.detectors.definitions import sentence
from tools_catalog.discovery import proposals
from tools_catalog.discovery import reconcile as discovery
from tools_catalog.filters import OFFER_FILTERS
from tools_catalog.models import McpConnection, McpToolDefinition, McpUpstreamTool

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

STATE_MARKS = {"new": "wait", "changed": "warn", "approved": "good", "rejected": "off", "refused": "bad", "gone": "off"}
_ON_A_PAGE = 10
"""Offers that wait, on the page of a connection."""
_SEEN = moment("seen_at", _("last changed"))
_DECIDED = moment("decided_at", _("decided"))


@admin.register(McpUpstreamTool)
class McpUpstreamToolAdmin(RecordedAdmin):
    list_display = ["shown_name", "kind", "connection", "shown_here", "shown_state", "listed_remark", _SEEN]
    sortable_by = ()
    list_display_links = ["shown_name"]
    filters = OFFER_FILTERS
    list_select_related = ["connection", "tool", "resource", "prompt"]
    search_fields = ["upstream_name", "name"]
    actions = ["approve_selected", "reject_selected"]
    actions_detail = ["approve_it", "reject_it"]
    change_form_before_template = "admin/hub/upstream_tool.html"
    readonly_fields = [
        "connection",
        "kind",
        "shown_name",
        "shown_state",
        "shown_remark",
        "shown_served",
        _SEEN,
        _DECIDED,
        "decided_by",
    ]
    fieldsets = [
        (
            None,
            {
                "fields": [
                    "connection",
                    "kind",
                    "shown_name",
                    "name",
                    "shown_state",
                    "shown_remark",
                    "shown_served",
                    _SEEN,
                    _DECIDED,
                    "decided_by",
                ]
            },
        )
    ]

    shown_name = column(_("name there"), lambda row: mono(row.upstream_name[:100]), ordering="upstream_name")
    shown_here = column(_("name here"), lambda row: mono(_name_of(row)[:100]), ordering="name")
    shown_state = column(
        _("state"), lambda row: mark(STATE_MARKS[row.state], McpUpstreamTool.State(row.state).label), ordering="state"
    )

    @admin.display(description=_("note"))
    def listed_remark(self, row: McpUpstreamTool) -> SafeString:
        return cell(self.shown_remark(row))

    @admin.display(description=_("note"))
    def shown_remark(self, row: McpUpstreamTool) -> str:
        if row.state == "refused":
            return visible(row.refusal, one_line=True)
        if row.warnings:
            return _t("Review carefully: %(kinds)s") % {"kinds": sentence(row.warnings)}
        if row.renamed_from:
            return _t("formerly %(name)s") % {"name": clipped(row.renamed_from, 80)}
        if remarks := proposals.remarks_of(row):
            return visible("; ".join(remarks), one_line=True)[:1000]
        changed = sorted(discovery.overrides(row))
        return _t("Changed in the hub: %(fields)s") % {"fields": ", ".join(changed)} if changed else "-"

    @admin.display(description=_("available as"))
    def shown_served(self, row: McpUpstreamTool) -> SafeString | str:
        served = row.served
        if served is None:
            return "-"
        link = reverse(f"admin:{served._meta.app_label}_{served._meta.model_name}_change", args=[served.pk])
        return format_html('<a class="hub-link" href="{}">{}</a>', link, clipped(_name_of(row), 100))

    def get_readonly_fields(
        self, request: HttpRequest, obj: McpUpstreamTool | None = None
    ) -> list[str] | tuple[str, ...]:
        # Once it is served, its name is changed there; a URI never is.
        keeps_name = obj is not None and (obj.served is not None or obj.kind not in ("tool", "prompt"))
        return [*self.readonly_fields, *(["name"] if keeps_name else [])]

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_approve_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("tools_catalog.approve_mcpupstreamtool")

    def save_model(self, request: HttpRequest, obj: McpUpstreamTool, form: ModelForm[Model], change: bool) -> None:
        obj.refusal = discovery.refusal_of(obj)  # under its new name it may be another
        super().save_model(request, obj, form, change)

    def beside(self, request: HttpRequest, row: McpUpstreamTool) -> dict[str, object]:
        approved = row.approved if row.approved_digest else {}
        overridden = discovery.overrides(row).items()
        return {
            "fields": offers_shown.differences(approved, row),
            "is_first": not approved,
            "warnings": sorted(row.warnings.items()),
            "whole": pretty(row.seen),
            "overridden": [(name, difference({name: theirs}, {name: ours})) for name, (theirs, ours) in overridden],
        }

    # Decisions ---------------------------------------------------------------------------------------

    @detail_action(description=_("Approve"), icon="check_circle", url_path="approve-it", permissions=["approve"])
    def approve_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        rows = McpUpstreamTool.objects.filter(pk=get_object_or_404(McpUpstreamTool, pk=object_id).pk)
        back = reverse("admin:tools_catalog_mcpupstreamtool_change", args=[object_id])
        return self._decide(request, rows, True, back) or redirect(back)

    @detail_action(description=_("Reject"), icon="cancel", url_path="reject-it", permissions=["approve"])
    def reject_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        rows = McpUpstreamTool.objects.filter(pk=get_object_or_404(McpUpstreamTool, pk=object_id).pk)
        back = reverse("admin:tools_catalog_mcpupstreamtool_change", args=[object_id])
        return self._decide(request, rows, False, back) or redirect(back)

    @admin.action(description=_("Approve the selected definitions"), permissions=["approve"])
    def approve_selected(self, request: HttpRequest, queryset: QuerySet[McpUpstreamTool]) -> HttpResponse | None:
        return self._decide(request, queryset, True, request.get_full_path(), "approve_selected")

    @admin.action(description=_("Reject the selected definitions"), permissions=["approve"])
    def reject_selected(self, request: HttpRequest, queryset: QuerySet[McpUpstreamTool]) -> HttpResponse | None:
        return self._decide(request, queryset, False, request.get_full_path(), "reject_selected")

    def _decide(
        self, request: HttpRequest, queryset: QuerySet[McpUpstreamTool], approves: bool, back: str, action: str = ""
    ) -> HttpResponse | None:
        rows = queryset.exclude(state__in=["approved", "gone"]).select_related("connection")
        names, count = names_and_count(rows)
        asked = list(rows[: offers_shown.MOST]) if approves and not is_confirmed(request) else []
        if approves:
            title = ngettext("Approve %(count)d definition?", "Approve %(count)d definitions?", count)
            explanation = _t(
                "Clients will see and use them as the upstream describes them now. Edits made in the hub "
                "stay. Read the differences: models read descriptions."
            )
        else:
            title = ngettext("Reject %(count)d definition?", "Reject %(count)d definitions?", count)
            explanation = _t(
                "Rejected definitions are not available. If the upstream changes one again, it waits for a "
                "new decision."
            )
        page = self.confirmation(
            request,
            title=title % {"count": len(asked) or count},
            items=names,
            explanation=explanation,
            reason=approves,
            template="admin/hub/confirm_offers.html" if approves else "admin/hub/confirm.html",
            more={"offers": offers_shown.shown(asked), "left_out": count - len(asked)},
            button=_t("Approve") if approves else _t("Reject"),
            back=back,
            action=action,
            danger=not approves,
            selected=list(rows.values_list("pk", flat=True)) if action and not approves else (),
        )
        if page is not None:
            return page
        done = 0
        for row in rows:
            try:
                if approves:
                    seen, reason = offers_shown.looked_at(request, row), request.POST.get("reason", "")
                    discovery.approve(row, author=request.user, reason=reason, looked_at=seen)
                else:
                    discovery.reject(row, author=request.user)
            except discovery.ApprovalRefused as error:
                words = f"{clipped(row.upstream_name, 64)}: {visible(error, one_line=True)}"
                self.message_user(request, words, messages.ERROR)
            else:
                done += 1
        if approves:
            message = ngettext("%(count)d definition approved.", "%(count)d definitions approved.", done)
        else:
            message = ngettext("%(count)d definition rejected.", "%(count)d definitions rejected.", done)
        self.message_user(request, message % {"count": done}, messages.SUCCESS if done else messages.WARNING)
        return None


def _name_of(row: McpUpstreamTool) -> str:
    """The name by which clients ask for it, or would."""
    served = row.served
    if served is None:
        return row.name
    return str(served.uri if hasattr(served, "uri") else served.name)


@adds_to_page(McpConnection, McpToolDefinition, place=40)
def waiting_offers(request: HttpRequest, row: Model) -> Iterator[PagePart]:
    """Yield the offers of a connection, or the one of a tool, that wait for approval."""
    if not request.user.has_perm("tools_catalog.view_mcpupstreamtool"):
        return
    of: dict[str, Any] = {"connection" if isinstance(row, McpConnection) else "tool": row.pk}
    for offer in McpUpstreamTool.objects.filter(**of, state__in=("new", "changed"))[:_ON_A_PAGE]:
        name = clipped(offer.upstream_name, 64)
        words = _t("%(name)s is new.") if offer.state == "new" else _t("%(name)s changed at its server.")
        yield PageWaiting(
            words % {"name": name}, reverse("admin:tools_catalog_mcpupstreamtool_change", args=[offer.pk])
        )
