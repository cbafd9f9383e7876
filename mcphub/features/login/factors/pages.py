"""The pages of second factors: the question after a password, and a person's own factors."""

from __future__ import annotations

import base64
import io
import logging
from typing import Any
from urllib.parse import urlencode

import segno
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from mcphub.features.login import entering, recent
from mcphub.features.login.factors import holding, passkeys, totp
from mcphub.features.login.factors.passkeys import NoPasskey
from mcphub.features.login.guesses import address_of, guarded
from sessions_app.history import events as history
from sessions_app.history import source
from sessions_app.login import events, limits
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError
from tools_catalog import secrets

logger = logging.getLogger(__name__)

COOKIE = "mcphub_passkey"
SECONDS = 300
_APP_SECRET, _ASKED = "new_app_secret", "passkey_asked"
"""Names in the session."""
_PATH, _AAD = "/login/passkey/", "login.passkey"
_MOST_CODE = 64
_MOST_NAME = 60


# After the password --------------------------------------------------------------------------------------


@sensitive_post_parameters()
@csrf_protect
@never_cache
def ask(request: HttpRequest) -> HttpResponse:
    """Ask for the pending second factor."""
    page: HttpResponse = guarded(request, _ask, reverse("login"))
    return page


def _ask(request: HttpRequest) -> HttpResponse:
    waiting = entering.pending(request)
    if waiting is None:
        return redirect("login")
    problem = ""
    if request.method == "POST":
        kind = _checked(request, waiting.user)
        if kind:
            entering.begin(request, waiting.user, waiting.way, kind)
            return redirect(entering.leads_to(waiting.user, waiting.next))
        problem = _("Wrong code. A code is valid for half a minute, and only once.")
    kinds = holding.kinds_of(waiting.user)
    context: dict[str, Any] = {"problem": problem, "has_codes": bool(kinds - {holding.Kind.PASSKEY})}
    if holding.Kind.PASSKEY in kinds and passkeys.are_possible(request):
        options, state = passkeys.question(request, waiting.user)
        request.session[_ASKED] = state
        context["passkey"] = json.dumps(options).decode()
    elif kinds == {holding.Kind.PASSKEY}:
        context["needs_other_address"] = True
    return render(request, "login/second.html", context)


def _checked(request: HttpRequest, user: User) -> str:
    """Return the kind of the presented factor, empty if it is wrong; failures are counted."""
    attempt = limits.admit(f"\x00second {user.pk}", address_of(request))
    answer = request.POST.get("answer", "")
    try:
        if answer:
            passkeys.answered(request, user, request.session.pop(_ASKED, {}), answer)
            kind = str(holding.Kind.PASSKEY)
        else:
            kind = holding.takes_code(user, request.POST.get("code", "")[:_MOST_CODE])
    except (NoPasskey, secrets.SecretError) as error:
        logger.warning("A second factor was not accepted: %s", type(error).__name__, extra={"user": user.pk})
        kind = ""
    if kind:
        attempt.succeed()
    else:
        events.failed(attempt, user, "second factor")
    return kind


# A passkey alone -----------------------------------------------------------------------------------------


