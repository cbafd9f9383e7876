"""What every login form of the hub does with an attempt, so that passwords cannot be guessed at."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils import timezone

from mcphub import error_pages
from sessions_app.login import events, limits
from sessions_app.login.hashing import HubIsBusy
from sessions_app.login.limits import Attempt, TooManyGuesses

_MOST_NAME = 150
"""Characters of a name; Django's accounts have no longer one."""


class CountedLogin:
    """Beside Django's AuthenticationForm: counts an attempt before the password is looked at.

    Raises TooManyGuesses or HubIsBusy from `clean`. Whoever goes on from a valid form settles its `attempt`.
    """

    request: Any
    cleaned_data: dict[str, Any]
    get_user: Callable[[], Any]
    attempt: Attempt | None = None

    def clean(self) -> dict[str, Any]:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        form: Any = super()
        if not name or not password:
            cleaned: dict[str, Any] = form.clean()
            return cleaned
        attempt = limits.admit(name, address_of(self.request))
        try:
            cleaned = form.clean()
        except HubIsBusy:
            attempt.withdraw()
            raise
        except ValidationError:
            events.failed(attempt)
            raise
        self.attempt = attempt
        return cleaned


def guarded(request: HttpRequest, page: Callable[[HttpRequest], Any], again: str) -> Any:
    """Return the page of a login, or one with the time of the next attempt."""
    try:
        if request.method == "POST":
            # Before the page is built: what is refused shall be cheap.
            name = unicodedata.normalize("NFKC", request.POST.get("username", "").strip())[:_MOST_NAME]
            limits.look(name, address_of(request))
        return page(request)
    except TooManyGuesses as refusal:
        seconds = math.ceil((refusal.until - timezone.now()).total_seconds())
        return error_pages.too_many_guesses(max(1, seconds), again)
    except HubIsBusy:
        return error_pages.busy_with_logins(again)


def address_of(request: HttpRequest) -> str:
    """Return the client's address: behind a trusted proxy the server has already put it in the place of the proxy's."""
    return str(request.META.get("REMOTE_ADDR") or "")
