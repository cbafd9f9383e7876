"""The page that tests a connection: it answers at once, and a stream shows what happens.

The stream is the answer to the form's own POST, so it needs the same token and rights, any worker can give it, and a
program is never started twice by a page that comes back. Without scripts the form waits for the result.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _t

from sessions_app.kit.admin.base import HubAdmin, mark
from sessions_app.kit.shown import visible
from sessions_app.protocol import json
from sessions_app.protocol.errors import ServerBusy
from tools_catalog.discovery import trying, watching
from tools_catalog.models import McpConnection
from tools_catalog.upstream import listing, probe
from tools_catalog.vault import read_secrets

if TYPE_CHECKING:
    from tools_catalog.discovery.watching import TrialState
    from tools_catalog.upstream.spec import ConnectionSpec

_EVENTS = "text/event-stream"


def page(admin: HubAdmin, request: HttpRequest, pk: int) -> HttpResponseBase:
    """Show the page, test, or stream a test; `keep` in the form keeps what the connection offers."""
    row = get_object_or_404(McpConnection, pk=pk)
    # Only what is saved is tested, and only by who may save it: a test runs what the row says.
    if not admin.has_change_permission(request, row):
        raise PermissionDenied
    sight = None
    if request.method == "POST":
        try:
            watching.check_room()
        except ServerBusy as error:
            return HttpResponse(str(error), status=503, headers={"Retry-After": "10"})
        read_secrets()  # one that was saved a moment ago may not have come by the change bus yet
        spec = row.spec()
        if _EVENTS in request.headers.get("Accept", ""):
            return StreamingHttpResponse(
                _events(row, spec, translation.get_language(), keeps="keep" in request.POST),
                content_type=_EVENTS,
                headers={"X-Accel-Buffering": "no", "Cache-Control": "no-store"},
            )
        sight = async_to_sync(_tested)(spec)
    context = {
        **admin.admin_site.each_context(request),
        "opts": admin.opts,
        "object": row,
        "connection": row,
        "title": _t("Test"),
        "ran": sight is not None,
        "steps": steps_shown(sight.steps if sight is not None else ()),
        "most_seconds": round(row.spec().as_first().begins_within),
        "back": reverse("admin:tools_catalog_mcpconnection_change", args=[pk]),
    }
    return TemplateResponse(request, "admin/hub/connection_test.html", context)


def steps_shown(steps: Iterable[probe.Step]) -> list[dict[str, object]]:
    """Return the context of `connection_tested.html`."""
    words = {
        probe.ADDRESS: _t("Address allowed"),
        probe.CONNECT: _t("Responds and speaks MCP"),
        probe.LIST: _t("Lists its tools"),
    }
    return [
        {
            "words": words[step.kind],
            "mark": mark("good", _t("OK")) if step.is_good else mark("bad", _t("Failed")),
            "outcome": visible(step.outcome),
            "milliseconds": step.milliseconds,
        }
        for step in steps
    ]


async def _tested(spec: ConnectionSpec) -> TrialState:
    async with contextlib.aclosing(watching.watch(spec)) as sights:
        return [sight async for sight in sights][-1]


async def _events(
    row: McpConnection, spec: ConnectionSpec, language: str | None, *, keeps: bool
) -> AsyncIterator[bytes]:
    kinds = listing.KINDS if keeps else (listing.TOOL,)
    async with contextlib.aclosing(watching.watch(spec, kinds=kinds)) as sights:
        async for sight in sights:
            if not sight.is_done:
                yield _event("progress", _told(sight))
                continue
            if keeps:
                await sync_to_async(trying.keep)(row, sight)
            html = await sync_to_async(_rendered)(sight, language)
            is_good = bool(sight.steps) and all(step.is_good for step in sight.steps)
            yield _event("done", {**_told(sight), "html": html, "is_good": is_good})


def _told(sight: TrialState) -> dict[str, json.Json]:
    return {
        "seconds": sight.seconds,
        "stage": sight.stage,
        "stderr": visible(sight.stderr),
        "loaded": f"{sight.loaded_bytes / 1e6:.1f}" if sight.loaded_bytes else "",
    }


def _rendered(sight: TrialState, language: str | None) -> str:
    with translation.override(language):
        return render_to_string("admin/hub/connection_tested.html", {"steps": steps_shown(sight.steps)})


def _event(name: str, data: dict[str, json.Json]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), json.dumps(data))
