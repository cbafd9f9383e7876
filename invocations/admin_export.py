"""The calls that the list's address finds, as a file: streamed, newest first, and on record.

The rows are those of GET /api/invocations/, with the same names. What redaction removed is in no export: it was never
stored, and `left_out` says of each row where something is missing. The last line says that the file is whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, connection
from django.db.models import Max, QuerySet
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseBase,
    StreamingHttpResponse,
)
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils.translation import gettext as _t

from invocations.admin_filters import SEARCHED_BODIES, stretch_for
from invocations.admin_live import still_sees
from invocations.admin_reading import may_read_bodies
from invocations.admin_walking import bounds
from invocations.chain import events
from invocations.chain.exporting import csv_line, for_spreadsheets
from invocations.governance import actor_of
from invocations.models import McpToolInvocation
from invocations.rest import jsonpath
from invocations.rest.exports import Pipe
from invocations.rest.serializers import BODIES, InvocationSerializer
from invocations.rest.walking import walk
from sessions_app.admin_changelist import POSITION
from sessions_app.protocol import json

if TYPE_CHECKING:
    _Base = admin.ModelAdmin[McpToolInvocation]
else:
    _Base = object

FORMATS = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
MEMBERS = InvocationSerializer.Meta.fields
AT_ONCE = 500
"""Rows in memory."""
SECONDS = 1.0
"""Then the rights of who reads are asked for anew."""


class ExportedList(_Base):
    """Offers what the list's filters find as a file."""

    def get_urls(self) -> list[Any]:
        return [
            path("export/", self.admin_site.admin_view(self.export_view), name="invocation_export"), *super().get_urls()
        ]  # fmt: skip

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        query = request.GET.copy()
        for name in POSITION:
            query.pop(name, None)
        export = {
            "address": f"{reverse('admin:invocation_export')}?{query.urlencode()}",
            "may_read": may_read_bodies(request),
        }
        return super().changelist_view(request, {"export": export, **(extra_context or {})})

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Stream the rows; the form says the format and whether bodies are among them."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method != "POST":  # its address was opened, or its answer loaded again
            messages.warning(request, _t("Choose under Export what the file holds, then press Download."))
            return redirect(f"{reverse('admin:invocations_mcptoolinvocation_changelist')}?{request.GET.urlencode()}")
        form, with_bodies = request.POST.get("format", ""), "bodies" in request.POST
        if form not in FORMATS:
            return HttpResponseBadRequest(_t("Choose jsonl or csv."))
        if with_bodies and not may_read_bodies(request):
            raise PermissionDenied
        try:
            rows = self.get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            return HttpResponseBadRequest(_t("This list cannot be exported. Open it again, and export it from there."))
        newest = McpToolInvocation.objects.order_by().aggregate(newest=Max("id"))["newest"] or 0
        after = {"format": form, "filters": _recorded(request), "bodies": with_bodies, "through": newest}
        try:
            events.record("audit.exported", **actor_of(request.user), label=request.path, after=after)
        except DatabaseError:
            return HttpResponse(_t("An export is recorded, and that failed, so there is none. Try again."), status=503)

        def write(out: Any) -> None:
            try:
                if form == "csv":
                    out.write(csv_line(MEMBERS))
                count = 0
                for batch in _batches(rows, newest, with_bodies, stretch_for(request)):
                    if not still_sees(request):
                        raise PermissionDenied  # the answer ends unfinished, without its last line
                    out.write(_lines(form, batch, with_bodies))
                    count += len(batch)
                out.write(_end(form, count, newest))
            finally:
                connection.close()  # this thread's own

        answer = StreamingHttpResponse(Pipe(write).chunks(), content_type=FORMATS[form])
        answer["Content-Disposition"] = f'attachment; filename="calls.{form}"'
        answer["X-Content-Type-Options"] = "nosniff"
        answer["Cache-Control"] = "no-store"
        return answer


def _recorded(request: HttpRequest) -> dict[str, Any]:
    """Give the list's filters as the record keeps them."""
    query: dict[str, Any] = {name: value for name, value in request.GET.items() if value}
    for name in SEARCHED_BODIES:
        if name in query:
            query[name] = jsonpath.parse(query[name]).recorded()
    return query


def _batches(
    rows: QuerySet[McpToolInvocation], newest: int, with_bodies: bool, stretch: int
) -> Iterator[list[McpToolInvocation]]:  # fmt: skip
    """Give the rows down from a sequence; an empty batch where none was found for a while."""
    least, most = bounds(rows.query.where)
    ordered = rows.order_by("-id").defer(None)
    if not with_bodies:
        ordered = ordered.defer(*BODIES)
    top = min(newest, most)
    while top >= least:
        found, reached = walk(ordered, top, least, AT_ONCE, stretch=stretch, seconds=SECONDS)
        yield found
        if reached is None and len(found) < AT_ONCE:
            return
        top = found[-1].pk - 1 if reached is None else reached


def _lines(form: str, rows: list[McpToolInvocation], with_bodies: bool) -> bytes:
    context = {"hidden": not with_bodies, "fields": MEMBERS}
    told = InvocationSerializer(rows, many=True, context=context).data
    if form == "jsonl":
        return b"".join(json.dumps(dict(row)) + b"\n" for row in told)
    return b"".join(csv_line([_cell(row[name]) for name in MEMBERS]) for row in told)


def _end(form: str, rows: int, newest: int) -> bytes:
    """Give the last line of a file that is whole."""
    if form == "jsonl":
        return json.dumps({"end": {"rows": rows, "through": newest}}) + b"\n"
    return csv_line(["end", rows, *[""] * (len(MEMBERS) - 2)])


def _cell(value: Any) -> Any:
    return for_spreadsheets(json.dumps(value).decode() if isinstance(value, (dict, list)) else value)
