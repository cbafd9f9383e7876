"""The login: one page for the console, for signing in and for a person's own pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters

from mcphub.login import entering
from mcphub.login.guesses import CountedLogin, guarded
from mcphub.login.models import LoginProvider


class LoginForm(CountedLogin, AuthenticationForm):
    """Of everybody who has an account, with or without rights in the console."""


class ConsoleLoginForm(CountedLogin, AdminAuthenticationForm):
    """Of people who may see the console."""


@sensitive_post_parameters("password")
@csrf_protect
@never_cache
def log_in(request: HttpRequest) -> HttpResponse:
    page: HttpResponse = guarded(request, lambda asked: _page(asked, LoginForm), request.get_full_path())
    return page


@sensitive_post_parameters("password")
@csrf_protect
@never_cache
def log_in_to_console(request: HttpRequest) -> HttpResponse:
    if request.method == "GET" and admin.site.has_permission(request):
        return redirect(entering.leads_to(request.user, entering.next_of(request)))
    page: HttpResponse = guarded(request, lambda asked: _page(asked, ConsoleLoginForm), reverse("admin:login"))
    return page


def _page(request: HttpRequest, form_class: type[Any]) -> HttpResponse:
    wanted = entering.next_of(request)
    form = form_class(request, data=request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        return entering.enter(request, form.get_user(), entering.PASSWORD, wanted, form.attempt)
    query = f"?{urlencode({'next': wanted})}" if wanted else ""
    providers = [
        {"name": each.name, "address": reverse("login-with", args=[each.slug]) + query}
        for each in LoginProvider.objects.filter(enabled=True)
    ]
    is_console = form_class is ConsoleLoginForm
    context = {
        "form": form,
        "next": wanted,
        "providers": providers,
        "for_client": wanted.startswith("/oauth/"),
        "logged_in_as": request.user.get_username() if is_console and request.user.is_authenticated else "",
    }
    return render(request, "login/login.html", context)


@never_cache
@login_required(login_url="login")
def own(request: HttpRequest) -> HttpResponse:
    """How the person logs in: by which providers."""
    links = list(request.user.linked_logins.order_by("provider_name"))  # type: ignore[union-attr]
    known = {link.issuer for link in links}
    context = {
        "person": request.user.get_username(),
        "links": links,
        "providers": [each for each in LoginProvider.objects.filter(enabled=True) if each.issuer not in known],
    }
    return render(request, "login/own.html", context)
