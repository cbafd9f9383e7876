"""What all ways into the hub end in: where a login leads, and the login itself, on record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from mcphub.login.guesses import address_of
from sessions_app.login import events
from sessions_app.login.limits import Attempt

BACKEND = "sessions_app.login.hashing.PasswordBackend"
CAME_BY = "came_by"
"""The name in the session of the way by which its person came: `password`, or `provider:<short name>`."""
_MOST_ADDRESS = 2000


@dataclass(frozen=True, slots=True)
class Way:
    """How somebody showed who they are."""

    name: str
    """`password`, `passkey` or `provider:<short name>`."""
    asks_second_factor: bool = True


PASSWORD = Way("password")


def next_of(request: HttpRequest) -> str:
    """Give the page of this hub that a login leads to, as the address or the form says it; empty where it is none."""
    return own_page(str(request.POST.get("next") or request.GET.get("next") or ""))


def own_page(wanted: str) -> str:
    """Give an address of a page of this hub, without a host; empty where it is none, whatever a browser makes of it."""
    is_own = wanted.startswith("/") and wanted.isprintable() and len(wanted) <= _MOST_ADDRESS
    return wanted if is_own and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) else ""


def leads_to(user: Any, wanted: str) -> str:
    """Give where a login leads: to the page that was wanted, or to the first page that is open to the person."""
    return own_page(wanted) or reverse("admin:index" if user.is_staff else "own-login")


def enter(request: HttpRequest, user: User, way: Way, wanted: str, attempt: Attempt | None = None) -> HttpResponse:
    """Log somebody in who showed who they are, and lead on. `attempt` is what their password was counted in."""
    if attempt is not None:
        attempt.succeed()
    return begin(request, user, way, wanted)


def begin(request: HttpRequest, user: User, way: Way, wanted: str, second_factor: str = "") -> HttpResponse:
    """Open the session, on record."""
    login(request, user, backend=BACKEND)
    request.session[CAME_BY] = way.name
    attempt = Attempt(user.get_username(), address_of(request), ())
    events.succeeded(attempt, user, by=way.name, second_factor=second_factor)
    return redirect(leads_to(user, wanted))
