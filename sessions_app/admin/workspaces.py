"""The pages of workspaces: their members by role, and switching into one."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, moment, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, clipped, copyable, mono
from sessions_app.models import McpWorkspace
from sessions_app.workspaces import roles

_MADE, _CHANGED = moment("created_at", _("created")), moment("updated_at", _("changed"))


@admin.register(McpWorkspace)
class McpWorkspaceAdmin(RecordedAdmin):
    list_display = ["shown_slug", "shown_title", "shown_members", "shown_auditors", "shown_operators", _MADE]
    list_display_links = ["shown_slug"]
    search_fields = ["slug", "title", "description"]
    search_help_text = _("Name, title or description")
    page_facts = ("title", "description", "shown_address", "shown_members", "shown_auditors", "shown_operators")
    actions_detail = ["act_in_it"]
    readonly_fields = ["shown_address", _MADE, _CHANGED]
    fieldsets = [
        (None, {"fields": ["slug", "shown_address", "title", "description"]}),
        (_("Who"), {"fields": ["members", "auditors", "operators", _MADE, _CHANGED]}),
    ]

    shown_slug = column(_("name"), lambda row: mono(row.slug), ordering="slug")
    shown_title = column(_("title"), lambda row: clipped(row.title, 80) or "-", ordering="title")
    shown_members = column(_("members"), lambda row: _names(row.members))
    shown_auditors = column(_("auditors"), lambda row: _names(row.auditors))
    shown_operators = column(_("operators"), lambda row: _names(row.operators))

    @admin.display(description=_("address"))
    def shown_address(self, row: McpWorkspace) -> str:
        if not row.pk:
            return _t("Available once the workspace is saved.")
        return copyable(settings.MCPHUB_PUBLIC_URL.rstrip("/") + row.path, "address")

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["widget"] = UnfoldAdminCheckboxSelectMultipleWidget()
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("members", "auditors", "operators")

    def get_readonly_fields(self, request: HttpRequest, obj: McpWorkspace | None = None) -> Any:
        return [*self.readonly_fields, *(["slug"] if obj is not None else [])]

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # its calls are on record

    def has_act_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        is_number = object_id is not None and str(object_id).isdecimal()
        return request.user.is_superuser or (is_number and bool(roles.rights_in(request.user, int(object_id or 0))))

    @detail_action(description=_("Switch to this workspace"), icon="login", url_path="act", permissions=["act"])
    def act_in_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row = row_of(self, request, object_id)
        return redirect(f"{reverse('choose-workspace')}?{urlencode({'to': row.slug})}")


def _names(groups: Any) -> Any:
    return cell(", ".join(group.name for group in groups.all()) or "-")
