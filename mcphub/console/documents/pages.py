"""Where documents open: all of them inside the console, those for clients at *My access*."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache, partial
from itertools import groupby
from typing import Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.views.decorators.http import require_safe

from mcphub.console.documents import shelf
from mcphub.console.documents.rendering import rendered
from mcphub.console.documents.shelf import FOR_CLIENTS, PICTURES, HubDocument
from mcphub.my_access.pages import of_person
from sessions_app.workspaces import acting

acting.PAGES.update({"docs-shelf", "docs-page", "docs-picture"})


def address_of(place: str) -> str:
    """Return where the console shows `name` or `name#anchor`."""
    name, hash_, anchor = place.partition("#")
    return reverse("docs-page", args=[name]) + hash_ + anchor


@require_safe
def shelf_view(request: HttpRequest) -> HttpResponse:
    sections = [list(each) for _name, each in groupby(shelf.documents().values(), lambda each: each.section)]
    context = {**admin.site.each_context(request), "title": _t("Documentation"), "sections": sections}
    return TemplateResponse(request, "admin/hub/documents.html", context)


@require_safe
def document_view(request: HttpRequest, name: str) -> HttpResponse:
    document = _asked(name, shelf.documents())
    context = {
        **admin.site.each_context(request),
        **_shown(document, "docs"),
        "title": document.title,
        "siblings": [each for each in shelf.documents().values() if each.section == document.section],
    }
    return TemplateResponse(request, "admin/hub/document.html", context)


@require_safe
@of_person
def own_document_view(request: HttpRequest, name: str) -> HttpResponse:
    document = _asked(name, FOR_CLIENTS)
    siblings = [each for key, each in shelf.documents().items() if key in FOR_CLIENTS]
    return TemplateResponse(request, "me/document.html", {**_shown(document, "my-docs"), "siblings": siblings})


@require_safe
def picture_view(request: HttpRequest, name: str) -> HttpResponse:
    file = shelf.picture(name)
    if file is None:
        raise Http404
    headers = {"Cache-Control": "private, max-age=3600"}
    return HttpResponse(file.read_bytes(), content_type="image/png", headers=headers)


def _asked(name: str, offered: Collection[str]) -> HubDocument:
    document = shelf.documents().get(name) if name in offered else None
    if document is None:
        raise Http404
    return document


def _shown(document: HubDocument, base: str) -> dict[str, Any]:
    return {"document": document, "body": _body(document.name, base), "contents": document.headings}


@lru_cache(maxsize=256)
def _body(name: str, base: str) -> SafeString:
    return rendered(shelf.documents()[name], partial(_place, base))


def _place(base: str, name: str) -> str:
    """Return the address of a document or picture below `docs` or `my-docs`; empty: not there for its readers."""
    folder, _slash, file = name.partition("/")
    if folder == PICTURES:
        return reverse(f"{base}-picture", args=[file]) if shelf.picture(file) else ""
    offered = shelf.documents() if base == "docs" else FOR_CLIENTS
    return reverse(f"{base}-page", args=[name]) if name in offered else ""


urlpatterns = [
    path("admin/docs/", admin.site.admin_view(shelf_view), name="docs-shelf"),
    path(f"admin/docs/{PICTURES}/<str:name>", admin.site.admin_view(picture_view), name="docs-picture"),
    path("admin/docs/<path:name>/", admin.site.admin_view(document_view), name="docs-page"),
    path(f"me/docs/{PICTURES}/<str:name>", of_person(picture_view), name="my-docs-picture"),
    path("me/docs/<path:name>/", own_document_view, name="my-docs-page"),
]
