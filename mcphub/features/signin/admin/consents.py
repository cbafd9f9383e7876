"""The page of clients that people let in. The toolkit's own pages expose internals of the server."""

from __future__ import annotations

from typing import Any, ClassVar

from django.apps import apps
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcphub.features.signin import clients
from mcphub.features.signin.models import Consent, ConsentQuerySet
from sessions_app.kit.admin.base import ReadOnlyAdmin, moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, mono

for _model in apps.get_app_config("oauth2_provider").get_models():
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)

_GIVEN = moment("given_at", _("granted"))


@admin.register(Consent)
class ConsentAdmin(ReadOnlyAdmin):
    list_display = ["shown_person", "shown_client", "shown_endpoint", "shown_scopes", _GIVEN]
    list_display_links = ["shown_person"]
    list_select_related = ["user", "client"]
    search_fields = ["user__username", "client__name"]
    search_help_text = _("Person or client")
    actions = ["revoke_selected"]
    fields: ClassVar[Any] = ["shown_person", "shown_client", "shown_target", "shown_endpoint", "shown_scopes", _GIVEN]

    shown_person = column(_("person"), lambda consent: cell(consent.user.get_username()), ordering="user__username")
    shown_client = column(
        _("client"), lambda consent: cell(f"{consent.client.name or '-'} (client {consent.client_id})")
    )
    shown_target = column(_("redirects to"), lambda consent: cell(_targets(consent)))
    shown_endpoint = column(_("endpoint"), lambda consent: mono(consent.endpoint))
    shown_scopes = column(_("scopes"), lambda consent: consent.scopes)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("signin.delete_consent")

    @admin.action(description=_("Revoke the selected"), permissions=["revoke"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[Consent]) -> Any:
        assert isinstance(queryset, ConsentQuerySet)
        page = self.confirmation_of(
            request,
            queryset,
            "revoke_selected",
            lambda count: ngettext("Revoke %(count)d authorization?", "Revoke %(count)d authorizations?", count),
            _t(
                "The clients can no longer act in the names of these people; their open sessions end. A "
                "client that returns must ask its person again."
            ),
            _t("Revoke"),
            reason=True,
            danger=True,
        )
        if page is not None:
            return page
        done = queryset.revoke(by=request.user, reason=request.POST.get("reason", "").strip())
        words = ngettext("%(count)d authorization revoked.", "%(count)d authorizations revoked.", done)
        self.message_user(request, words % {"count": done}, messages.SUCCESS)
        return None


def _targets(consent: Consent) -> str:
    return ", ".join(sorted({clients.target_of(each) for each in consent.client.redirect_uris.split()}))
