"""The pages around connecting an account: the hub's own page before the issuer's, and the one after it."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode, urlsplit

from asgiref.sync import async_to_sync
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from mcphub import content_security
from mcphub.process import runtime
from sessions_app.history.events import Actor, actor_of
from sessions_app.kit.shown import clipped
from tools_catalog.accounts import people, signing_in, storing
from tools_catalog.accounts.clients import document as client_document
from tools_catalog.accounts.clients import document_address
from tools_catalog.accounts.storing import AccountAt
from tools_catalog.call import addresses
from tools_catalog.models.accounts import PendingAuthorization, UpstreamAccount
from tools_catalog.models.services import HttpService
from tools_catalog.models.upstream import McpConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User


@require_safe
def document(request: HttpRequest, mark: str = "") -> HttpResponse:
    """The hub as a client, for issuers that read it by its address."""
    if not document_address():
        raise Http404
    return JsonResponse(client_document(mark), headers={"Cache-Control": "public, max-age=3600"})


def _of_person(page: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Require a login; people without one log in first and return."""

    @wraps(page)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated or not request.user.is_active:
            return redirect(_login(request.get_full_path()))
        return page(request, *args, **kwargs)

    return never_cache(guarded)


@require_http_methods(["GET", "POST"])
@_of_person
def connect(request: HttpRequest, slug: str, of: str) -> HttpResponse:
    """Show the account and the server to connect; a POST leads to the issuer."""
    row, principal, is_for_all = _asked(request, slug, of)
    if principal is None:
        raise Http404  # as of a name that nothing has
    actor = actor_of(cast("User", request.user))
    try:
        elicitation_id = people.elicitation_of(request.GET["link"], row, principal) if "link" in request.GET else ""
        if request.method == "POST":
            begun = async_to_sync(signing_in.begin)(row, principal, actor, elicitation_id=elicitation_id)
            return _leading_to(redirect(begun.address), begun.address)
        found = async_to_sync(signing_in.look)(row, principal)
    except people.LinkRefused as error:
        return _problem(request, str(error), 403)
    except signing_in.FAILURES as error:
        return _problem(request, str(error), 502, again=request.get_full_path())
    stored = storing.account_at(row, principal)
    context = {
        "place": row,
        "server": urlsplit(row.url).netloc,
        "issuer": found.issuer,
        "scopes": found.scopes,
        "is_for_all": not principal,
        "is_personal": row.account == row.Account.PERSONAL,
        "account": stored if stored is not None and stored.state == UpstreamAccount.State.CONNECTED else None,
        "person": request.user.get_username(),
        "other_login": _login(request.get_full_path()),
        "end": f"{address_of(row, 'end')}{'?as=all' if is_for_all else ''}",
    }
    return _leading_to(render(request, "connect/ask.html", context), found.address)


@require_safe
@never_cache
def come_back(request: HttpRequest, mark: str = "") -> HttpResponse:
    """Where issuers send people back to. The code leaves the address at once."""
    if not request.user.is_authenticated or not request.user.is_active:
        words = _("You are not logged in here. Nothing was connected. Log in, and connect again in the same browser.")
        return _problem(request, words, 403)
    try:
        pending = async_to_sync(signing_in.finish)(request.META.get("QUERY_STRING", ""), _actor(request), mark)
    except signing_in.NotRedeemed as error:
        return _problem(request, str(error), 400, again=_beginning(error.pending))
    except signing_in.FAILURES as error:
        return _problem(request, str(error), 400)
    hub = runtime.current()
    if hub is not None and pending.principal and isinstance(pending.place, McpConnection):
        hub.connected(pending.place.slug, pending.principal)
    if pending.elicitation_id:
        addresses.completed(pending.elicitation_id)
    where = address_of(pending.place, "done")
    return redirect(where if pending.principal else f"{where}?as=all")


def _beginning(pending: PendingAuthorization) -> str:
    where = address_of(pending.place, "connect")
    return where if pending.principal else f"{where}?as=all"


@require_safe
@_of_person
def done(request: HttpRequest, slug: str, of: str) -> HttpResponse:
    row, principal, is_for_all = _asked(request, slug, of)
    stored = storing.account_at(row, principal) if principal is not None else None
    if stored is None:
        raise Http404
    back = reverse(f"admin:tools_catalog_{row._meta.model_name}_change", args=[row.pk]) if is_for_all else ""
    is_connected = stored.state == UpstreamAccount.State.CONNECTED
    return render(request, "connect/done.html", {"place": row, "is_connected": is_connected, "back": back})


@require_POST
@_of_person
def disconnect(request: HttpRequest, slug: str, of: str) -> HttpResponse:
    """End the person's own account, or the one that all share."""
    row, principal, is_for_all = _asked(request, slug, of)
    stored = storing.account_at(row, principal) if principal is not None else None
    if stored is None:
        raise Http404
    said = async_to_sync(signing_in.disconnect)(stored, _actor(request))
    if said:
        return _problem(request, _("The account is disconnected here. %(issuer)s") % {"issuer": said}, 200)
    return redirect(f"{address_of(row, 'done')}{'?as=all' if is_for_all else ''}")


def address_of(place: AccountAt, page: str) -> str:
    """Return the address of a page of the place: connect, done or end."""
    before = "" if isinstance(place, McpConnection) else "service-"
    return reverse(f"{before}account-{page}", args=[place.slug])


def _asked(request: HttpRequest, slug: str, of: str) -> tuple[AccountAt, str | None, bool]:
    """Return the place, the principal of the account that the person may connect, and whether it is for all."""
    row: AccountAt
    if of == HttpService.of:
        row = get_object_or_404(HttpService, slug=slug)
    else:
        row = get_object_or_404(McpConnection, slug=slug)
    is_for_all = request.GET.get("as") == "all" or row.account == row.Account.SHARED
    return row, people.account_of(row, request.user, is_for_all=is_for_all), is_for_all


def _actor(request: HttpRequest) -> Actor:
    return actor_of(cast("User", request.user))


def _login(path: str) -> str:
    page = reverse("sign-in") if settings.MCPHUB_SIGN_IN else reverse("admin:login")
    return f"{page}?{urlencode({'next': path})}"


def _problem(request: HttpRequest, words: str, status: int, again: str = "") -> HttpResponse:
    return render(request, "connect/problem.html", {"words": clipped(words, 1000), "again": again}, status=status)


def _leading_to(response: HttpResponse, address: str) -> HttpResponse:
    parts = urlsplit(address)
    response["Content-Security-Policy"] = content_security.leading_to(f"{parts.scheme}://{parts.netloc}")
    return response
