"""Filters of the list of calls. Each compares exactly, so that an index answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Max, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from invocations.rest import jsonpath, reads
from sessions_app.models import McpSession
from sessions_app.protocol import errors
from sessions_app.protocol.errors import AuditUnavailable

SEARCHED_CALLS = 200_000
"""What has no index of its own is looked for among so many of the newest calls."""

if TYPE_CHECKING:
    _Text = admin.SimpleListFilter
    _Choice = admin.SimpleListFilter
else:
    from unfold.contrib.filters.admin import DropdownFilter as _Choice
    from unfold.contrib.filters.admin import TextFilter as _Text


class _Exactly(_Text):
    """A box to write in; what is written must match whole."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        written = (self.value() or "").strip()
        return self.narrow(queryset, written) if written else queryset

    def narrow(self, queryset: QuerySet[Any], written: str) -> QuerySet[Any]:
        return queryset.filter(**{str(self.parameter_name): written})


class ToolFilter(_Exactly):
    title = _("tool (exact name)")
    parameter_name = "tool_name"


class PrincipalFilter(_Exactly):
    title = _("principal (key:1, user:1, …)")
    parameter_name = "principal"


class SessionFilter(_Exactly):
    title = _("session id")
    parameter_name = "session"


class ClientFilter(_Exactly):
    title = _("client (exact name)")
    parameter_name = "client"

    def narrow(self, queryset: QuerySet[Any], written: str) -> QuerySet[Any]:
        # Sessions are few and calls are many; calls have an index by session.
        return queryset.filter(session__in=McpSession.objects.filter(client_name=written).order_by().values("pk"))


class ConnectionFilter(_Exactly):
    title = _("connection (short name)")
    parameter_name = "connection"


class TurnFilter(_Exactly):
    title = _("turn of a chat")
    parameter_name = "turn_id"


class ArgumentFilter(_Text):
    """One place in the arguments and the value there; also what redaction left of it."""

    title = _('argument, such as $.city="Berlin"')
    parameter_name = "arguments"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        written = self.value() or ""
        if not written:
            return queryset
        try:
            condition = jsonpath.parse(written)
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
            return queryset.none()
        if not request.user.has_perm("invocations.read_bodies"):
            messages.error(request, _("Your account may not read bodies, so not search them."))
            return queryset.none()
        query = {"arguments": condition.recorded()}
        try:
            reads.note(request.user, request.path, [], [], searched=["arguments"], query=query)
        except AuditUnavailable as error:
            messages.error(request, str(error))
            return queryset.none()
        newest = queryset.model._default_manager.aggregate(newest=Max("id"))["newest"] or 0
        found = condition.on(queryset.model._meta.db_table, "arguments")
        return queryset.filter(found, id__gt=newest - SEARCHED_CALLS)


class ErrorCodeFilter(_Choice):
    title = _("error code")
    parameter_name = "code"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(code, code) for code in sorted(errors.INTERNAL_CODES)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        # The status is the partial index's own condition.
        return queryset.filter(error_code=self.value(), status="error") if self.value() else queryset


class DuplicateFilter(_Choice):
    title = _("duplicates")
    parameter_name = "duplicate"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("Only duplicates")), ("no", _("Without duplicates"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "yes":
            return queryset.exclude(duplicate_of="")
        return queryset.filter(duplicate_of="") if self.value() == "no" else queryset
