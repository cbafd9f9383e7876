"""The accounts that the person has at upstreams, where more can be connected, and the way to end them."""

from __future__ import annotations

from collections.abc import Mapping

from asgiref.sync import async_to_sync
from django.http import Http404, HttpRequest
from django.utils.translation import gettext as _

from mcphub.my_access.parts import Part
from sessions_app.history.events import actor_of
from tools_catalog.accounts import people, signing_in
from tools_catalog.accounts.storing import AccountAt
from tools_catalog.models import HttpService, McpConnection, UpstreamAccount

_MOST = 100


def _rows(request: HttpRequest) -> Mapping[str, object]:
    principal = people.principal_of(request.user)
    rows = UpstreamAccount.objects.filter(principal=principal).select_related("registration", "connection", "service")
    own = {(account.place.of, account.place.pk): account for account in rows[:_MOST]}
    shown: list[dict[str, object]] = []
    for model in (McpConnection, HttpService):
        places = model.objects.filter(enabled=True, account=model.Account.PERSONAL).order_by("slug")
        shown += [
            _shown(place, own.get((place.of, place.pk)))
            for place in places[:_MOST]
            if (place.of, place.pk) in own or people.account_of(place, request.user, is_for_all=False) is not None
        ]
    return {"accounts": shown}


def _shown(place: AccountAt, account: UpstreamAccount | None) -> dict[str, object]:
    is_connected = account is not None and account.state == UpstreamAccount.State.CONNECTED
    return {
        "id": f"{place.of} {place.slug}",
        "slug": place.slug,
        "title": place.title,
        "of": place.of,
        "issuer": account.registration.issuer if account is not None and account.registration is not None else "",
        "is_connected": is_connected,
        "name": account.account_name if is_connected and account is not None else "",
        "state": account.get_state_display() if account is not None else UpstreamAccount.State.WANTED.label,
        "failure": account.failure if account is not None else "",
        "connected_at": account.connected_at if is_connected and account is not None else None,
        "refreshed_at": account.refreshed_at if is_connected and account is not None else None,
    }


def _disconnect(request: HttpRequest) -> str:
    of, _blank, slug = request.POST.get("id", "")[:100].replace("\x00", "").partition(" ")
    if of not in people.PAGES:
        raise Http404
    accounts = UpstreamAccount.objects.select_related("registration", "connection", "service")
    found = accounts.filter(**{f"{of}__slug": slug}, principal=people.principal_of(request.user)).first()
    if found is None:
        raise Http404
    said = async_to_sync(signing_in.disconnect)(found, actor_of(request.user))
    return said or _("Your account at %(name)s is disconnected, and the issuer was notified.") % {"name": slug}


PART = Part("accounts", "me/accounts.html", _rows, {"disconnect": _disconnect})
