"""How the person connects a client: the address, a configuration for each client, and what to check without a call."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.http import HttpRequest

from invocations.models import McpToolInvocation
from mcphub import clients
from mcphub.my_access.parts import Part


def _rows(request: HttpRequest) -> Mapping[str, object]:
    url = settings.MCPHUB_PUBLIC_URL.rstrip("/") + "/mcp"
    links = clients.install_links(url)
    calls = McpToolInvocation.objects.filter(principal=f"user:{request.user.pk}").order_by("-id")
    return {
        "endpoint": url,
        "signs_in": settings.MCPHUB_SIGN_IN,
        "installs": [(title, links[key]) for key, title in clients.INSTALLS.items()],
        "configurations": clients.address_only(url) if settings.MCPHUB_SIGN_IN else [],
        "on_the_web": clients.ON_THE_WEB,
        "is_public": url.startswith("https://"),
        "last_call_at": calls.values_list("started_at", flat=True).first(),
    }


PART = Part("connect", "me/connect.html", _rows)
