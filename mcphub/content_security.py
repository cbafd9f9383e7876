"""The content security policy of Django's pages: they run and show only files that the hub ships."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

_EVERYWHERE = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}
_ADMIN = {**_EVERYWHERE, "script-src": "'self' 'unsafe-eval'"}
"""The theme's Alpine reads its expressions with `Function`. Styles that its scripts and the JSON editor would write
into the page are handled elsewhere: policy.js, json_editor.js, colours.css.
"""


def _said(directives: dict[str, str]) -> str:
    return "; ".join(f"{name} {sources}" for name, sources in directives.items())


ADMIN, ELSEWHERE = _said(_ADMIN), _said(_EVERYWHERE)
WITH_FRAME = _said({**_ADMIN, "frame-src": "'self'"})
"""Of a page of the admin that shows a view: the frame leads nowhere but to the hub, which keeps it apart."""


def leading_to(target: str) -> str:
    """Return the policy of a page with a form that leads to another address: browsers check redirects of forms, too."""
    return _said({**_EVERYWHERE, "form-action": f"'self' {target}"})


class ContentPolicy:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        response.headers.setdefault(
            "Content-Security-Policy", ADMIN if request.path.startswith("/admin/") else ELSEWHERE
        )
        return response
