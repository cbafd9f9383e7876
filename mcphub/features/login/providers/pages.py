"""The way to a provider and back: the started login is kept in a sealed cookie of the browser, not in a row.

So strangers who start logins fill nothing, and an answer counts only in the browser that requested it.
"""

from __future__ import annotations

import hmac
import logging
import time
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_http_methods

from mcphub import error_pages
from mcphub.features.login import entering, invitations, recent
from mcphub.features.login.guesses import address_of, guarded
from mcphub.features.login.invitations import InvitationOver
from mcphub.features.login.models import LoginProvider
from mcphub.features.login.providers import asking, oidc, people, saml
from mcphub.features.login.providers.oidc import LoginRefused, ProviderFault, Started
from sessions_app import endpoints
from sessions_app.login import events, limits
from sessions_app.login.hashing import HubIsBusy, release_connection
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError
from tools_catalog import secrets

logger = logging.getLogger(__name__)

COOKIE = "mcphub_login"
SECONDS = 600
"""So long a person may take at the provider."""
ASSERTED = "mcphub_asserted"
"""Holds a SAML provider's statement between its POST and the page that follows."""
_SECONDS_BETWEEN = 60
_MOST_COOKIE = 3800
"""Browsers keep 4096 bytes of one."""
_PATH = "/login/"
_AAD = "login.started"
_MOST_CODE = 4096


@never_cache
@require_GET
def start(request: HttpRequest, slug: str) -> HttpResponse:
    """Lead to the provider, from the hub's public address, to which the provider leads back."""
    provider = get_object_or_404(LoginProvider, slug=slug, enabled=True)
    public = urlsplit(endpoints.issuer())
    if request.get_host() != public.netloc:
        return HttpResponseRedirect(endpoints.issuer() + request.get_full_path())
    more: dict[str, Any] = {"next": entering.next_of(request)}
    if "link" in request.GET:
        if not recent.has_logged_in(request) or not recent.is_own_link(request, request.GET["link"]):
            return recent.log_in_again()
        more["links_user"] = request.user.pk
    if token := request.GET.get("invitation", "")[:_MOST_CODE]:
        more["invitation"] = invitations.digest_of(token)
    release_connection()
    started = Started.begin(provider.slug, time.time(), **more)
    try:
        if provider.kind == LoginProvider.Kind.SAML:
            number, address = saml.request_of(provider)
            started = replace(started, state=number, nonce=number)
        else:
            metadata = asking.metadata_of(provider.issuer)
            address = oidc.authorization_address(
                metadata, provider.client_id, asking.redirect_uri(provider), provider.scopes, started
            )
    except ProviderFault as fault:
        return _broken(request, provider, fault)
    answer = HttpResponseRedirect(address)
    _remember(answer, started)
    return answer


@never_cache
@csrf_exempt  # a provider's POST comes from its own page; what it brings is signed, and logs nobody in by itself
@require_http_methods(["GET", "POST"])
def back(request: HttpRequest, slug: str) -> HttpResponse:
    """Take the provider's answer, once, in the browser that was sent there."""
    provider = get_object_or_404(LoginProvider, slug=slug, enabled=True)
    again = reverse("login")
    if request.method == "POST":
        if provider.kind != LoginProvider.Kind.SAML:
            return HttpResponseNotAllowed(["GET"])
        posted: HttpResponse = guarded(request, lambda asked: _posted(asked, provider), again)
        return posted
    answer: HttpResponse = guarded(request, lambda asked: _answered(asked, provider), again)
    answer.delete_cookie(COOKIE, path=_PATH)
    answer.delete_cookie(ASSERTED, path=_PATH)
    return answer


@never_cache
@require_GET
def metadata(request: HttpRequest, slug: str) -> HttpResponse:
    """Return the hub's metadata for a SAML provider."""
    provider = get_object_or_404(LoginProvider, slug=slug, enabled=True, kind=LoginProvider.Kind.SAML)
    try:
        return HttpResponse(saml.metadata_of(provider), content_type="application/samlmetadata+xml")
    except ProviderFault as fault:
        return _broken(request, provider, fault)


def _posted(request: HttpRequest, provider: LoginProvider) -> HttpResponse:
    """Judge a response of SAML, and lead on by GET: browsers send the login's cookie with no POST of another site."""
    address = address_of(request)
    attempt = limits.admit(f"\x00{provider.slug} {address}", address)
    release_connection()
    try:
        asserted = saml.judged(provider, request.POST.get("SAMLResponse", ""))
    except ProviderFault as fault:
        attempt.withdraw()
        return _broken(request, provider, fault)
    except LoginRefused as refusal:
        events.refused(provider.slug, provider.name, refusal.code, refusal.detail, address)
        return _refused(provider, refusal)
    attempt.withdraw()
    sealed = _sealed({"provider": provider.slug, **asdict(asserted)})
    if len(sealed) > _MOST_COOKIE:
        return _refused(provider, LoginRefused("assertion", "too long"))
    answer = redirect("login-back", slug=provider.slug)
    answer.status_code = 303
    _set_cookie(answer, ASSERTED, sealed, _SECONDS_BETWEEN)
    return answer


def _of_assertion(request: HttpRequest, provider: LoginProvider, started: Started) -> Any:
    """Return the claims of the assertion that answers this browser's request, once; raise LoginRefused."""
    try:
        kept = json.loads(secrets.decrypt(request.COOKIES.get(ASSERTED, ""), aad=_AAD).encode())
        slug, asserted = kept.pop("provider"), saml.Asserted(**kept)
    except (secrets.SecretError, HubError, TypeError, KeyError) as error:
        raise LoginRefused("cookie", "no answer of a provider") from error
    if slug != provider.slug or not hmac.compare_digest(asserted.request.encode(), started.state.encode()):
        raise LoginRefused("state", "not of this login")
    if asserted.ends + oidc.LEEWAY_SECONDS < time.time():
        raise LoginRefused("late")
    saml.take_once(provider, asserted)
    return asserted.claims


