"""Bulk actions on tools: each asks first, naming them, and then reports the outcome of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from sessions_app.kit.admin.base import is_confirmed, mark
from sessions_app.kit.shown import clipped, visible
from tools_catalog.admin import offers_shown
from tools_catalog.bundles import bundle
from tools_catalog.discovery import reconcile as discovery
from tools_catalog.kinds.registry import by_approval
from tools_catalog.models import McpToolDefinition, McpToolset, McpUpstreamTool

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import HubAdmin as _Pages
else:
    _Pages = object

_Done = tuple[str, str]
"""Kind of the mark and remark: the outcome of one tool."""


class ToolsetForm(forms.Form):
    toolset = forms.ModelChoiceField(McpToolset.objects.all(), label=_("Toolset"), widget=UnfoldAdminSelectWidget)


class LimitsForm(forms.Form):
    timeout_seconds = forms.FloatField(
        label=_("timeout in seconds"),
        required=False,
        widget=UnfoldAdminTextInputWidget,
        validators=[MinValueValidator(0.1), MaxValueValidator(3600)],
        help_text=_("Leave blank to keep the current value. Each changed tool gets a new version."),
    )
    calls_per_minute = forms.IntegerField(
        label=_("calls per minute"),
        required=False,
        min_value=0,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=_("For all callers together. Leave blank to keep the current value. 0: no limit."),
    )

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        if not self.errors and cleaned.get("timeout_seconds") is None and cleaned.get("calls_per_minute") is None:
            raise forms.ValidationError(_("Fill in at least one field."))
        return cleaned


class BulkActions(_Pages):
    bulk_actions: ClassVar[list[str]] = ["approve_selected", "add_to_toolset", "set_limits", "export_selected"]

    @admin.action(description=_("Approve the current offer"), permissions=["approve"])
    def approve_selected(self, request: HttpRequest, queryset: QuerySet[McpToolDefinition]) -> HttpResponse | None:
        page = self._asked_to_approve(request, queryset)
        if page is not None:
            return page

        def approve(tool: McpToolDefinition, reason: str) -> _Done:
            offer = McpUpstreamTool.objects.filter(tool=tool).first()
            if offer is None:
                return "off", _t("This tool doesn't come from an upstream.")
            if offer.state == "approved":
                return "off", _t("unchanged")
            seen = offers_shown.looked_at(request, offer)
            discovery.approve(offer, author=request.user, reason=reason, looked_at=seen)
            return "good", ""

        return self._each(request, queryset, approve)

    def _asked_to_approve(self, request: HttpRequest, queryset: QuerySet[McpToolDefinition]) -> HttpResponse | None:
        """Return the page with the offers to approve, and those left as they are."""
        waiting = McpUpstreamTool.objects.filter(tool__in=queryset).exclude(state__in=["approved", "gone"])
        asked, count = list(waiting.select_related("connection")[: offers_shown.MOST]), waiting.count()
        others = queryset.exclude(pk__in=waiting.values("tool"))
        return self.confirmation(
            request,
            title=ngettext("Approve the offer of %(count)d tool?", "Approve the offers of %(count)d tools?", len(asked))
            % {"count": len(asked)},
            items=(),
            explanation=_t(
                "Clients will see them as the upstream describes them now. Read the differences: models read "
                "descriptions."
            ),
            button=_t("Approve"),
            back=request.get_full_path(),
            action="approve_selected",
            reason=True,
            selected=list(others.values_list("pk", flat=True)),
            template="admin/hub/confirm_offers.html",
            more={
                "offers": offers_shown.shown(asked, {row.pk: row.tool_id for row in asked}),
                "left_out": count - len(asked),
                "others": [(clipped(tool, 80), _t("nothing to approve")) for tool in others[: offers_shown.MOST]],
            },
        )

    @admin.action(description=_("Add to a toolset"), permissions=["toolset"])
    def add_to_toolset(self, request: HttpRequest, queryset: QuerySet[McpToolDefinition]) -> HttpResponse | None:
        form = ToolsetForm(request.POST if is_confirmed(request) else None)
        page = self.confirmation_of(
            request,
            queryset,
            "add_to_toolset",
            lambda count: ngettext("Add %(count)d tool to a toolset?", "Add %(count)d tools to a toolset?", count),
            _t("Clients at its address see them immediately. You can remove them on the toolset's page."),
            _t("Add"),
            form=form,
            reason=True,
        )
        if page is not None:
            return page
        toolset: McpToolset = form.cleaned_data["toolset"]
        there = set(toolset.tools.values_list("pk", flat=True))
        toolset.change_reason = request.POST.get("reason", "")
        chosen = toolset.add_tools(queryset)

        def added(tool: McpToolDefinition, reason: str) -> _Done:
            if tool.pk not in chosen:
                return "off", _t("waits for a second person")
            return ("off", _t("unchanged")) if tool.pk in there else ("good", toolset.path)

        return self._each(request, queryset, added)

    @admin.action(description=_("Set timeout or limit"), permissions=["change"])
    def set_limits(self, request: HttpRequest, queryset: QuerySet[McpToolDefinition]) -> HttpResponse | None:
        form = LimitsForm(request.POST if is_confirmed(request) else None)
        page = self.confirmation_of(
            request,
            queryset,
            "set_limits",
            lambda count: ngettext("Set the limits of %(count)d tool?", "Set the limits of %(count)d tools?", count),
            _t("The values apply from each tool's next call. Versions and history keep the old values."),
            _t("Set"),
            form=form,
            reason=True,
        )
        if page is not None:
            return page
        wanted = {name: value for name, value in form.cleaned_data.items() if value is not None}
        if "calls_per_minute" in wanted:
            wanted["calls_per_minute"] = wanted["calls_per_minute"] or None

        def limit(tool: McpToolDefinition, reason: str) -> _Done:
            changes = [
                f"{name}: {getattr(tool, name)} → {value}"
                for name, value in wanted.items()
                if getattr(tool, name) != value
            ]
            if not changes:
                return "off", _t("unchanged")
            for name, value in wanted.items():
                setattr(tool, name, value)
            tool.change_author, tool.change_reason = request.user, reason
            tool.full_clean()
            tool.save()
            return "good", ", ".join(changes)

        return self._each(request, queryset, limit)

    @admin.action(description=_("Export as a bundle"), permissions=["view"])
    def export_selected(self, request: HttpRequest, queryset: QuerySet[McpToolDefinition]) -> HttpResponse | None:
        def left_out(rows: list[McpToolDefinition]) -> dict[object, str]:
            reason = _t("skipped: upstream tools are approved, not imported")
            return {row.pk: reason for row in rows if row.backend in by_approval()}

        page = self.confirmation_of(
            request,
            queryset,
            "export_selected",
            lambda count: ngettext("Export %(count)d tool?", "Export %(count)d tools?", count),
            _t("You get a file that another hub can import. It names secrets but never contains them."),
            _t("Export"),
            remarks=left_out,
        )
        if page is not None:
            return page
        return download(bundle.dump_tools(queryset), "tools.json")

    def has_approve_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_catalog.approve_mcpupstreamtool")

    def has_toolset_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_catalog.change_mcptoolset")

    # The way all of them go --------------------------------------------------------------------------

    def _each(
        self, request: HttpRequest, queryset: QuerySet[McpToolDefinition], do: Callable[[McpToolDefinition, str], _Done]
    ) -> HttpResponse:
        """Process them one after another, each whole or not at all, and show each outcome."""
        words = {"good": _t("Done"), "off": _t("Unchanged"), "bad": _t("Refused")}
        rows = []
        for tool in queryset:
            try:
                with transaction.atomic():
                    kind, remark = do(tool, request.POST.get("reason", "").strip())
            except discovery.ApprovalRefused as error:
                kind, remark = "bad", visible(error, one_line=True)
            except ValidationError as error:
                kind, remark = "bad", visible(" ".join(error.messages), one_line=True)
            rows.append((clipped(tool.name, 64), mark(kind, words[kind]), remark))
        return self.outcomes_page(request, title=_t("Result"), rows=rows, back=request.get_full_path())


def download(document: object, name: str) -> HttpResponse:
    """Return a JSON document as a file."""
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    return HttpResponse(
        text, content_type="application/json", headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )
