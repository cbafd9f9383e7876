"""The calls that the list's address finds, as a file: streamed, newest first, and on record.

The rows are those of GET /api/invocations/, with the same names. Exports contain no redacted values: they were never
stored, and `left_out` marks the places in each row. The last line confirms that the file is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, connection
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _t

from invocations.admin.live import still_sees
from invocations.admin.reading import may_read_bodies
from invocations.chain.exporting import BYTE_ORDER_MARK, csv_line, for_spreadsheets
from invocations.lists.erased import marked
from invocations.lists.filters import CALL_FILTERS, SEARCHED_BODIES
from invocations.lists.jsonpath import parse
from invocations.models import McpToolInvocation
from invocations.rest.exports import ExportPipe
from invocations.rest.serializers import BODIES, InvocationSerializer
from sessions_app.history import events
from sessions_app.history.events import actor_of
from sessions_app.kit.admin.changelist import POSITION
from sessions_app.kit.admin.parts import ListPart
from sessions_app.kit.lists import searching
from sessions_app.kit.lists.searching import Search, SearchToken, keys
from sessions_app.kit.lists.walking import newest, newest_id
from sessions_app.protocol import json
from sessions_app.workspaces import scope

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import HubAdmin

_CSV = "text/csv; charset=utf-8"
FORMATS = {"jsonl": "application/jsonl", "csv": _CSV, "seen": _CSV}
MEMBERS = InvocationSerializer.Meta.fields
_SEEN = {
    "time": ["started_at"],
    "tool": ["tool_name", "tool_version", "method", "target"],
    "caller": ["caller_label", "principal"],
    "client": ["client_name", "client_version"],
    "duration": ["duration_ms"],
    "code": ["error_code"],
    "duplicate": ["duplicate_of", "replay_of", "continues", "occurrences"],
    "turn": ["turn_id"],
    "session": ["session_id"],
    "invocation": ["invocation_id"],
    "id": ["sequence"],
}
"""Column of the list -> members that it shows, if they have other names."""
AT_ONCE = 500
"""Rows in memory."""
SECONDS = 1.0
"""After this, the reader's permissions are checked again."""


class ExportForm(ListPart):
    """Offers the matches of the list's filters as a file."""

    def urls(self, page: HubAdmin) -> list[URLPattern]:
        return [path("export/", page.admin_site.admin_view(partial(self.export_view, page)), name="invocation_export")]

    def context(self, page: HubAdmin, request: HttpRequest) -> dict[str, object]:
        if scope.current() is not None:  # a file is written outside of the request, and so of its workspace
            return {}
        query = request.GET.copy()
        for name in POSITION:
            query.pop(name, None)
        address = f"{reverse('admin:invocation_export')}?{query.urlencode()}"
        return {"export": {"address": address, "may_read": may_read_bodies(request)}}

    def export_view(self, page: HubAdmin, request: HttpRequest) -> HttpResponseBase:
        """Stream the rows; the form selects the format, and whether bodies are included."""
        if not page.has_view_permission(request):
            raise PermissionDenied
        if request.method != "POST":  # its address was opened, or its answer loaded again
            messages.warning(request, _t("Under Export, choose the content of the file, then press Download."))
            return redirect(f"{reverse('admin:invocations_mcptoolinvocation_changelist')}?{request.GET.urlencode()}")
        form, with_bodies = request.POST.get("format", ""), "bodies" in request.POST
        if form not in FORMATS:
            return HttpResponseBadRequest(_t("Choose jsonl, csv or seen."))
        if with_bodies and not may_read_bodies(request):
            raise PermissionDenied
        try:
            rows = page.get_changelist_instance(request).queryset
            if page.search_of(request).problems:
                raise IncorrectLookupParameters
        except IncorrectLookupParameters:
            return HttpResponseBadRequest(_t("This list can't be exported. Open it again and export it from there."))
        last = newest_id(rows)
        members = _seen(page, request) if form == "seen" else MEMBERS
        after = {"format": form, "filters": _recorded(page, request), "bodies": with_bodies, "through": last}
        try:
            events.record("audit.exported", actor=actor_of(request.user), label=request.path, after=after)
        except DatabaseError:
            return HttpResponse(
                _t("The export could not be recorded in the audit log, so no file was created. Try again."), status=503
            )

        def write(out: BinaryIO) -> None:
            try:
                if form != "jsonl":
                    out.write(BYTE_ORDER_MARK + csv_line(members))
                count = 0
                for batch in _batches(rows, last, with_bodies):
                    if not still_sees(request):
                        raise PermissionDenied  # the answer ends unfinished, without its last line
                    out.write(_lines(form, batch, members, with_bodies))
                    count += len(batch)
                out.write(_end(form, members, count, last))
            finally:
                connection.close()  # this thread's own

        answer = StreamingHttpResponse(ExportPipe(write).chunks(), content_type=FORMATS[form])
        answer["Content-Disposition"] = f'attachment; filename="calls.{"jsonl" if form == "jsonl" else "csv"}"'
        answer["X-Content-Type-Options"] = "nosniff"
        answer["Cache-Control"] = "no-store"
        return answer


