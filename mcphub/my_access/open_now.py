"""Open sessions in the person's name: of clients, and logins in browsers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.http import Http404, HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from mcphub.my_access.parts import Part
from sessions_app.history import events
from sessions_app.login import open_logins
from sessions_app.models import McpSession

_MOST = 50
_BROWSERS = {
    "Edg": "Edge",
    "OPR": "Opera",
    "YaBrowser": "Yandex Browser",
    "Firefox": "Firefox",
    "FxiOS": "Firefox",
    "HeadlessChrome": "Chrome",
    "Chrome": "Chrome",
    "CriOS": "Chrome",
    "Version": "Safari",
}
"""Product in a user agent -> its name; the first that is there, since most browsers name others beside themselves."""
_SYSTEMS = {
    "Windows": "Windows",
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Mac OS X": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}


def browser(user_agent: str) -> str:
    """Return name, version and system of a browser, such as *Firefox 140, Linux*; other programs as they are."""
    found = (
        f"{name} {version[1]}"
        for product, name in _BROWSERS.items()
        if (version := re.search(rf"\b{product}/(\d+)", user_agent))
    )
    system = next((name for sign, name in _SYSTEMS.items() if sign in user_agent), "")
    known = next(found, "") if user_agent.startswith("Mozilla/") else ""
    return ", ".join(filter(None, [known, system])) if known else user_agent


def _rows(request: HttpRequest) -> Mapping[str, object]:
    sessions = McpSession.objects.live().filter(principal=f"user:{request.user.pk}", is_implicit=False)
    return {
        "sessions": sessions.order_by("-created_at")[:_MOST],
        "logins": [(browser(each.program), each) for each in open_logins.of(request.user, request.session.session_key)],
    }


def _end_session(request: HttpRequest) -> str:
    named = request.POST.get("id", "")
    rows = McpSession.objects.filter(principal=f"user:{request.user.pk}", session_id=named)
    if "\x00" in named or not rows.exists():
        raise Http404
    rows.close("ended by the person", by=request.user)
    return _("Session ended. A client that is still authorized can open another one.")


def _end_login(request: HttpRequest) -> str:
    """End one login by its digest, or all others than this one."""
    named, own = request.POST.get("id", ""), request.session.session_key
    count = open_logins.end(request.user, [named] if named else None, but=own)
    if not count and named:
        raise Http404
    if count:
        events.record(
            "login.ended", label=str(request.user), after={"logins": count}, reason="ended by the person elsewhere"
        )
    return ngettext("%(count)d login ended.", "%(count)d logins ended.", count) % {"count": count}


PART = Part("open", "me/open.html", _rows, {"end-session": _end_session, "end-login": _end_login})
