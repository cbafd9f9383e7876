"""The records of each login and logout, through any page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.http import HttpRequest

from sessions_app.login import events
from sessions_app.login.session_store import ADDRESS, OPENED_AT, PROGRAM

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User


def connect() -> None:
    user_logged_in.connect(_begin, dispatch_uid="login begins")
    user_logged_out.connect(_end, dispatch_uid="login ends")


def _begin(sender: object, request: HttpRequest, **_: object) -> None:
    request.session[OPENED_AT] = time.time()
    request.session[ADDRESS] = str(request.META.get("REMOTE_ADDR") or "")[:64]
    request.session[PROGRAM] = str(request.META.get("HTTP_USER_AGENT") or "")[:200]


def _end(sender: object, request: HttpRequest, user: User | AnonymousUser, **_: object) -> None:
    if user is not None:
        events.ended(user, request.META.get("REMOTE_ADDR", ""))
