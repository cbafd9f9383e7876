"""A session as a transcript: how it began, each request on record in its order, how it ended.

The page of a session belongs to the floor below, which knows no calls; so it is given the transcript from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t

from invocations.models import McpToolInvocation
from invocations.rest import live
from sessions_app.admin import sessions as sessions_admin
from sessions_app.kit.admin.base import mark
from sessions_app.kit.admin.parts import ListPart
from sessions_app.kit.shown import clipped, duration, visible
from sessions_app.models import McpSession

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import HubAdmin

PAGE = 50
_SEES_CALLS = "invocations.view_mcptoolinvocation"
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One request, or an event of the session itself; `link` leads to the record."""

    moment: datetime
    what: str
    tool: str = ""
    status: SafeString | str = ""
    took: str = ""
    note: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class SessionTranscript:
    lines: list[TranscriptLine]
    first: int
    """The lowest sequence on the page; 0: it begins with the session."""
    last: int
    """The highest one; the page requests later ones after it."""
    has_later: bool


def transcript(session: McpSession, *, after: int | None = None, before: int | None = None) -> SessionTranscript:
    """Return a page: the requests after a sequence, before one, or the newest."""
    rows = McpToolInvocation.objects.filter(session=session).defer("arguments", "result", "error")
    # Below this every row that will ever be is visible, so that none comes to light behind a page that was shown.
    upto = live.settling.look()
    rows = rows.filter(id__lte=upto) if upto else rows.none()
    if after is not None:
        found = list(rows.filter(id__gt=after).order_by("id")[: PAGE + 1])
        has_earlier, has_later = after > 0, len(found) > PAGE
        found = found[:PAGE]
    else:
        found = list(rows.filter(id__lt=_LARGEST if before is None else before).order_by("-id")[: PAGE + 1])
        has_earlier, has_later = len(found) > PAGE, before is not None
        found = found[:PAGE][::-1]
    lines = [_line(row) for row in found]
    if not has_earlier:
        lines = [*_beginning(session), *lines]
    if not has_later and session.ended_at is not None:
        lines.append(
            TranscriptLine(session.ended_at, _t("session ended"), note=visible(session.end_reason, one_line=True))
        )
    first = found[0].pk if found and has_earlier else 0
    return SessionTranscript(lines, first, found[-1].pk if found else after or 0, has_later)


def _line(row: McpToolInvocation) -> TranscriptLine:
    notes = [
        row.error_code,
        _t("repeat") if row.duplicate_of else "",
        _t("× %(count)d") % {"count": row.occurrences} if row.occurrences > 1 else "",
    ]
    return TranscriptLine(
        row.started_at,
        row.of_method,
        clipped(row.what, 64),
        mark("good" if row.status == "ok" else "bad", row.get_status_display()),
        duration(row.duration_ms),
        " · ".join(filter(None, notes)),
        reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk]),
    )


def _beginning(session: McpSession) -> list[TranscriptLine]:
    if session.is_implicit:
        return [TranscriptLine(session.created_at, _t("first request"), note=_t("without a handshake"))]
    parts = [session.protocol_version, f"{session.client_name} {session.client_version}".strip()]
    lines = [
        TranscriptLine(session.created_at, "initialize", note=" · ".join(clipped(each, 80) for each in parts if each))
    ]
    if session.initialized_at is not None:
        lines.append(TranscriptLine(session.initialized_at, "notifications/initialized"))
    return lines


def _context(request: HttpRequest, session: McpSession) -> dict[str, object]:
    """Return the context of a session's page besides its fields."""
    if not request.user.has_perm(_SEES_CALLS):
        return {}
    after, before = _sequence(request, "after"), _sequence(request, "before")
    return {"transcript": transcript(session, after=after, before=before)}


def _sequence(request: HttpRequest, name: str) -> int | None:
    """Read a position in the transcript from the address; invalid ones are ignored, as in lists."""
    word = request.GET.get(name, "")
    return int(word) if word.isascii() and word.isdecimal() and len(word) < 19 else None


sessions_admin.transcript = _context


class SessionTranscripts(ListPart):
    """Returns new requests of a session for the page that follows it."""

    def urls(self, page: HubAdmin) -> list[URLPattern]:
        view = page.admin_site.admin_view(partial(self.transcript_view, page))
        return [path("transcript/<str:session_id>/<int:after>/", view, name="session_transcript")]

    def transcript_view(self, page: HubAdmin, request: HttpRequest, session_id: str, after: int) -> HttpResponse:
        if not page.has_view_permission(request) or not request.user.has_perm("sessions_app.view_mcpsession"):
            raise PermissionDenied
        session = McpSession.objects.filter(pk=session_id).first()
        if session is None:
            raise Http404
        if after > _LARGEST:
            return HttpResponseBadRequest(_t("Enter the sequence number of the last call shown."))
        given = transcript(session, after=after)
        if after == 0:  # the beginning is on the page
            given = SessionTranscript(given.lines[len(_beginning(session)) :], 0, given.last, given.has_later)
        headers = {
            "X-Last": str(given.last),
            "X-More": str(int(given.has_later)),
            "Cache-Control": "no-store",
            "X-Ended": str(int(session.ended_at is not None)),
        }
        return TemplateResponse(request, "admin/hub/session_rows.html", {"lines": given.lines}, headers=headers)
