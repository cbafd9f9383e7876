"""`GET /`: an introduction, and the way to a client and to the login; a person's own page once logged in; JSON for
programs.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from mcphub.error_pages import is_program
from sessions_app.workspaces import roles


@require_safe
def show(request: HttpRequest) -> HttpResponseBase:
    """Serve public facts only: nothing of the hub's rows. Whoever has no pages in the console is led to their own."""
    here = settings.MCPHUB_PUBLIC_URL.rstrip("/")
    response: HttpResponseBase
    if is_program(request):
        response = JsonResponse(_for_programs(here))
    elif request.user.is_authenticated and not roles.opens_console(request.user):
        response = redirect("my-access")
    else:
        shown = {"endpoint": f"{here}/mcp", "version": settings.MCPHUB_VERSION, "signs_in": settings.MCPHUB_SIGN_IN}
        response = render(request, "welcome.html", shown)
    patch_vary_headers(response, ["Accept"])
    return response


@require_safe
def connect(request: HttpRequest) -> HttpResponseBase:
    """`/connect`: lead to the page that connects this person's client, after a login."""
    if not request.user.is_authenticated:
        return redirect(f"{reverse('login')}?{urlencode({'next': reverse('connect-here')})}")
    if not roles.opens_console(request.user):
        return redirect(f"{reverse('my-access')}#connect")
    asked = request.META.get("QUERY_STRING", "")
    return redirect(f"{reverse('connect')}{'?' if asked else ''}{asked}")


def _for_programs(here: str) -> dict[str, Any]:
    return {
        "name": "MCP Hub",
        "version": settings.MCPHUB_VERSION,
        "mcp": f"{here}/mcp",
        "description": f"{here}/.well-known/mcp",
        "connect": f"{here}/connect",
        "console": f"{here}/admin/",
        "rest": f"{here}/api/docs",
        "chat": f"{here}/v1",
    }


urlpatterns = [path("", show, name="welcome"), path("connect", connect), path("connect/", connect, name="connect-here")]
