"""The pages on which one finds a server: of those that the hub knows, or in a registry."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _t

from mcphub.features.importers.admin.configured import rights
from mcphub.features.importers.configured import known, registry
from mcphub.features.importers.documents import DocumentRefused
from sessions_app.kit.admin.base import HubAdmin
from sessions_app.kit.shown import clipped, visible

_LONGEST_WORD = 100


def known_view(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    """List the servers that the hub knows, or those with a word."""
    rights.check(request)
    word = request.GET.get("q", "")[:_LONGEST_WORD]
    add = reverse("admin:connection_import")
    may_launch = request.user.has_perms(rights.LAUNCH)
    rows = [
        {
            "server": each,
            "command": " ".join(each.command),
            "link": f"{add}?{urlencode({'known': each.name})}" if each.url or may_launch else "",
            "program": f"{add}?{urlencode({'known': each.name, 'program': 1})}"
            if each.url and each.command and may_launch
            else "",
        }
        for each in known.search(word)
    ]
    return _page(admin, request, "known", title=_t("Known servers"), rows=rows, word=visible(word))


def registry_view(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    """Search a registry. Only a POST asks it, as a link must not make the hub send requests."""
    rights.check(request)
    word = request.POST.get("q", "")[:_LONGEST_WORD]
    base = request.POST.get("registry", registry.default())[:2000]
    context: dict[str, Any] = {"word": visible(word), "registry": visible(base), "asked": request.method == "POST"}
    if request.method == "POST":
        try:
            found = async_to_sync(registry.search)(base, word)
        except DocumentRefused as error:
            context["error"] = visible(str(error))
        else:
            add = reverse("admin:connection_import")
            context["has_more"] = found.has_more
            context["rows"] = [
                {
                    "name": clipped(each.name, 100),
                    "version": clipped(each.version, 30),
                    "words": clipped(each.words, 200),
                    "link": f"{add}?{urlencode({'source': each.address})}",
                }
                for each in found.servers
            ]
    return _page(admin, request, "registry", title=_t("Search a registry"), **context)


def _page(admin: HubAdmin, request: HttpRequest, kind: str, **more: object) -> TemplateResponse:
    context = {
        **admin.admin_site.each_context(request),
        "opts": admin.opts,
        "back": reverse("admin:tools_catalog_mcpconnection_changelist"),
        "kind": kind,
        **more,
    }
    return TemplateResponse(request, "admin/hub/server_choice.html", context)
