"""The page of services: the APIs behind HTTP tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, moment, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import breakable, clipped, mono
from tools_catalog.admin.accounts import shown_accounts
from tools_catalog.admin.switch import SwitchActions
from tools_catalog.filters import tools_of
from tools_catalog.models import HttpService

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

_CHANGED = moment("updated_at", _("changed"))
_REGISTERED = moment("created_at", _("registered"))


@admin.register(HttpService)
class HttpServiceAdmin(SwitchActions, RecordedAdmin):
    list_display = ["shown_slug", "shown_url", "kind", "version", "shown_count", "state", _CHANGED]
    list_display_links = ["shown_slug"]
    list_filter = ["enabled", "kind"]
    list_select_related = False  # no column follows a relation
    search_fields = ["slug", "title", "url"]
    search_help_text = _("Name, title or address")
    actions = ["enable_selected", "disable_selected"]
    actions_detail = ["connect_account", "show_tools"]
    readonly_fields = ["shown_count", "shown_accounts", _REGISTERED, _CHANGED]
    fieldsets = [
        (None, {"fields": ["slug", "title", "enabled"]}),
        (_("Address"), {"fields": ["url", "headers"]}),
        (
            _("Authentication"),
            {
                "fields": [
                    "account",
                    "issuer",
                    "authorization_url",
                    "token_url",
                    "client_id",
                    "client_secret",
                    "account_scopes",
                    "shown_accounts",
                ]
            },
        ),
        (_("Description"), {"fields": ["kind", "version", "shown_count", _REGISTERED, _CHANGED]}),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: HttpService | None = None) -> list[str] | tuple[str, ...]:
        return [*self.readonly_fields, *(["slug"] if obj is not None else [])]

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # tools name it: it is disabled instead

    shown_slug = column(_("name"), lambda row: mono(row.slug), ordering="slug")
    shown_url = column(_("address"), lambda row: breakable(clipped(row.url, 80)), ordering="url")
    shown_count = column(_("tools"), lambda row: str(tools_of(row.slug).count()) if row.pk else "-")

    @admin.display(description=_("accounts"))
    def shown_accounts(self, row: HttpService) -> SafeString | str:
        return shown_accounts(row) if row.pk else "-"

    @detail_action(description=_("Connect an account"), icon="key", url_path="account", permissions=["account"])
    def connect_account(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("service-account-connect", row_of(self, request, object_id).slug)

    def has_account_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        kinds = (HttpService.Account.SHARED, HttpService.Account.PERSONAL)
        row = HttpService.objects.filter(pk=object_id, account__in=kinds).first() if object_id else None
        return row is not None and self.has_change_permission(request, row)

    @detail_action(description=_("Its tools"), icon="build", url_path="its-tools", permissions=["view"])
    def show_tools(self, request: HttpRequest, object_id: str) -> HttpResponse:
        slug = row_of(self, request, object_id).slug
        return redirect(f"{reverse('admin:tools_catalog_mcptooldefinition_changelist')}?service={slug}")

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        if enabled:
            return (
                ngettext("Enable %(count)d service?", "Enable %(count)d services?", count),
                _t("Their tools become available again within 250 ms."),
                ngettext("%(count)d service enabled: %(names)s.", "%(count)d services enabled: %(names)s.", count),
            )
        return (
            ngettext("Disable %(count)d service?", "Disable %(count)d services?", count),
            _t("None of their tools is available. You can enable them again."),
            ngettext("%(count)d service disabled: %(names)s.", "%(count)d services disabled: %(names)s.", count),
        )
