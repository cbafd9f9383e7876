"""Which people come by which provider; an operator takes a link away."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcphub.login.models import LinkedLogin
from sessions_app.kit.admin.base import ReadOnlyAdmin, moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, mono

_LINKED, _LAST = moment("linked_at", _("linked")), moment("last_login_at", _("last login"))


@admin.register(LinkedLogin)
class LinkedLoginAdmin(ReadOnlyAdmin):
    list_display = ["shown_person", "shown_provider", "shown_subject", _LINKED, _LAST]
    list_display_links = ["shown_person"]
    list_select_related = ["user"]
    search_fields = ["user__username", "subject", "provider_name"]
    search_help_text = _("Person, subject or provider")
    actions = ["unlink_selected"]
    fields: ClassVar[Any] = ["shown_person", "shown_provider", "shown_issuer", "shown_subject", _LINKED, _LAST]

    shown_person = column(_("person"), lambda link: cell(link.user.get_username()), ordering="user__username")
    shown_provider = column(_("provider"), lambda link: cell(link.provider_name), ordering="provider_name")
    shown_issuer = column(_("issuer"), lambda link: mono(link.issuer))
    shown_subject = column(_("subject"), lambda link: mono(link.subject))

    def has_unlink_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("login.delete_linkedlogin")

    @admin.action(description=_("Unlink the selected"), permissions=["unlink"])
    def unlink_selected(self, request: HttpRequest, queryset: QuerySet[LinkedLogin]) -> Any:
        page = self.confirmation_of(
            request,
            queryset,
            "unlink_selected",
            lambda count: ngettext("Unlink %(count)d login?", "Unlink %(count)d logins?", count),
            _t(
                "These people can no longer come to their accounts by the provider. Where the provider lets everybody "
                "come, whoever comes again gets a new account. Open sessions stay: switch the account off to end them."
            ),
            _t("Unlink"),
            reason=True,
            danger=True,
        )
        if page is not None:
            return page
        reason = request.POST.get("reason", "").strip()
        with transaction.atomic():
            links = list(queryset.select_for_update(of=("self",)).select_related("user"))
            for link in links:
                link.unlink(reason=reason)
        words = ngettext("%(count)d login unlinked.", "%(count)d logins unlinked.", len(links))
        self.message_user(request, words % {"count": len(links)}, messages.SUCCESS)
        return None
