"""Django's error pages: JSON for programs, a page for people."""

from __future__ import annotations

import logging
import sys

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from sessions_app.kit.database import is_away
from sessions_app.kit.rest.errors import NOT_FOUND, render_outside
from sessions_app.protocol.errors import AuditUnavailable, HubError, RateLimited
from sessions_app.workspaces.acting import OutsideWorkspace

_BUSY_SECONDS = 5
logger = logging.getLogger(__name__)


class AddressNotFound(HubError):
    """An address that the hub does not serve."""

    code = NOT_FOUND
    sentence = (
        "The hub serves nothing at this address. MCP is at /mcp, HTTP+SSE at /sse, a toolset at /mcp/s/<name>, "
        "REST under /api/, chat under /v1/."
    )
    http_status = 404


def malformed(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Django's handler400: requests rejected before any view."""
    if is_program(request):
        return render_outside(exception)
    words = _("The address or the submitted data is malformed. Start again from the start page.")
    return _page(400, _("Bad request"), words)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Django's handler403: a page that this person may not open."""
    if is_program(request):
        return render_outside(exception)
    words = _("Your account lacks the permission. Ask this hub's account administrator.")
    if isinstance(exception, OutsideWorkspace):
        words = str(exception)
    return _shown(request, 403, _("You can't open this page"), words)


def unverified(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    """Django's CSRF_FAILURE_VIEW: a form that came without its token, or with another."""
    if is_program(request):
        return render_outside(AddressNotFound())  # a client that sends JSON has no forms; it took this for an endpoint
    if _lost_its_tls(request):
        words = _(
            "The browser reached the hub over HTTPS, and the proxy in front of it passes plain HTTP, which the hub is "
            "not told to trust. Ask the hub's operator to set MCPHUB_BEHIND_PROXY=1 and restart."
        )
        return _page(403, _("The proxy is not configured"), words, again=request.get_full_path())
    words = _(
        "The page expired or you logged in since, or the browser blocks cookies. Nothing was changed. Open "
        "the page again and resubmit the form."
    )
    return _page(403, _("The form has expired"), words, again=request.get_full_path())


def _lost_its_tls(request: HttpRequest) -> bool:
    """Return whether the form came from this host over HTTPS, while the request itself counts as plain HTTP."""
    origin = request.headers.get("origin", "")
    return not request.is_secure() and origin == f"https://{request.get_host()}"


def missing(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Django's handler404."""
    if is_program(request):
        return render_outside(AddressNotFound())
    words = _("The address may be mistyped, or the object was removed.")
    return _shown(request, 404, _("Page not found"), words)


def failed(request: HttpRequest) -> HttpResponseBase:
    """Django's handler500: exceptions of a view or the middleware. A database that is away is soon back."""
    error = sys.exc_info()[1]
    if isinstance(error, Exception) and is_program(request):
        return render_outside(error)
    again = request.get_full_path() if request.method == "GET" else ""
    if is_away(error) or isinstance(error, AuditUnavailable):
        words = _(
            "Try again in a moment. If you were saving something, it may or may not have been saved: check "
            "before you repeat it."
        )
        return _page(503, _("The database is not responding"), words, again=again, headers={"Retry-After": "1"})
    words = _("See the hub's log for details. If you were saving something, check before you repeat it.")
    return _shown(request, 500, _("Internal error"), words, again=again)


def too_many_guesses(seconds: int, again: str) -> HttpResponse:
    """A login that is not looked at, because too many failed before it."""
    words = ngettext(
        "Too many failed attempts with this name or from this address. The password was not checked. Try "
        "again in %(count)d second.",
        "Too many failed attempts with this name or from this address. The password was not checked. Try "
        "again in %(count)d seconds.",
        seconds,
    ) % {"count": seconds}
    return _page(429, _("Wait before you log in again"), words, again=again, headers=_retry_after(seconds))


def busy_with_logins(again: str) -> HttpResponse:
    """A login that is not looked at, because others are."""
    words = _("Many people are logging in right now. The password was not checked. Try again in a few seconds.")
    return _page(503, _("The hub is busy with other logins"), words, again=again, headers=_retry_after(_BUSY_SECONDS))


def refused_client(words: str, status: int = 400) -> HttpResponse:
    """A client asked for something that cannot be shown to it, because nobody knows where it would lead."""
    return _page(status, _("This client can't sign you in"), words)


def refused_login(words: str, again: str, status: int = 403) -> HttpResponse:
    """A login by a provider, or by an invitation, that does not go on."""
    return _page(status, _("You are not logged in"), words, again=again, headers={"Cache-Control": "no-store"})


def too_busy(path: str, retry_after_seconds: int) -> HttpResponse:
    """A request that found no place among those that Django answers at once."""
    if path.startswith("/api/"):
        error = RateLimited(
            "Too many requests to REST and the console are at work, or wait. Send fewer at once, and this one again in "
            f"{retry_after_seconds} s.",
            retry_after_seconds=retry_after_seconds,
        )
        error.retry_after_seconds = retry_after_seconds
        return render_outside(error)
    words = _("The hub is serving many pages and audit queries right now. Nothing was changed. Try again in a moment.")
    again = path if path.startswith("/admin/") else ""
    return _page(
        429, _("The hub is busy with other pages"), words, again=again, headers=_retry_after(retry_after_seconds)
    )


def _retry_after(seconds: int) -> dict[str, str]:
    return {"Retry-After": str(seconds), "Cache-Control": "no-store"}


def is_program(request: HttpRequest) -> bool:
    """Return whether JSON is understood and a page is not: under /api/, and wherever a client looks for an endpoint."""
    return (
        request.path_info.startswith("/api/")
        or request.content_type == "application/json"
        or "application/json" in request.headers.get("Accept", "")
    )


def _shown(request: HttpRequest, status: int, title: str, words: str, *, again: str = "") -> HttpResponse:
    """Return the page within the console, with links, for its users; else alone."""
    if request.path.startswith("/admin/"):
        try:
            if admin.site.has_permission(request):
                context = {**admin.site.each_context(request), "title": title, "words": words, "again": again}
                return HttpResponse(render_to_string("admin/hub/problem.html", context, request), status=status)
        except Exception:  # whatever failed the page may fail the side bar, too: it asks who is logged in
            logger.warning("The page of a failure is shown without the console", exc_info=True)
    return _page(status, title, words, again=again)


def _page(
    status: int, title: str, words: str, *, again: str = "", headers: dict[str, str] | None = None
) -> HttpResponse:
    # Without the request's context: who is logged in stands in the database, which may be what failed.
    context = {"title": title, "words": words, "again": again}
    return HttpResponse(render_to_string("problem.html", context), status=status, headers=headers)
