"""The page itself, its deeds, and what stands before all of it: a login."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from mcphub.me import clients, open_now, own_accounts, own_calls, own_keys, own_quotas, own_workspaces
from mcphub.me.parts import DeedRefused, Part

PARTS: tuple[Part, ...] = (
    clients.PART,
    own_workspaces.PART,
    own_accounts.PART,
    own_keys.PART,
    own_quotas.PART,
    own_calls.PART,
    open_now.PART,
)


def of_person(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Serve a page to whoever is logged in; lead others to the login and back."""

    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if request.user.is_authenticated:
            return view(request, **kwargs)
        back = request.get_full_path() if request.method in ("GET", "HEAD") else reverse("my-access")
        return redirect(f"{reverse('login')}?{urlencode({'next': back})}")

    return guarded


@require_safe
@of_person
def show(request: HttpRequest) -> HttpResponse:
    context: dict[str, object] = {}
    for part in PARTS:
        context |= part.rows(request)
    return render(request, "me/access.html", {**context, "templates": [part.template for part in PARTS]})


@require_POST
@of_person
def do(request: HttpRequest, part: str, word: str) -> HttpResponse:
    """Do what a form of the page asks, and lead back to the part it stands in."""
    deed = next((each.deeds[word] for each in PARTS if each.id == part and word in each.deeds), None)
    if deed is None:
        raise Http404
    try:
        done = deed(request)
    except DeedRefused as refusal:
        messages.error(request, str(refusal))
    else:
        if isinstance(done, HttpResponse):
            return done
        messages.success(request, done)
    return redirect(f"{reverse('my-access')}#{part}")


calls, call = require_safe(of_person(own_calls.listed)), require_safe(of_person(own_calls.one))
