"""The accounts that the person has at upstreams, where more can be connected, and the way to end them."""

from __future__ import annotations

from collections.abc import Mapping

from asgiref.sync import async_to_sync
from django.http import Http404, HttpRequest
from django.utils.translation import gettext as _

from mcphub.me.parts import Part
from sessions_app.history.events import actor_of
from tools_catalog.accounts import people, signing_in
from tools_catalog.models import McpConnection, UpstreamAccount

_MOST = 100


def _rows(request: HttpRequest) -> Mapping[str, object]:
    principal = people.principal_of(request.user)
    own = {
        account.connection_id: account
        for account in UpstreamAccount.objects.filter(principal=principal).select_related("registration")[:_MOST]
    }
    rows = McpConnection.objects.filter(enabled=True, account=McpConnection.Account.PERSONAL).order_by("slug")
    shown = [
        row
        for row in rows[:_MOST]
        if row.pk in own or people.account_of(row, request.user, is_for_all=False) is not None
    ]
    return {"accounts": [_shown(row, own.get(row.pk)) for row in shown]}


def _shown(row: McpConnection, account: UpstreamAccount | None) -> dict[str, object]:
    is_connected = account is not None and account.state == UpstreamAccount.State.CONNECTED
    return {
        "slug": row.slug,
        "title": row.title,
        "issuer": account.registration.issuer if account is not None and account.registration is not None else "",
        "is_connected": is_connected,
        "state": account.get_state_display() if account is not None else UpstreamAccount.State.WANTED.label,
        "failure": account.failure if account is not None else "",
        "connected_at": account.connected_at if is_connected and account is not None else None,
        "refreshed_at": account.refreshed_at if is_connected and account is not None else None,
    }


def _disconnect(request: HttpRequest) -> str:
    accounts = UpstreamAccount.objects.select_related("registration", "connection")
    slug, principal = request.POST.get("id", "")[:100].replace("\x00", ""), people.principal_of(request.user)
    found = accounts.filter(connection__slug=slug, principal=principal).first()
    if found is None:
        raise Http404
    said = async_to_sync(signing_in.disconnect)(found, actor_of(request.user))
    return said or _("Your account at %(name)s is disconnected, and the issuer was told.") % {"name": slug}


PART = Part("accounts", "me/accounts.html", _rows, {"disconnect": _disconnect})