def _answered(request: HttpRequest, provider: LoginProvider) -> HttpResponse:
    try:
        started = _started(request, provider)
        release_connection()
        is_saml = provider.kind == LoginProvider.Kind.SAML
        claims = (_of_assertion if is_saml else _of_code)(request, provider, started)
        if started.links_user is not None:
            if request.user.pk != started.links_user or not isinstance(request.user, get_user_model()):
                raise LoginRefused("person")
            people.link(request.user, provider, claims, started.nonce)
            return redirect("own-login")
        if started.invitation:
            user = people.accepted(started.invitation, provider, claims, started.nonce)
        else:
            user = people.arrived(provider, claims, started.nonce)
    except InvitationOver:
        return _refused(provider, LoginRefused("invitation"))
    except LoginRefused as refusal:
        events.refused(provider.slug, provider.name, refusal.code, refusal.detail, address_of(request))
        return _refused(provider, refusal)
    except ProviderFault as fault:
        return _broken(request, provider, fault)
    way = entering.Way(f"provider:{provider.slug}", provider.asks_second_factor)
    return entering.enter(request, user, way, started.next)


def _of_code(request: HttpRequest, provider: LoginProvider, started: Started) -> Any:
    """Return the claims that a code is redeemed for; raise LoginRefused, ProviderFault."""
    metadata = asking.metadata_of(provider.issuer)
    oidc.check_answer(metadata, started, request.GET.get("state", ""), request.GET.get("iss"))
    if "error" in request.GET or "code" not in request.GET:
        raise LoginRefused("turned_back", request.GET.get("error", "no code")[:60])
    return _counted(request, provider, metadata, started)


def _counted(request: HttpRequest, provider: LoginProvider, metadata: oidc.Metadata, started: Started) -> Any:
    """Redeem the code; failures count for the address, like guesses at a password."""
    code, address = request.GET["code"], address_of(request)
    if len(code) > _MOST_CODE or not code.isprintable():
        raise LoginRefused("code", "cannot be read")
    attempt = limits.admit(f"\x00{provider.slug} {address}", address)
    try:
        claims = asking.claims_for(provider, metadata, code, asking.redirect_uri(provider), started)
    except HubIsBusy:
        attempt.withdraw()
        raise
    attempt.withdraw()
    return claims


# The cookie ----------------------------------------------------------------------------------------------


def _remember(answer: HttpResponse, started: Started) -> None:
    _set_cookie(answer, COOKIE, _sealed(started.as_json()), SECONDS)


def _sealed(said: Any) -> str:
    return secrets.encrypt(json.dumps(said).decode(), aad=_AAD)


def _set_cookie(answer: HttpResponse, name: str, sealed: str, seconds: int) -> None:
    answer.set_cookie(
        name, sealed, max_age=seconds, path=_PATH, secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax"
    )


def _started(request: HttpRequest, provider: LoginProvider) -> Started:
    """Return the login that this browser began; raise LoginRefused."""
    try:
        kept = json.loads(secrets.decrypt(request.COOKIES.get(COOKIE, ""), aad=_AAD).encode())
        started = Started(**kept)
    except (secrets.SecretError, HubError, TypeError) as error:
        raise LoginRefused("cookie", "no login of this browser") from error
    if not 0 <= time.time() - started.started_at <= SECONDS:
        raise LoginRefused("late")
    if started.provider != provider.slug:
        raise LoginRefused("state", "of another provider")
    return replace(started, next=entering.own_page(started.next))


# Pages ---------------------------------------------------------------------------------------------------


def _refused(provider: LoginProvider, refusal: LoginRefused) -> HttpResponse:
    reasons = {
        "cookie": _("This browser didn't start the login, or has started another one since."),
        "late": _("The login took too long."),
        "state": _("The response belongs to another login, or was already used."),
        "turned_back": _("The provider denied the login, or you cancelled it."),
        "code": _("The provider no longer recognizes this login."),
        "groups": _("None of your groups at the provider can use this hub."),
        "invited": _("Only invited people can log in this way."),
        "invitation": _("This invitation was used, has expired, or was withdrawn."),
        "inactive": _("Your account on this hub is disabled."),
        "taken": _("Your account at the provider is linked to another account on this hub."),
        "unconfirmed": _(
            "Your account there matches an account here only by a name in a token. Log in another way and "
            "link it, or ask an operator to confirm it under Linked identities."
        ),
        "person": _("Someone else has logged in since."),
    }
    reason = reasons.get(refusal.code) or _(
        "The hub doesn't accept the provider's statement about you. Contact the operator."
    )
    words = _("%(provider)s: %(reason)s Nobody was logged in.") % {"provider": provider.name, "reason": reason}
    return error_pages.refused_login(words, reverse("login"))


def _broken(request: HttpRequest, provider: LoginProvider, fault: ProviderFault) -> HttpResponse:
    """Show the person that it is not their fault; log the cause for the operator."""
    logger.warning("A login provider cannot be asked: %s", fault, extra={"provider": provider.slug})
    words = _(
        "%(provider)s is not reachable right now. Try again in a minute, or log in another way. Operators: "
        "see the hub's log, or test this provider in the console."
    ) % {"provider": provider.name}
    return error_pages.refused_login(words, reverse("login"), status=502)
