"""Admin pages that show bodies: to who may read them, and only once the reading is on record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from invocations.rest import reads
from sessions_app.admin_base import UncountedAdmin
from sessions_app.protocol.errors import AuditUnavailable

READ_BODIES = "invocations.read_bodies"


def may_read_bodies(request: HttpRequest, *permissions: str) -> bool:
    """Say whether bodies are shown: to who has one of the permissions, unless the reading could not be recorded."""
    if hasattr(request, "_unrecorded"):
        return False
    return any(request.user.has_perm(each) for each in permissions or (READ_BODIES,))


class RecordedReading(UncountedAdmin):
    """No record, no bodies."""

    bodies: tuple[str, ...] = ()
    """What a row's page shows of bodies."""
    body_columns: ClassVar[dict[str, str]] = {}
    """What the list shows of them: column -> body."""
    read_permissions: tuple[str, ...] = (READ_BODIES,)
    """Each of them allows the reading."""

    def may_read(self, request: HttpRequest) -> bool:
        return may_read_bodies(request, *self.read_permissions)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None and self.bodies and self.may_read(request):
            subject = getattr(row, "invocation_id", None) or str(row.pk)
            self._note(request, self.bodies, [row.pk], subject)
        return row

    def get_list_display(self, request: HttpRequest) -> Any:
        may_read = self.may_read(request)
        return [name for name in super().get_list_display(request) if may_read or name not in self.body_columns]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        answer = super().changelist_view(request, extra_context)
        found = (getattr(answer, "context_data", None) or {}).get("cl")
        if found is not None:
            self._note_list(request, found)
        return answer

    def _note_list(self, request: HttpRequest, found: Any) -> None:
        shown = [name for name in found.list_display if name in self.body_columns]
        rows = [row.pk for row in found.result_list] if shown else []
        if rows and not self._note(request, [self.body_columns[name] for name in shown], rows):
            found.list_display = [name for name in found.list_display if name not in self.body_columns]

    def _note(self, request: HttpRequest, bodies: Sequence[str], rows: list[Any], subject: str = "") -> bool:
        ids = [row if isinstance(row, int) else str(row) for row in rows]
        try:
            reads.note(request.user, request.path, list(bodies), ids, subject)
        except AuditUnavailable:
            request._unrecorded = True  # type: ignore[attr-defined]  # it lasts as long as the request
            messages.error(request, _("Who reads bodies is recorded, and that failed, so none are shown. Try again."))
            return False
        return True