def _recorded(page: HubAdmin, request: HttpRequest) -> dict[str, object]:
    """Return the list's filters for the record, without the values searched for in bodies."""
    query: dict[str, Any] = {name: value for name, value in request.GET.items() if value}
    for name in SEARCHED_BODIES:
        if name in query:
            query[name] = parse(query[name]).recorded()
    if "q" in query:
        search = page.search_of(request)
        query["q"] = " ".join(_of_record(search, token) for token in search.tokens)
    return query


def _of_record(search: Search, token: SearchToken) -> str:
    if token.key not in SEARCHED_BODIES:
        return search.text[token.begin : token.end]
    sign = "-" if token.is_excluded else ""
    return f"{sign}{token.key}:{parse(searching.values_of(keys(CALL_FILTERS)[token.key], token.value)[0]).recorded()}"


def _batches(rows: QuerySet[McpToolInvocation], last: int, with_bodies: bool) -> Iterator[list[McpToolInvocation]]:
    """Return the rows down from a sequence; an empty batch where none was found for a while."""
    rows = rows.defer(None)
    if not with_bodies:
        rows = marked(rows.defer(*BODIES))
    while True:
        found, reached = newest(rows.filter(id__lte=last), AT_ONCE, seconds=SECONDS)
        yield found
        if reached is None and len(found) < AT_ONCE:
            return
        last = found[-1].pk - 1 if reached is None else reached


def _seen(page: HubAdmin, request: HttpRequest) -> list[str]:
    """Return the members shown by the list's columns, in their order."""
    names = [str(getattr(each, "__name__", each)) for each in page.get_list_display(request)]
    names = [name.removeprefix("shown_").removeprefix("listed_") for name in names]
    found = [member for name in names for member in _SEEN.get(name, [name])]
    return [name for name in dict.fromkeys(found) if name in MEMBERS and name not in BODIES]


def _lines(form: str, rows: list[McpToolInvocation], members: list[str], with_bodies: bool) -> bytes:
    context = {"hidden": not with_bodies, "fields": members}
    records = InvocationSerializer(rows, many=True, context=context).data
    if form == "jsonl":
        return b"".join(json.dumps(dict(row)) + b"\n" for row in records)
    return b"".join(csv_line([_cell(row[name]) for name in members]) for row in records)


def _end(form: str, members: list[str], rows: int, last: int) -> bytes:
    """Return the last line of a file that is whole."""
    if form == "jsonl":
        return json.dumps({"end": {"rows": rows, "through": last}}) + b"\n"
    return csv_line(["end", rows, *[""] * (len(members) - 2)])


def _cell(value: object) -> object:
    return for_spreadsheets(json.dumps(value).decode() if isinstance(value, (dict, list)) else value)
