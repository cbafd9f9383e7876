"""The console's pages of the archive: its months, their calls by the line of the list of calls, and one of these."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t

from invocations.admin.call_list import status
from invocations.admin.filters import refuse_bodies
from invocations.admin.reading import body_block, hidden_words, may_read_bodies
from invocations.chain import service
from invocations.chain.verifier import Bad
from invocations.models import McpToolInvocation
from invocations.rest import reads
from invocations.rest.serializers import BODIES
from mcphub.features.archive.answers import told_page
from mcphub.features.archive.conditions import ARCHIVE_FILTERS
from mcphub.features.archive.duck import NoDuckDB, find_duckdb
from mcphub.features.archive.manifests import Manifest
from mcphub.features.archive.searching import (
    ArchiveBusy,
    ArchivedCall,
    ArchivePage,
    ArchiveProblem,
    Bounds,
    NoArchive,
    manifests_of_settings,
    search,
)
from sessions_app.kit.admin.search_line import offered
from sessions_app.kit.lists import searching
from sessions_app.kit.lists.searching import LONGEST, Search
from sessions_app.kit.shown import clipped, duration, pretty, size, visible
from sessions_app.protocol.errors import AuditUnavailable
from sessions_app.workspaces.acting import PAGES
from sessions_app.workspaces.scope import current

PAGES.update({"archive", "archive-complete", "archived-call"})

VIEW: Final = "invocations.view_mcptoolinvocation"
_MOST: Final = 50
_CONDITIONS: Final = {ArchiveBusy: HTTPStatus.SERVICE_UNAVAILABLE, Bad: HTTPStatus.CONFLICT}
_HINT: Final = "tool:pay status:error time:2026-10-31"


@dataclass(frozen=True, slots=True)
class ShownArchivedCall:
    """A row of the page."""

    moment: str
    status: SafeString
    what: str
    caller: str
    duration: str
    code: str
    month: str
    position: int
    place: str
    """With the file between them."""
    link: str


@dataclass(slots=True)
class Searched:
    """The outcome of a search: calls, or a problem."""

    rows: list[ShownArchivedCall] = field(default_factory=list)
    read: str = ""
    older: str = ""
    """The address of the next page."""
    problem: str = ""
    status: HTTPStatus = HTTPStatus.OK


def archive_view(request: HttpRequest) -> HttpResponse:
    _check(request)
    text, is_asked = request.GET.get("q", "").replace("\0", ""), "q" in request.GET
    asked = searching.read(text, ARCHIVE_FILTERS)
    refuse_bodies(request, asked)
    months, problem = _months()
    found = Searched(problem=problem, status=HTTPStatus.CONFLICT if problem else HTTPStatus.OK)
    if not find_duckdb():
        found = Searched(problem=str(NoDuckDB()))
    elif months and is_asked and not asked.problems:
        found = _searched(asked, _before(request))
    context = {
        **admin.site.each_context(request),
        "title": _t("Archive"),
        "line": {"query": text, "filter_params": {}},
        "finding": {
            "problems": [visible(each.words, one_line=True) for each in asked.problems],
            "complete": reverse("archive-complete"),
            "help": _t("%(line)s – or an ID, or words of a name") % {"line": _HINT},
        },
        "is_asked": is_asked and not asked.problems,
        "found": found,
        "months": [_month(each) for each in reversed(months)],
        "within": current(),
        "folder": settings.MCPHUB_ARCHIVE_DIR,
    }
    return TemplateResponse(request, "archive/archive.html", context, status=found.status)


def archived_call_view(request: HttpRequest, position: int) -> HttpResponse:
    """Show one archived call; its bodies to readers of bodies, once that is on record."""
    _check(request)
    may_read = may_read_bodies(request)
    found = _found(Search(""), position + 1, since=position, with_bodies=may_read)
    if isinstance(found, Searched):
        return _shown_call(request, {"problem": found.problem}, found.status)
    if not found.calls:
        raise Http404
    (archived,) = found.calls
    call = archived.call
    if may_read:
        try:
            reads.note(request.user, request.path, list(BODIES), [call.pk], call.invocation_id)
        except AuditUnavailable as problem:
            return _shown_call(request, {"problem": str(problem)}, HTTPStatus.SERVICE_UNAVAILABLE)
    members: dict[str, Any] = told_page(found, hidden=not may_read)["results"][0]
    members.pop("archived")
    titles = {"arguments": _t("Arguments"), "result": _t("Result"), "error": _t("Error")}
    live = McpToolInvocation.objects.filter(pk=call.pk, invocation_id=call.invocation_id)
    more = {
        "call": archived,
        "shown": _row(archived),
        "members": [
            (name, visible(value if isinstance(value, str) else pretty(value), one_line=True))
            for name, value in members.items()
            if value not in (None, "", {}) and name not in (*BODIES, "bodies_hidden")
        ],
        "bodies": [
            (name, title, body_block(getattr(call, name), title))
            for name, title in titles.items()
            if may_read and getattr(call, name) is not None
        ],
        "hidden": "" if may_read else hidden_words(),
        "live": reverse("admin:invocations_mcptoolinvocation_change", args=[call.pk]) if live.exists() else "",
        "json": f"{reverse('archived-call-list')}?{urlencode({'cursor': position + 1, 'limit': 1})}",
    }
    return _shown_call(request, more, HTTPStatus.OK)


def complete_view(request: HttpRequest) -> HttpResponse:
    """Return the completions at the caret."""
    _check(request)
    text = request.GET.get("text", "")[:LONGEST].replace("\0", "")
    found = [{"text": each.text, "words": each.words, "on": each.goes_on} for each in offered(text, ARCHIVE_FILTERS)]
    return JsonResponse({"offered": found}, headers={"Cache-Control": "no-store"})


def _check(request: HttpRequest) -> None:
    if not request.user.has_perm(VIEW):
        raise PermissionDenied


def _shown_call(request: HttpRequest, more: dict[str, object], status: HTTPStatus) -> HttpResponse:
    context = {**admin.site.each_context(request), "title": _t("Archived call"), **more}
    return TemplateResponse(request, "archive/call.html", context, status=status)


def _months() -> tuple[list[Manifest], str]:
    """Return the archived months, or the problem with them."""
    try:
        return manifests_of_settings(), ""
    except Bad as bad:
        return [], _not_as_signed(bad)
    except OSError as error:
        return [], _unreadable(error)


def _month(manifest: Manifest) -> dict[str, object]:
    return {
        "name": manifest.month,
        "link": f"?{urlencode({'q': f'time:{manifest.month}'}, safe=':')}",
        "rows": number_format(manifest.rows, force_grouping=True),
        "blocks": f"{manifest.first_block} – {manifest.last_block}",
        "files": len(manifest.parts),
        "size": size(sum(each["bytes"] for each in manifest.files.values())),
        "made_at": datetime.fromisoformat(manifest.values["made_at"]),
    }


def _before(request: HttpRequest) -> int | None:
    word = request.GET.get("before", "")
    return int(word) if word.isascii() and word.isdecimal() and len(word) <= 18 else None


def _searched(asked: Search, before: int | None) -> Searched:
    page = _found(asked, before)
    if isinstance(page, Searched):
        return page
    older = "" if page.next is None else f"?{urlencode({'q': asked.text, 'before': page.next}, safe=':')}"
    return Searched([_row(each) for each in page.calls], _read(page), older)


def _found(asked: Search, before: int | None, **told: Any) -> ArchivePage | Searched:
    told |= {"most": _MOST, "bounds": Bounds.of_settings(), "scope": current(), "before": before}
    try:
        return search(settings.MCPHUB_ARCHIVE_DIR, service.keys().publics(), asked, **told)
    except NoArchive:
        return ArchivePage()
    except (ArchiveProblem, NoDuckDB) as problem:
        return Searched(problem=str(problem), status=_CONDITIONS.get(type(problem), HTTPStatus.OK))
    except Bad as bad:
        return Searched(problem=_not_as_signed(bad), status=HTTPStatus.CONFLICT)
    except OSError as error:
        return Searched(problem=_unreadable(error), status=HTTPStatus.CONFLICT)


def _not_as_signed(bad: Bad) -> str:
    return _t("The archive is not as it was signed, so nothing was searched: %(reason)s") % {"reason": bad}


def _unreadable(error: OSError) -> str:
    return _t("The archive cannot be read: %(reason)s.") % {"reason": error.strerror}


def _row(archived: ArchivedCall) -> ShownArchivedCall:
    call = archived.call
    version = f"v{call.tool_version}" if call.tool_version else call.method or ""
    return ShownArchivedCall(
        moment=timezone.localtime(call.started_at).strftime("%Y-%m-%d %H:%M:%S"),
        status=status(call),
        what=f"{clipped(call.what, 64)} {version}".strip(),
        caller=clipped(call.caller_label or call.principal, 80),
        duration="-" if call.duration_ms is None else duration(call.duration_ms),
        code=clipped(call.error_code or "-", 64),
        month=archived.month,
        position=archived.position,
        place=f"{archived.month}/{archived.file}:{archived.position}",
        link=reverse("archived-call", args=[archived.position]),
    )


def _read(page: ArchivePage) -> str:
    if not page.files:
        return _t("No archived file holds calls of this time, so none was read.")
    words = _t("Files read: %(files)d, %(size)s, of %(months)s. All are as they were signed.") % {
        "files": page.files,
        "size": size(page.bytes),
        "months": ", ".join(page.months),
    }
    if page.is_cut:
        words += " " + _t("One page reads at most %(mib)d MiB; older calls are on the next.") % {
            "mib": settings.MCPHUB_ARCHIVE_SEARCH_MIB
        }
    return words


urlpatterns = [
    path("archive/", admin.site.admin_view(archive_view), name="archive"),
    path("archive/complete/", admin.site.admin_view(complete_view), name="archive-complete"),
    path("archive/<int:position>/", admin.site.admin_view(archived_call_view), name="archived-call"),
]
