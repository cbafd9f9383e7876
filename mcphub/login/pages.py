"""The login: one page for the console, for signing in and for a person's own pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth import logout as end_session
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from mcphub.login import entering, recent
from mcphub.login.factors import holding, passkeys
from mcphub.login.guesses import CountedLogin, guarded
from mcphub.login.models import LoginProvider, SecondFactor
from mcphub.login.providers import asking
from sessions_app.login.hashing import release_connection
from sessions_app.workspaces import roles


class LoginForm(CountedLogin, AuthenticationForm):
    """Of everybody who has an account, with or without rights in the console."""


class ConsoleLoginForm(CountedLogin, AdminAuthenticationForm):
    """Of people who may see the console."""

    def confirm_login_allowed(self, user: Any) -> None:
        """Let people of workspaces in, as Django's form lets in staff."""
        AuthenticationForm.confirm_login_allowed(self, user)
        if not roles.opens_console(user):
            super().confirm_login_allowed(user)


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


@require_POST
@csrf_protect
@never_cache
def log_out(request: HttpRequest) -> HttpResponse:
    """End the login of the hub, and show the way to end that of the provider."""
    way = request.session.get(entering.CAME_BY, "")
    slug = way.removeprefix("provider:") if isinstance(way, str) and way.startswith("provider:") else ""
    end_session(request)
    provider = LoginProvider.objects.filter(slug=slug, enabled=True).first() if slug else None
    release_connection()
    there = asking.logout_of(provider) if provider is not None else ""
    return render(request, "login/out.html", {"provider": provider, "there": there})


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
        "again": "again" in request.GET,
        "passkeys": passkeys.are_possible(request),
        "unknown_passkey": "passkey" in request.GET and request.method == "GET",
        "next": wanted,
        "providers": providers,
        "for_client": wanted.startswith("/oauth/"),
        "for_account": wanted.startswith("/connect/to/"),
        "logged_in_as": request.user.get_username() if is_console and request.user.is_authenticated else "",
    }
    return render(request, "login/login.html", context)


@never_cache
@login_required(login_url="login")
def own(request: HttpRequest) -> HttpResponse:
    """How the person logs in: by which second factors and providers."""
    user: Any = request.user
    links = list(user.linked_identities.order_by("issuer_name"))
    known = {link.issuer for link in links}
    rows = list(user.second_factors.order_by("kind", "pk"))
    context = {
        "person": user.get_username(),
        "factors": [{"pk": row.pk, "words": row.get_kind_display(), "remark": _remark(row)} for row in rows],
        "has_app": any(row.kind == SecondFactor.Kind.APP for row in rows),
        "stays": "stays" in request.GET,
        "links": links,
        "token": recent.token(request),
        "providers": [each for each in LoginProvider.objects.filter(enabled=True) if each.issuer not in known],
    }
    return render(request, "login/own.html", context)


def _remark(row: SecondFactor) -> str:
    if row.kind == SecondFactor.Kind.CODES:
        left = holding.codes_left(row.user)
        return ngettext("%(count)d left", "%(count)d left", left) % {"count": left}
    return row.name
