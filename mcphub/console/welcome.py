"""`GET /`: what this is, and the way to a client and to the console; JSON for programs."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.urls import path
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from mcphub.failing import is_program


@require_safe
def show(request: HttpRequest) -> HttpResponseBase:
    """Serve what is public in any case: nothing of the hub's rows."""
    here = settings.MCPHUB_PUBLIC_URL.rstrip("/")
    response: HttpResponseBase
    if is_program(request):
        response = JsonResponse(_for_programs(here))
    else:
        shown = {"endpoint": f"{here}/mcp", "version": settings.MCPHUB_VERSION, "signs_in": settings.MCPHUB_SIGN_IN}
        response = render(request, "welcome.html", shown)
    patch_vary_headers(response, ["Accept"])
    return response


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


urlpatterns = [path("", show, name="welcome")]
