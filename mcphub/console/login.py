"""The login of the console: Django's page, with a bound on guesses."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone
from django.views.decorators.cache import never_cache
from unfold.forms import AuthenticationForm

from mcphub import failing
from sessions_app.login import events, limits
from sessions_app.login.hashing import HubIsBusy
from sessions_app.login.limits import TooManyGuesses

_MOST_NAME = 150
"""Characters of a name; Django's accounts have no longer one."""


class LoginForm(AuthenticationForm):  # type: ignore[misc]
    """Counts an attempt before the password is looked at; raises TooManyGuesses or HubIsBusy."""

    def clean(self) -> dict[str, object]:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if not name or not password:
            cleaned: dict[str, Any] = super().clean()
            return cleaned
        attempt = limits.admit(name, _address(self.request))
        try:
            cleaned = super().clean()
        except HubIsBusy:
            attempt.withdraw()
            raise
        except ValidationError:
            events.failed(attempt)
            raise
        attempt.succeed()
        events.succeeded(attempt, self.get_user())
        return cleaned


@never_cache
def log_in(request: HttpRequest) -> HttpResponse:
    try:
        if request.method == "POST":
            # Before the page is built: what is refused shall be cheap.
            name = unicodedata.normalize("NFKC", request.POST.get("username", "").strip())[:_MOST_NAME]
            limits.look(name, _address(request))
        return admin.site.login(request)
    except TooManyGuesses as refusal:
        return failing.too_many_guesses(max(1, math.ceil((refusal.until - timezone.now()).total_seconds())))
    except HubIsBusy:
        return failing.busy_with_logins()


def _address(request: HttpRequest) -> str:
    """Give the client's address: behind a trusted proxy the server has already put it in the place of the proxy's."""
    return str(request.META.get("REMOTE_ADDR") or "")


admin.site.login_form = LoginForm
urlpatterns = [path("login/", log_in)]
