"""Filters of the list of calls. Each compares exactly, so that an index answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from invocations.rest import jsonpath, reads
from invocations.rest.filters import span
from invocations.rest.walking import FIRST_STRETCH, FIRST_STRETCH_OF_BODIES
from sessions_app.admin_changelist import ChoiceFilter, TimeRangeFilter
from sessions_app.protocol import errors
from sessions_app.protocol.errors import AuditUnavailable

SEARCHED_BODIES = ("arguments", "result")
"""Parameters that look for a value inside of bodies."""

if TYPE_CHECKING:
    _Text = admin.SimpleListFilter
    _Numbers = admin.FieldListFilter
else:
    from unfold.contrib.filters.admin import RangeNumericFilter as _Numbers
    from unfold.contrib.filters.admin import TextFilter as _Text


class _Exactly(_Text):
    """A box to write in; what is written must match whole."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        written = (self.value() or "").strip()
        return self.narrow(queryset, written) if written else queryset

    def narrow(self, queryset: QuerySet[Any], written: str) -> QuerySet[Any]:
        return queryset.filter(**{str(self.parameter_name): written})


class StartedFilter(TimeRangeFilter):
    """A range of time, as bounds of the sequence too: what is older or newer is then not read."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        where = span(*self.bounds())
        return queryset.none() if where is None else where.of(super().queryset(request, queryset))


class ToolFilter(_Exactly):
    title = _("tool (exact name)")
    parameter_name = "tool_name"


class VersionFilter(_Exactly):
    title = _("version of the tool")
    parameter_name = "tool_version"


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
        return queryset.filter(client_name=written)


class ClientVersionFilter(_Exactly):
    title = _("version of the client")
    parameter_name = "client_version"


class DurationFilter(_Numbers):
    """Milliseconds, both ends included."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        for side, lookup in (("from", "gte"), ("to", "lte")):
            name = f"{self.field_path}_{side}"
            written = str(self.used_parameters.get(name) or "").strip()
            if written and not (written.isascii() and written.isdecimal() and len(written) < 10):
                raise IncorrectLookupParameters(name)
            if written:
                queryset = queryset.filter(**{f"{self.field_path}__{lookup}": int(written)})
        return queryset


class ConnectionFilter(_Exactly):
    title = _("connection (short name)")
    parameter_name = "connection"


class TurnFilter(_Exactly):
    title = _("turn of a chat")
    parameter_name = "turn_id"


class _BodyFilter(_Text):
    """One place in a body and the value there; also what redaction left of it. `parameter_name` is the column."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        written, body = self.value() or "", str(self.parameter_name)
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
        try:
            reads.note(request.user, request.path, [], [], searched=[body], query={body: condition.recorded()})
        except AuditUnavailable as error:
            messages.error(request, str(error))
            return queryset.none()
        return queryset.filter(condition.on(queryset.model._meta.db_table, body))


class ArgumentFilter(_BodyFilter):
    title = _('argument, such as $.city="Berlin"')
    parameter_name = "arguments"


class ResultFilter(_BodyFilter):
    title = _("result, such as $.structuredContent.count=3")
    parameter_name = "result"


def searches_bodies(request: HttpRequest) -> bool:
    return any(request.GET.get(name, "").strip() for name in SEARCHED_BODIES)


def stretch_for(request: HttpRequest) -> int:
    """Give how many calls are looked at first: few, where each body is looked into."""
    return FIRST_STRETCH_OF_BODIES if searches_bodies(request) else FIRST_STRETCH


class ErrorCodeFilter(ChoiceFilter):
    title = _("error code")
    parameter_name = "code"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(code, code) for code in sorted(errors.INTERNAL_CODES)]

    def narrow(self, queryset: QuerySet[Any], chosen: str) -> QuerySet[Any]:
        # The status is the partial index's own condition.
        return queryset.filter(error_code=chosen, status="error")


class _YesOrNo(ChoiceFilter):
    yes: Any = ""
    no: Any = ""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", self.yes), ("no", self.no)]


class DuplicateFilter(_YesOrNo):
    title = _("duplicates")
    parameter_name = "duplicate"
    yes, no = _("Only duplicates"), _("Without duplicates")

    def narrow(self, queryset: QuerySet[Any], chosen: str) -> QuerySet[Any]:
        return queryset.exclude(duplicate_of="") if chosen == "yes" else queryset.filter(duplicate_of="")


class RetryableFilter(_YesOrNo):
    title = _("may be tried again")
    parameter_name = "retry"
    yes, no = _("Failures to be tried again"), _("Failures not to be tried again")

    def narrow(self, queryset: QuerySet[Any], chosen: str) -> QuerySet[Any]:
        return queryset.filter(retryable=chosen == "yes", status="error")


class InterruptedFilter(_YesOrNo):
    title = _("interrupted")
    parameter_name = "interrupted"
    yes, no = _("Only calls whose process died"), _("Without calls whose process died")

    def narrow(self, queryset: QuerySet[Any], chosen: str) -> QuerySet[Any]:
        if chosen == "yes":
            return queryset.filter(error_code="interrupted", status="error")
        return queryset.exclude(error_code="interrupted")


class ChatFilter(_YesOrNo):
    title = _("made in a chat")
    parameter_name = "chat"
    yes, no = _("Only calls that a model made"), _("Without calls that a model made")

    def narrow(self, queryset: QuerySet[Any], chosen: str) -> QuerySet[Any]:
        return queryset.filter(turn_id__isnull=chosen == "no")
