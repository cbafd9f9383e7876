"""The common end of all logins: the second factor if required, the login itself, and its target."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model, login
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme

from mcphub.features.login.factors import holding
from mcphub.features.login.guesses import address_of
from sessions_app.login import events
from sessions_app.login.limits import Attempt
from sessions_app.workspaces import roles

BACKEND = "sessions_app.login.hashing.PasswordBackend"
CAME_BY = "came_by"
"""The name in the session of the way by which its person came: `password`, `passkey`, `provider:<short name>`."""
PENDING_SECONDS = 600
"""So long the second factor may take after the first."""
_PENDING = "login_pending"
_MOST_ADDRESS = 2000


@dataclass(frozen=True, slots=True)
class Way:
    """The method of a login."""

    name: str
    """`password`, `passkey`, `invitation` or `provider:<short name>`."""
    asks_second_factor: bool = True


PASSWORD = Way("password")
PASSKEY = Way("passkey", asks_second_factor=False)


@dataclass(frozen=True, slots=True)
class Pending:
    """A person after the first of two factors, not logged in yet."""

    user: User
    way: str
    next: str


def next_of(request: HttpRequest) -> str:
    """Return the page of this hub that a login leads to, from the address or the form; empty if it is not one."""
    return own_page(str(request.POST.get("next") or request.GET.get("next") or ""))


def own_page(wanted: str) -> str:
    """Return an address of a page of this hub, without a host; empty where it is none, whatever a browser makes of
    it.
    """
    is_own = (
        wanted.startswith("/")
        and wanted[1:2] not in ("/", "\\")
        and wanted.isprintable()
        and len(wanted) <= _MOST_ADDRESS
    )
    return wanted if is_own and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) else ""


def leads_to(user: Any, wanted: str) -> str:
    """Return where a login leads: to the page that was wanted, or to the first page that is open to the person.

    Pages of the console are not open to people without a role.
    """
    page, console = own_page(wanted), reverse("admin:index")
    if page and not page.startswith(console):
        return page
    return (page or console) if roles.opens_console(user) else reverse("my-access")


def enter(request: HttpRequest, user: User, way: Way, wanted: str, attempt: Attempt | None = None) -> HttpResponse:
    """Log an authenticated person in, or ask for the second factor first.

    `attempt` is the counted password attempt: it is forgotten only once the login is complete, so that a known
    password alone does not reset the bound.
    """
    has_factor = way.asks_second_factor and holding.kinds_of(user)
    if not has_factor and not (way.asks_second_factor and holding.is_required(user)):
        if attempt is not None:
            attempt.succeed()
        begin(request, user, way.name)
        return redirect(leads_to(user, wanted))
    if attempt is not None:
        attempt.withdraw()
    request.session[_PENDING] = {
        "user": user.pk,
        "proof": user.get_session_auth_hash(),
        "way": way.name,
        "next": wanted,
        "at": time.time(),
    }
    return redirect("second-factor" if has_factor else "second-factor-app")


def pending(request: HttpRequest) -> Pending | None:
    """Return the person whose second factor this browser awaits; None without one, or after the time limit."""
    kept = request.session.get(_PENDING)
    if not isinstance(kept, dict) or not 0 <= time.time() - kept["at"] <= PENDING_SECONDS:
        return None
    user = get_user_model()._default_manager.filter(pk=kept["user"], is_active=True).first()
    if user is None or not constant_time_compare(kept["proof"], user.get_session_auth_hash()):
        return None
    return Pending(user, kept["way"], kept["next"])


def begin(request: HttpRequest, user: User, way: str, second_factor: str = "") -> None:
    """Open the session, on record. The name is known at this address from now on."""
    request.session.pop(_PENDING, None)
    login(request, user, backend=BACKEND)
    request.session[CAME_BY] = way
    attempt = Attempt(user.get_username(), address_of(request), ())
    if second_factor:
        attempt.succeed()
    events.succeeded(attempt, user, by=way, second_factor=second_factor)
