"""The hub's own addresses in a host, below its prefix. They are no part of the host's URLconf: see serving.py."""

from __future__ import annotations

import sys

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import include, path

from mcphub.error_pages import AddressNotFound
from sessions_app.kit.rest.errors import render_outside
from sessions_app.protocol.errors import HubError

urlpatterns = [path("api/", include("mcphub.rest.api"))]


def handler400(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return render_outside(exception)


def handler403(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return render_outside(exception)


def handler404(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return render_outside(AddressNotFound())


def handler500(request: HttpRequest) -> HttpResponseBase:
    error = sys.exc_info()[1]
    return render_outside(error if isinstance(error, Exception) else HubError())
