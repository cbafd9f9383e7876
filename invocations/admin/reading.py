"""Console pages with bodies: shown only with the permission, and once the reading is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from invocations.lists.erased import digest_of
from invocations.rest import reads
from sessions_app.kit.admin.base import HubAdmin, UncountedAdmin
from sessions_app.kit.admin.changelist import HubList
from sessions_app.kit.admin.parts import Column, ListPart
from sessions_app.kit.shown import json_block, mono
from sessions_app.protocol.errors import AuditUnavailable

READ_BODIES = "invocations.read_bodies"


def may_read_bodies(request: HttpRequest, *permissions: str) -> bool:
    """Return whether bodies are shown: one of the permissions is required, and the reading must be recorded."""
    if hasattr(request, "_unrecorded"):
        return False
    return any(request.user.has_perm(each) for each in permissions or (READ_BODIES,))


def body_block(value: object, name: str) -> SafeString:
    """Return a body as a block, or a sentence if it is erased."""
    if digest := digest_of(value):
        return format_html(
            "{}<br>{} {}", _t("Erased by retention."), _t("SHA-256 of the erased content:"), mono(digest)
        )
    return json_block(value, name)


class BodyColumns(ListPart):
    """Columns with bodies, shown with the permission once the reading is recorded."""

    def columns(self, page: HubAdmin, request: HttpRequest, usual: list[Column]) -> list[Column]:
        assert isinstance(page, RecordedReading)
        may_read = page.may_read(request)
        return [name for name in usual if may_read or name not in page.body_columns]

    def listed(self, page: HubAdmin, request: HttpRequest, shown: HubList) -> None:
        assert isinstance(page, RecordedReading)
        names = [name for name in shown.list_display if isinstance(name, str) and name in page.body_columns]
        rows = [row.pk for row in shown.result_list] if names else []
        if rows and not page.note(request, [page.body_columns[name] for name in names], rows):
            shown.list_display = [name for name in shown.list_display if name not in names]


def hidden_words() -> str:
    """Return the sentence that replaces a hidden body."""
    return _t("Hidden: your account can't read arguments, results and errors of calls.")


class HiddenBodies(ListPart):
    """Displays a notice above a list whose body columns are hidden; see `admin/hub/hidden_bodies.html`."""

    def context(self, page: HubAdmin, request: HttpRequest) -> dict[str, object]:
        assert isinstance(page, RecordedReading)
        return {} if page.may_read(request) else {"hidden_bodies": hidden_words()}


class RecordedReading(UncountedAdmin):
    """No record, no bodies."""

    parts: Sequence[ListPart] = (BodyColumns(),)
    bodies: tuple[str, ...] = ()
    """The bodies on a row's page."""
    body_columns: ClassVar[dict[str, str]] = {}
    """The bodies in the list: column -> body."""
    read_permissions: tuple[str, ...] = (READ_BODIES,)
    """Each of them allows the reading."""

    def may_read(self, request: HttpRequest) -> bool:
        return may_read_bodies(request, *self.read_permissions)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None and self.bodies and self.may_read(request):
            subject = getattr(row, "invocation_id", None) or str(row.pk)
            self.note(request, self.bodies, [row.pk], subject)
        return row

    def note(self, request: HttpRequest, bodies: Sequence[str], rows: list[object], subject: str = "") -> bool:
        ids = [row if isinstance(row, int) else str(row) for row in rows]
        try:
            reads.note(request.user, request.path, list(bodies), ids, subject)
        except AuditUnavailable:
            request._unrecorded = True  # type: ignore[attr-defined]  # it lasts as long as the request
            messages.error(
                request,
                _(
                    "Reading bodies must be recorded in the audit log, and that failed, so no bodies are shown. "
                    "Try again."
                ),
            )
            return False
        return True
