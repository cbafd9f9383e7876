"""The person's own calls, as recorded: redacted values are not shown here either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode

from invocations.lists.erased import digest_of
from invocations.models import McpToolInvocation
from mcphub.my_access.parts import Part
from sessions_app.kit.shown import clipped, duration, pretty, visible

_NEWEST = 10
_PAGE = 50
_WINDOW = 5000
"""The number of the person's calls that a page searches for the filters."""
_LONGEST_BODY = 100_000
_STATES = ("ok", "error")
_BODIES = ("arguments", "result", "error")


def of(person: Any) -> Any:
    """Return the person's calls, newest first, without their bodies."""
    rows = McpToolInvocation.objects.filter(principal=f"user:{person.pk}").order_by("-id")
    return rows.defer(*_BODIES)


def _rows(request: HttpRequest) -> Mapping[str, object]:
    found = [_line(row) for row in of(request.user)[: _NEWEST + 1]]
    return {"calls": found[:_NEWEST], "has_more_calls": len(found) > _NEWEST}


def listed(request: HttpRequest) -> HttpResponse:
    """`/me/calls/`: `tool` and `status` narrow it, `before` is where the page begins."""
    tool, status = request.GET.get("tool", "")[:200].replace("\x00", ""), request.GET.get("status", "")
    before = request.GET.get("before", "")
    rows = of(request.user)
    if before.isascii() and before.isdecimal() and len(before) < 19:
        rows = rows.filter(id__lt=int(before))
    edge = rows.values_list("id", flat=True)[_WINDOW : _WINDOW + 1].first()
    wanted = rows if edge is None else rows.filter(id__gt=edge)
    if tool:
        wanted = wanted.filter(tool_name=tool)
    if status in _STATES:
        wanted = wanted.filter(status=status)
    found = list(wanted[: _PAGE + 1])
    onward = found[_PAGE - 1].pk if len(found) > _PAGE else edge + 1 if edge is not None else None
    chosen = {"tool": tool, "status": status if status in _STATES else ""}
    more = {name: value for name, value in chosen.items() if value}
    context = {
        "calls": [_line(row) for row in found[:_PAGE]],
        "older": f"?{urlencode({**more, 'before': onward})}" if onward is not None else "",
        "newest": f"?{urlencode(more)}" if before else "",
        "is_narrowed": bool(more),
        **chosen,
    }
    return render(request, "me/calls.html", context)


def one(request: HttpRequest, invocation_id: str) -> HttpResponse:
    """`/me/calls/<id>/`: one call with its bodies, as far as they are on record."""
    row = McpToolInvocation.objects.filter(principal=f"user:{request.user.pk}", invocation_id=invocation_id).first()
    if row is None:
        raise Http404
    bodies = [(name, *_body(getattr(row, name))) for name in _BODIES]
    return render(request, "me/call.html", {"call": _line(row), "row": row, "bodies": bodies})


def _line(row: McpToolInvocation) -> dict[str, object]:
    return {
        "address": reverse("my-call", args=[row.invocation_id]),
        "tool": clipped(row.tool_name or row.method, 100),
        "is_ok": row.status == "ok",
        "code": row.error_code,
        "at": row.started_at,
        "duration": duration(row.duration_ms) if row.duration_ms is not None else "",
        "by": clipped(row.caller_label, 150),
    }


def _body(value: Any) -> tuple[str, str]:
    """Return a body as text, and the digest in its place where retention erased it."""
    if value is None:
        return "", ""
    if digest := digest_of(value):
        return "", digest
    text = visible(pretty(value))
    return (f"{text[:_LONGEST_BODY]}…" if len(text) > _LONGEST_BODY else text), ""


PART = Part("calls", "me/newest_calls.html", _rows)
