"""How close the rows of lists stand: chosen above a list, and kept by the browser for every list of this hub.

It belongs to the screen, as the choice of times does. The cookie lets the server draw the list so at once, without a
statement and without a script.
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _

NAME = "density"
"""In the address of a list: keep this, and show the list again."""
COMFORTABLE, COMPACT = "comfortable", "compact"
_WORDS = {COMFORTABLE: _("Comfortable"), COMPACT: _("Compact")}
_KEPT_SECONDS = 365 * 86_400


def keep(request: HttpRequest) -> HttpResponse | None:
    """Store the density in the address, and redirect to the list; None without one."""
    if request.method != "GET" or NAME not in request.GET:
        return None
    query = request.GET.copy()
    asked = query.pop(NAME)[-1]
    answer = redirect(f"{request.path}?{query.urlencode(safe=',')}" if query else request.path)
    if asked in _WORDS:
        answer.set_cookie(
            settings.HUB_DENSITY_COOKIE_NAME,
            str(asked),
            max_age=_KEPT_SECONDS,
            secure=bool(settings.SESSION_COOKIE_SECURE),
            httponly=True,
            samesite="Lax",
        )
    return answer


def shown(request: HttpRequest) -> dict[str, object]:
    """Return the context of a list's density."""
    current = request.COOKIES.get(settings.HUB_DENSITY_COOKIE_NAME)
    current = current if current in _WORDS else COMPACT
    choices = []
    for name, words in _WORDS.items():
        query = request.GET.copy()
        query[NAME] = name
        choices.append({"words": words, "address": f"?{query.urlencode(safe=',')}", "is_current": name == current})
    return {"hub_is_compact": current == COMPACT, "hub_densities": choices}
