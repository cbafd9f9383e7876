"""Which people are known to which issuers; an operator takes a link away, or confirms one that a name alone made."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcphub.features.login.models import LinkedIdentity
from sessions_app.kit.admin.base import ReadOnlyAdmin, mark, moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, mono

_LINKED, _LAST = moment("linked_at", _("linked")), moment("last_login_at", _("last login"))


@admin.register(LinkedIdentity)
class LinkedIdentityAdmin(ReadOnlyAdmin):
    list_display = ["shown_person", "shown_issuer", "shown_subject", "shown_by_name", _LINKED, _LAST]
    list_display_links = ["shown_person"]
    list_select_related = ["user"]
    list_filter = ["issuer", "by_name"]
    search_fields = ["user__username", "subject", "issuer", "issuer_name"]
    search_help_text = _("Person, subject or issuer")
    actions = ["confirm_selected", "unlink_selected"]
    fields: ClassVar[Any] = [
        "shown_person",
        "shown_issuer",
        "shown_address",
        "shown_subject",
        "shown_by_name",
        _LINKED,
        _LAST,
    ]

    shown_person = column(_("person"), lambda link: cell(link.user.get_username()), ordering="user__username")
    shown_issuer = column(_("issuer"), lambda link: cell(link.issuer_name), ordering="issuer_name")
    shown_address = column(_("issuer URL"), lambda link: mono(link.issuer))
    shown_subject = column(_("subject"), lambda link: mono(link.subject))
    shown_by_name = column(
        _("logins"),
        lambda link: mark("warn", _t("Unconfirmed: tokens only")) if link.by_name else mark("good", _t("Confirmed")),
        ordering="by_name",
    )

    def has_unlink_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("login.delete_linkedidentity")

    def has_confirm_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("login.change_linkedidentity")

    @admin.action(description=_("Confirm the selected"), permissions=["confirm"])
    def confirm_selected(self, request: HttpRequest, queryset: QuerySet[LinkedIdentity]) -> Any:
        page = self.confirmation_of(
            request,
            queryset,
            "confirm_selected",
            lambda count: ngettext("Confirm %(count)d identity?", "Confirm %(count)d identities?", count),
            _t(
                "These accounts were matched by a name in a token. Confirm them if you know that the subject "
                "is the person: they can then log in through the issuer, with all rights of the account."
            ),
            _t("Confirm"),
            reason=True,
        )
        if page is not None:
            return page
        reason = request.POST.get("reason", "").strip()
        with transaction.atomic():
            links = list(queryset.filter(by_name=True).select_for_update(of=("self",)).select_related("user"))
            for link in links:
                link.confirm(by=request.user, reason=reason)
        words = ngettext("%(count)d identity confirmed.", "%(count)d identities confirmed.", len(links))
        self.message_user(request, words % {"count": len(links)}, messages.SUCCESS)
        return None

    @admin.action(description=_("Unlink the selected"), permissions=["unlink"])
    def unlink_selected(self, request: HttpRequest, queryset: QuerySet[LinkedIdentity]) -> Any:
        page = self.confirmation_of(
            request,
            queryset,
            "unlink_selected",
            lambda count: ngettext("Unlink %(count)d identity?", "Unlink %(count)d identities?", count),
            _t(
                "The subject no longer leads to the account: it can't log in or use tokens of the issuer, "
                "and open client sessions end. If anybody can log in, the same person gets a new account "
                "next time, or is matched by name again. Open logins stay: disable the account to end them."
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
                link.unlink(by=request.user, reason=reason)
        words = ngettext("%(count)d identity unlinked.", "%(count)d identities unlinked.", len(links))
        self.message_user(request, words % {"count": len(links)}, messages.SUCCESS)
        return None
