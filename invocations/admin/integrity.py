"""Whether the audit is as it was sealed: a report, a verification with a bound on time, and the signed checkpoints."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, connection
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.formats import number_format
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from invocations.admin.reading import may_read_bodies
from invocations.chain import checking, exporting, publishing, service, watching
from invocations.chain.keys import KeyFolder, KeyProblem
from invocations.chain.log import Log
from invocations.chain.models import AuditBlock, AuditTombstone, AuditVerification
from invocations.chain.records import RowSelection
from invocations.chain.sealer import checkpoint_note
from invocations.chain.verifier import Bad
from invocations.models import McpToolInvocation
from invocations.rest.exports import ExportPipe
from sessions_app.history import events
from sessions_app.history.events import actor_of
from sessions_app.kit.admin.base import detail_action
from sessions_app.kit.database import Dedicated
from sessions_app.kit.shown import visible

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import HubAdmin as _Pages
else:
    _Pages = object

MOST_SECONDS = 8.0
"""So long the newest blocks are verified while the person waits; the command verifies all, however long."""
_MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification: the newest block, the oldest that was reached, and the problem, if any."""

    newest: int
    oldest: int
    wrong: str = ""


def verify_newest(seconds: float = MOST_SECONDS) -> Verified | None:
    """Verify blocks from the newest down until the time is over or none is left; None where nothing is sealed."""
    log, keys = service.log_on(connection), service.keys()
    size = log.size()
    if size == 0:
        return None
    began = time.monotonic()
    found = _verify_down(log, keys, size, began + seconds)
    blocks = found.newest - found.oldest + 1
    watching.record(log, "page", size, blocks, time.monotonic() - began, found.wrong)
    return found


def _verify_down(log: Log, keys: KeyFolder, size: int, until: float) -> Verified:
    number = size
    while number > 0 and (number == size or time.monotonic() < until):
        number -= 1
        block = log.block(number)
        try:
            if block is None:
                raise Bad(f"Block {number} is missing; the log tells of {size} blocks.")
            checking.verify_block(log, keys, block)
        except Bad as problem:
            watching.keep(log, size, str(problem))  # an alarm everywhere, not on this page alone
            service.alarm_file().sound(str(problem))
            return Verified(size - 1, number, visible(problem))
        except KeyProblem as problem:
            return Verified(size - 1, number, visible(problem))
    return Verified(size - 1, number)


class IntegrityPage(_Pages):
    """For the admin of blocks."""

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("integrity/", wrap(self.integrity_view), name="audit_integrity"),
            path("checkpoint/<int:size>/", wrap(self.checkpoint_view), name="audit_checkpoint"),
            path("export/", wrap(self.export_view), name="audit_export"),
            *super().get_urls(),
        ]

    @detail_action(description=_("Integrity"), icon="verified_user", url_path="is-whole", permissions=["view"])
    def show_integrity(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:audit_integrity")

    def integrity_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        last = AuditBlock.objects.order_by("-number").first()
        through = last.invocations_through if last else 0
        waiting = McpToolInvocation.objects.filter(pk__gt=through).order_by().values("pk")[: _MOST_COUNTED + 1].count()
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _t("Audit log integrity"),
            "last": last,
            "size": last.number + 1 if last else 0,
            "rows": number_format(last.first_position + last.row_count, force_grouping=True) if last else "0",
            "waiting": number_format(min(waiting, _MOST_COUNTED), force_grouping=True)
            + ("+" if waiting > _MOST_COUNTED else ""),
            "published": _published(last),
            "tombstones": AuditTombstone.objects.order_by("-id")[:20],
            "verifications": AuditVerification.objects.all()[:10],
            "may_export": may_read_bodies(request),
            "asked": request.method == "POST",
            "found": verify_newest() if request.method == "POST" else None,
        }
        return TemplateResponse(request, "admin/hub/integrity.html", context)

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Stream all sealed rows as a verifiable file: the output of `mcphub audit export`. It is on record."""
        if not self.has_view_permission(request) or not may_read_bodies(request):
            raise PermissionDenied
        if request.method != "POST":  # its address was opened
            return redirect("admin:audit_integrity")
        after = {"format": "jsonl", "filters": {}, "first_block": 0}
        try:
            events.record("audit.exported", actor=actor_of(request.user), label=request.path, after=after)
        except DatabaseError:
            return HttpResponse(
                _t("The export could not be recorded in the audit log, so no file was created. Try again."), status=503
            )

        def write(out: BinaryIO) -> None:
            database = Dedicated()
            try:
                exporting.write_jsonl(out, service.log_of(database), service.keys(), RowSelection())
            finally:
                database.close()

        answer = StreamingHttpResponse(ExportPipe(write).chunks(), content_type="application/jsonl")
        answer["Content-Disposition"] = 'attachment; filename="audit.jsonl"'
        answer["X-Content-Type-Options"] = "nosniff"
        answer["Cache-Control"] = "no-store"
        return answer

    def checkpoint_view(self, request: HttpRequest, size: int) -> HttpResponse:
        """Return the signed note of the log when it had so many blocks, as a file."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            note = checkpoint_note(service.log_on(connection), service.keys(), size)
        except KeyProblem as problem:
            raise Http404(str(problem)) from problem
        named = {"Content-Disposition": f'attachment; filename="checkpoint-{size}.txt"'}
        return HttpResponse(note, content_type="text/plain; charset=utf-8", headers=named)


def _published(last: AuditBlock | None) -> dict[str, object]:
    """Return whether the checkpoints that left the database agree with it."""
    try:
        kept = publishing.published(service.checkpoints())
    except Bad as problem:
        return {"count": 0, "wrong": visible(problem)}
    size = last.number + 1 if last else 0
    roots = dict(
        AuditBlock.objects.filter(number__in=[each.size - 1 for each in kept[-500:]]).values_list("number", "tree_root")
    )
    for each in kept[-500:]:
        if each.size > size:
            words = _t(
                "A checkpoint covers %(signed)d blocks, but the log has only %(size)d: the log was truncated, or "
                "is an old copy."
            )
            return {"count": len(kept), "wrong": words % {"signed": each.size, "size": size}}
        if roots.get(each.size - 1) != each.root.hex():
            words = _t("The checkpoint of %(size)d blocks doesn't match the log.") % {"size": each.size}
            return {"count": len(kept), "wrong": words}
    return {"count": len(kept), "wrong": ""}
