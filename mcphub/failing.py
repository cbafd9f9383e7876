"""What Django answers where no view does: JSON for programs, a page for people."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.loader import render_to_string
from django.views import defaults

from sessions_app.database import is_away
from sessions_app.protocol.errors import AuditUnavailable
from sessions_app.rest.errors import render_outside


def malformed(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Django's handler400: what is refused before any view."""
    if request.path.startswith("/api/"):
        return render_outside(exception)
    return defaults.bad_request(request, exception)


def failed(request: HttpRequest) -> HttpResponseBase:
    """Django's handler500: what a view or the middleware raised. A database that is away is soon back."""
    error = sys.exc_info()[1]
    if isinstance(error, Exception) and request.path.startswith("/api/"):
        return render_outside(error)
    if not is_away(error) and not isinstance(error, AuditUnavailable):
        return defaults.server_error(request)
    # Without the request's context: who is logged in stands in the database.
    again = request.get_full_path() if request.method == "GET" else ""
    return HttpResponse(render_to_string("away.html", {"again": again}), status=503, headers={"Retry-After": "1"})
