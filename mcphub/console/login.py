"""The login of the console: Django's page, with a bound on guesses."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.views.decorators.cache import never_cache
from unfold.forms import AuthenticationForm

from mcphub.signin.guesses import CountedLogin, guarded


class LoginForm(CountedLogin, AuthenticationForm):  # type: ignore[misc]
    """Of people who may see the console."""


@never_cache
def log_in(request: HttpRequest) -> HttpResponse:
    page: HttpResponse = guarded(request, admin.site.login, reverse("admin:login"))
    return page


admin.site.login_form = LoginForm
urlpatterns = [path("login/", log_in)]
