"""The second factors of people; an operator removes lost ones."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcphub.features.login.factors import holding
from mcphub.features.login.models import SecondFactor
from sessions_app.kit.admin.base import ReadOnlyAdmin, moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell

_MADE, _USED = moment("made_at", _("created")), moment("used_at", _("last used"))


@admin.register(SecondFactor)
class SecondFactorAdmin(ReadOnlyAdmin):
    list_display = ["shown_person", "kind", "shown_name", _MADE, _USED]
    list_display_links = ["shown_person"]
    list_filter = ["kind"]
    list_select_related = ["user"]
    search_fields = ["user__username"]
    search_help_text = _("Person")
    actions = ["take_away_selected"]
    fields: ClassVar[Any] = ["shown_person", "kind", "shown_name", _MADE, _USED]

    shown_person = column(_("person"), lambda row: cell(row.user.get_username()), ordering="user__username")
    shown_name = column(_("name"), lambda row: cell(row.name or "-"))

    def has_take_away_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("login.delete_secondfactor")

    @admin.action(description=_("Remove the selected factors"), permissions=["take_away"])
    def take_away_selected(self, request: HttpRequest, queryset: QuerySet[SecondFactor]) -> Any:
        if not request.user.is_superuser:
            queryset = queryset.filter(user__is_superuser=False)
        page = self.confirmation_of(
            request,
            queryset,
            "take_away_selected",
            lambda count: ngettext("Remove %(count)d factor?", "Remove %(count)d factors?", count),
            _t(
                "These people log in without it from now on; where a second factor is required, they add a "
                "new one at the next login. Make sure that the request comes from the person."
            ),
            _t("Remove"),
            reason=True,
            danger=True,
        )
        if page is not None:
            return page
        reason = request.POST.get("reason", "").strip()
        with transaction.atomic():
            count = holding.take_away_all(queryset, reason)
        words = ngettext("%(count)d factor removed.", "%(count)d factors removed.", count)
        self.message_user(request, words % {"count": count}, messages.SUCCESS)
        return None
