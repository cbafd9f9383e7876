"""Changes to login methods require a recent login: an abandoned session gives nobody a way in."""

from __future__ import annotations

import time
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac

from sessions_app.login.session_store import OPENED_AT

SECONDS = 900


def has_logged_in(request: HttpRequest) -> bool:
    opened_at = request.session.get(OPENED_AT, 0)
    return request.user.is_authenticated and time.time() - opened_at < SECONDS


def token(request: HttpRequest) -> str:
    """Return the token of a link that changes login methods, so that no other page can create one.

    A form cannot lead to a provider: the content security policy judges where a form is redirected, too.
    """
    return salted_hmac("login.link", request.session.session_key or "", algorithm="sha256").hexdigest()


def is_own_link(request: HttpRequest, given: str) -> bool:
    return bool(request.session.session_key) and constant_time_compare(given, token(request))


def log_in_again() -> HttpResponse:
    return redirect(f"{reverse('login')}?{urlencode({'next': reverse('own-login'), 'again': 1})}")
