"""The page itself, its actions, and the required login."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from mcphub.my_access import open_now, own_accounts, own_calls, own_connection, own_keys, own_tools, own_workspaces
from mcphub.my_access.parts import DeedRefused, Part
from mcphub.parts import MyAccessPart
from sessions_app.kit.features import declared, loaded

_CORE: tuple[Part, ...] = (
    own_connection.PART,
    own_tools.PART,
    own_workspaces.PART,
    own_accounts.PART,
    own_keys.PART,
    own_calls.PART,
    open_now.PART,
)


@lru_cache(maxsize=1)
def parts() -> tuple[Part, ...]:
    """Return the parts of the page in their order: those of the core have the places 10, 20 and so on."""
    placed = [(number * 10, part) for number, part in enumerate(_CORE, 1)]
    placed += [(each.place, loaded(each.part)) for each in declared(MyAccessPart)]
    return tuple(part for _place, part in sorted(placed, key=lambda each: each[0]))


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
    for part in parts():
        context |= part.rows(request)
    return render(request, "me/access.html", {**context, "templates": [part.template for part in parts()]})


@require_POST
@of_person
def do(request: HttpRequest, part: str, word: str) -> HttpResponse:
    """Perform the action of a form, and return to its part of the page."""
    deed = next((each.deeds[word] for each in parts() if each.id == part and word in each.deeds), None)
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
