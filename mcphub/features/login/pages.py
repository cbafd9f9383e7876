"""The login: one page for the console, for signing in and for a person's own pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import logout as end_session
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from mcphub.features.login import entering, recent
from mcphub.features.login.factors import holding, passkeys
from mcphub.features.login.guesses import CountedLogin, guarded
from mcphub.features.login.models import LoginProvider, SecondFactor
from mcphub.features.login.providers import asking
from sessions_app.login.hashing import release_connection
from sessions_app.workspaces import roles


class LoginForm(CountedLogin, AuthenticationForm):
    """For everybody with an account, with or without console permissions."""


@sensitive_post_parameters("password")
@csrf_protect
@never_cache
def log_in(request: HttpRequest) -> HttpResponse:
    page: HttpResponse = guarded(request, _page, request.get_full_path())
    return page


@sensitive_post_parameters("password")
@csrf_protect
@never_cache
def log_in_to_console(request: HttpRequest) -> HttpResponse:
    if request.method == "GET" and request.user.is_authenticated:
        if not roles.opens_console(request.user):
            messages.info(
                request, _("This account has no access to the console. To log in as someone else, log out first.")
            )
        return redirect(entering.leads_to(request.user, entering.next_of(request)))
    page: HttpResponse = guarded(request, _page, reverse("admin:login"))
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


def _page(request: HttpRequest) -> HttpResponse:
    wanted = entering.next_of(request)
    form = LoginForm(request, data=request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        return entering.enter(request, form.get_user(), entering.PASSWORD, wanted, form.attempt)
    query = f"?{urlencode({'next': wanted})}" if wanted else ""
    providers = [
        {"name": each.name, "address": reverse("login-with", args=[each.slug]) + query}
        for each in LoginProvider.objects.filter(enabled=True)
    ]
    context = {
        "form": form,
        "again": "again" in request.GET,
        "passkeys": passkeys.are_possible(request),
        "unknown_passkey": "passkey" in request.GET and request.method == "GET",
        "next": wanted,
        "providers": providers,
        "for_client": wanted.startswith("/oauth/"),
        "for_account": wanted.startswith("/connect/to/"),
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
