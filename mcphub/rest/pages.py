"""Pages of REST for a person logged in at the console: a program's answer, to read and to follow.

A page shows the content of the JSON, no more: its renderer gets the answer of the view, which checked the person.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from django.contrib import admin
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from rest_framework.renderers import BaseRenderer

from mcphub.content_security import ADMIN
from mcphub.parts import RestResource
from mcphub.rest.negotiation import remember_person
from mcphub.rest.page_filters import controls
from sessions_app.kit.features import declared
from sessions_app.kit.rest.replica import AS_OF
from sessions_app.kit.rest.wire import AnyAccept
from sessions_app.kit.shown import INLINE_CHARACTERS, clipped, pretty, visible
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

MOST_COLUMNS = 8
_CELL = 60
_TELLING = [
    "name",
    "slug",
    "title",
    "uri",
    "username",
    "internal_code",
    "sequence",
    "invocation_id",
    "session_id",
    "task_id",
    "tool_name",
    "status",
    "state",
    "enabled",
    "effect",
    "action",
    "kind",
    "error_code",
    "message",
    "principal",
    "caller_label",
    "client_name",
    "received_at",
    "created_at",
    "seen_at",
]
"""Distinguishing members of a row, in the order of columns; further ones follow in the answer's order."""
_LEADS: Mapping[str, str] = {
    "invocation_id": "invocations",
    "asked_by": "invocations",
    "duplicate_of": "invocations",
    "continues": "invocations",
    "replay_of": "invocations",
    "called_by": "invocations",
    "session_id": "sessions",
    "process_id": "processes",
    "task_id": "tasks",
    "tool_name": "tool-definitions",
    "tool": "tool-definitions",
    "connection": "connections",
    "service": "services",
    "identity": "services",
    "profile": "launch-profiles",
    "provider": "providers",
    "owner": "people",
    "person": "people",
    "client_secret": "secrets",
    "waiting_change": "waiting-changes",
}
"""Member that names another row -> where REST has that row, without those of features."""
_NO_LEADS = frozenset({("keys", "service")})
"""Lists with a member of another meaning: the service of a key is an account."""
_BELOW: Mapping[str, tuple[str, ...]] = {"tool-definitions": ("versions",)}
"""Lists below a row that have views of their own."""


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A value of the answer, as a page shows it."""

    words: str
    link: str = ""
    is_long: bool = False


@dataclass(frozen=True, slots=True)
class ShownRows:
    """Rows of the answer as a table."""

    title: str
    columns: list[str]
    rows: list[list[ShownValue]]
    left_out: int
    """Members that have no column."""


class PageRenderer(BaseRenderer):
    """Renders a view's answer within the console. Never asked for by programs: see `PagesForPeople`."""

    media_type = "text/html"
    format = "page"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> str:
        view, response = renderer_context["view"], renderer_context["response"]
        request: HttpRequest = renderer_context["request"]._request
        remember_person(request)
        response["Content-Type"] = f"{self.media_type}; charset={self.charset}"  # an error would be a problem of JSON
        response["Cache-Control"] = "private, no-store"
        response["Vary"] = "Accept, Authorization, Cookie, Accept-Language"
        answer = json.loads(json.dumps(data), max_depth=1024)
        if response.status_code >= 400:
            return _problem(request, response, answer)
        # The console's shell works with the console's policy alone; JSON beside it keeps the stricter one.
        response["Content-Security-Policy"] = ADMIN
        context = {**_around(request), **_shown(request, view, answer), "as_of": response.get(AS_OF, "")}
        return render_to_string("rest/page.html", context, request)


def _around(request: HttpRequest) -> dict[str, Any]:
    return {**admin.site.each_context(request), "title": f"GET {request.path}", "path": request.path}


def _shown(request: HttpRequest, view: Any, answer: Json) -> dict[str, Any]:
    rows = _rows(request, view, answer)
    drawn = {each.title for each in rows}
    facts = {} if not isinstance(answer, dict) else {name: answer[name] for name in answer if name not in drawn}
    is_list = isinstance(facts.get("results", answer), list) or "results" in drawn
    text = pretty(answer)
    return {
        "request_line": f"GET {request.get_full_path()}",
        "asking": f'curl -H "Authorization: Bearer $KEY" {shlex.quote(request.build_absolute_uri())}',
        "parents": list(_parents(request.path)),
        "tables": rows,
        "facts": [
            (name, _value(request, name, value))
            for name, value in facts.items()
            if name not in ("next", "previous", "results")
        ],
        "next": _within(request, facts.get("next")),
        "previous": _within(request, facts.get("previous")),
        "is_empty": is_list and not rows,
        "json": text if len(text) <= INLINE_CHARACTERS else "",
        "controls": controls(view, request),
        "is_narrowed": bool(request.GET),
        "below": list(_below(request.path, view)),
        "writes": [method for method in view.allowed_methods if method not in ("GET", "HEAD", "OPTIONS")],
    }


def _parents(path: str) -> Iterator[tuple[str, str]]:
    """Return the addresses above a page that are lists or the root, with their words."""
    yield "/api/", "/api/"
    parts = path.strip("/").split("/")[1:]
    for count in range(1, len(parts)):
        words = "/".join(parts[:count])
        if words != "audit":  # which has lists below it, and none of its own
            yield parts[count - 1], f"/api/{words}/"