@require_POST
@csrf_protect
@never_cache
def passkey_question(request: HttpRequest) -> HttpResponse:
    """Return the browser's request for a passkey of a person not yet identified."""
    options, state = passkeys.question(request, None)
    answer = JsonResponse(options)
    answer.set_cookie(
        COOKIE,
        secrets.encrypt(json.dumps(state).decode(), aad=_AAD),
        max_age=SECONDS,
        path=_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return answer


@require_POST
@csrf_protect
@never_cache
def passkey_login(request: HttpRequest) -> HttpResponse:
    answer: HttpResponse = guarded(request, _passkey_login, reverse("login"))
    answer.delete_cookie(COOKIE, path=_PATH)
    return answer


def _passkey_login(request: HttpRequest) -> HttpResponse:
    address = address_of(request)
    attempt = limits.admit(f"\x00passkey {address}", address)
    wanted = entering.next_of(request)
    try:
        state: Any = json.loads(secrets.decrypt(request.COOKIES.get(COOKIE, ""), aad=_AAD).encode())
        user = passkeys.answered(request, None, state, request.POST.get("answer", ""))
        if not user.is_active:
            raise NoPasskey
    except (NoPasskey, secrets.SecretError, HubError):
        events.failed(attempt, None, "passkey")
        return redirect(f"{reverse('login')}?{urlencode({'next': wanted, 'passkey': 'unknown'})}")
    attempt.withdraw()
    return entering.enter(request, user, entering.PASSKEY, wanted)


# A person's own factors ----------------------------------------------------------------------------------


@sensitive_post_parameters()
@csrf_protect
@never_cache
def add_app(request: HttpRequest) -> HttpResponse:
    """Add an authenticator app: for a logged-in person, or for one who must have it to log in."""
    page: HttpResponse = guarded(request, _add_app, reverse("own-login"))
    return page


def _add_app(request: HttpRequest) -> HttpResponse:
    waiting = entering.pending(request)
    if waiting is not None and (holding.kinds_of(waiting.user) or not holding.is_required(waiting.user)):
        waiting = None  # who has one shows it instead of adding another
    if waiting is None and not recent.has_logged_in(request):
        return recent.log_in_again()
    user: Any = waiting.user if waiting is not None else request.user
    kept: Any = request.session.get(_APP_SECRET)
    is_kept = isinstance(kept, dict) and kept["user"] == user.pk
    secret = kept["secret"] if is_kept else totp.new_secret()
    request.session[_APP_SECRET] = {"secret": secret, "user": user.pk}
    problem = ""
    if request.method == "POST" and is_kept:
        attempt = limits.admit(f"\x00second {user.pk}", address_of(request))
        with source.edits_by(_Own(history.actor_of(user))):
            is_right = holding.add_app(user, secret, request.POST.get("code", "")[:_MOST_CODE])
        attempt.withdraw()
        if is_right:
            request.session.pop(_APP_SECRET, None)
            if waiting is not None:
                entering.begin(request, user, waiting.way, str(holding.Kind.APP))
            return _with_codes(request, user, waiting.next if waiting is not None else reverse("own-login"))
        problem = _("This is not the code that the app shows now. Check the device's clock.")
    address = totp.address_of(secret, "MCP Hub", user.get_username())
    context = {
        "problem": problem,
        "is_required": waiting is not None,
        "address": address,
        "picture": _picture(address),
        "secret": " ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
    }
    return render(request, "login/app.html", context)


@csrf_protect
@never_cache
@login_required(login_url="login")
def add_passkey(request: HttpRequest) -> HttpResponse:
    user: Any = request.user
    if not recent.has_logged_in(request):
        return recent.log_in_again()
    problem = ""
    if not passkeys.are_possible(request):
        problem = _("Browsers store passkeys only for named sites over https, or for localhost. Open the hub there.")
    elif request.method == "POST":
        name = request.POST.get("name", "").strip()[:_MOST_NAME] or _("Passkey")
        try:
            state = request.session.pop(_ASKED, {})
            passkeys.register(request, user, state, request.POST.get("answer", ""), name)
            return _with_codes(request, user, reverse("own-login"))
        except NoPasskey:
            problem = _(
                "The passkey was not saved: the browser's response was not for this page, or you have too many."
            )
    options: dict[str, Any] = {}
    if passkeys.are_possible(request):
        options, request.session[_ASKED] = passkeys.creation(request, user)
    context = {"problem": problem, "passkey": json.dumps(options).decode() if options else ""}
    return render(request, "login/passkey.html", context)


@require_POST
@csrf_protect
@never_cache
@login_required(login_url="login")
def change(request: HttpRequest) -> HttpResponse:
    """Take one factor away, or make new recovery codes."""
    user: Any = request.user
    if not recent.has_logged_in(request):
        return recent.log_in_again()
    if "codes" in request.POST:
        return (
            _with_codes(request, user, reverse("own-login"), again=True)
            if holding.kinds_of(user)
            else redirect("own-login")
        )
    chosen = request.POST.get("take_away", "")
    stays = chosen.isdigit() and len(chosen) < 18 and not holding.take_away(user, int(chosen))
    return redirect(reverse("own-login") + ("?stays=1" if stays else ""))


def _with_codes(request: HttpRequest, user: User, wanted: str, *, again: bool = False) -> HttpResponse:
    """Show recovery codes once, with the first factor or where new ones are wanted; otherwise lead on."""
    onward = entering.leads_to(user, wanted)
    if holding.has_codes(user) and not again:
        return redirect(onward)
    with source.edits_by(_Own(history.actor_of(user))):
        codes = holding.make_codes(user)
    return render(request, "login/codes.html", {"codes": codes, "onward": onward})


class _Own:
    """Stands in for a person who is not logged in yet, for changes to their own settings."""

    is_superuser = False

    def __init__(self, actor: history.Actor) -> None:
        self.actor = actor


def _picture(address: str) -> str:
    """Return the picture of an address as a `data:` address, which the content security policy lets pages show."""
    drawn = io.BytesIO()
    segno.make(address, error="m").save(drawn, kind="svg", scale=4, border=4, dark="#000", light="#fff")
    return "data:image/svg+xml;base64," + base64.b64encode(drawn.getvalue()).decode()