def _rows(request: HttpRequest, view: Any, answer: Json) -> list[ShownRows]:
    if isinstance(answer, list):
        answer = {"results": answer}
    if not isinstance(answer, dict):
        return []
    return [
        _table(request, view, name, value)
        for name, value in answer.items()
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value)
    ]


def _table(request: HttpRequest, view: Any, title: str, rows: list[dict[str, Json]]) -> ShownRows:
    members = list(dict.fromkeys(name for row in rows for name in row))
    plain = [name for name in members if any(not isinstance(row.get(name), dict | list | None) for row in rows)]
    if "fields" in request.GET:
        columns = members
    else:
        told = {name: place for place, name in enumerate(_TELLING)}
        columns = sorted(plain or members, key=lambda name: told.get(name, len(told)))[:MOST_COLUMNS]
    own = _own_link(request, view) if title == "results" else None
    shown = []
    for row in rows:
        cells = [_value(request, name, row.get(name), is_cell=True) for name in columns]
        link = own(row) if own is not None else ""
        if link and cells:
            cells[0] = ShownValue(cells[0].words, link)
        shown.append(cells)
    return ShownRows(title, columns, shown, len(members) - len(columns))


def _own_link(request: HttpRequest, view: Any) -> Any:
    """Return the lookup of a row's address, or None for rows without one."""
    if getattr(view, "action", "") != "list" or not hasattr(view, "retrieve"):
        return None
    names = [getattr(view, "lookup_url_kwarg", None), getattr(view, "lookup_field", "pk"), "id", "sequence"]

    def link(row: Mapping[str, Json]) -> str:
        value = next((row[name] for name in names if name and row.get(name) not in (None, "")), None)
        return "" if value is None else f"{request.path.rstrip('/')}/{quote(str(value), safe='')}/"

    return link


def _value(request: HttpRequest, name: str, value: Json, *, is_cell: bool = False) -> ShownValue:
    if isinstance(value, dict | list):
        if is_cell:
            return ShownValue(clipped(json.dumps(value).decode(errors="replace"), _CELL))
        return ShownValue(pretty(value), is_long=True)
    if value is None:
        return ShownValue("–")
    if isinstance(value, bool):
        return ShownValue("true" if value else "false")
    words = clipped(value, _CELL) if is_cell else visible(value)
    return ShownValue(words, _lead(request, name, value))


@lru_cache(maxsize=1)
def _leads() -> Mapping[str, str]:
    return {**_LEADS, **{part.named_as: part.prefix for part in declared(RestResource) if part.named_as}}


def _lead(request: HttpRequest, name: str, value: Json) -> str:
    """Return where a value leads: to an address of this hub's REST, or to the row that it names."""
    if value in ("", None) or isinstance(value, float):
        return ""
    if own := _within(request, value):
        return own
    leads = _leads()
    if name in leads and (request.path.split("/")[2], name) not in _NO_LEADS:
        link = f"/api/{leads[name]}/{quote(str(value), safe='')}/"
        return "" if link == request.path else link
    return ""


def _within(request: HttpRequest, value: Json) -> str:
    """Return an address of this hub's REST without its host, or nothing: the content of rows is foreign."""
    begin = request.build_absolute_uri("/")
    if isinstance(value, str) and value.startswith(f"{begin}api/"):
        return value[len(begin) - 1 :]
    return ""


def _below(path: str, view: Any) -> Iterator[str]:
    """Return the further addresses of a list or a row that are read."""
    action = getattr(view, "action", "")
    if action not in ("list", "retrieve"):
        return
    for each in view.get_extra_actions():
        streams = each.kwargs.get("content_negotiation_class") is AnyAccept
        if each.detail == (action == "retrieve") and "get" in each.mapping and not streams:
            yield f"{path.rstrip('/')}/{each.url_path}/"
    if action == "retrieve":
        for name in _BELOW.get(path.strip("/").split("/")[1], ()):
            yield f"{path.rstrip('/')}/{name}/"


def _problem(request: HttpRequest, response: Any, answer: Json) -> str:
    """Return an error as a page: within the console for its users, else alone, with a link to log in."""
    told = answer if isinstance(answer, dict) else {}
    error = told.get("error") or {}
    given = error.get("details") or {}
    details = {name: value for name, value in given.items() if name != "fields"}
    shown = {
        "problem": told.get("title") or _("The request failed"),
        "words": visible(told.get("detail") or ""),
        "code": error.get("code") or "",
        "fields": [(visible(name), lines) for name, lines in (given.get("fields") or {}).items()],
        "details": [(name, _value(request, name, value)) for name, value in details.items()],
        "again": request.get_full_path() if error.get("retryable") else "",
        "above": next((link for _words, link in reversed(list(_parents(request.path)))), "/api/"),
    }
    try:
        if admin.site.has_permission(request):
            page = render_to_string("rest/problem.html", {**_around(request), **shown}, request)
            response["Content-Security-Policy"] = ADMIN
            return page
    except Exception:  # whatever failed the request may fail the side bar, too: it asks who is logged in
        logger.warning("The page of a failure of REST is shown without the console", exc_info=True)
    log_in = ""
    if response.status_code == 401:
        log_in = f"{reverse('admin:login')}?{urlencode({'next': request.get_full_path()})}"
    return render_to_string("problem.html", {**shown, "title": shown["problem"], "log_in": log_in})
