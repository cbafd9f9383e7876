"""What an auditor can ask of the recorded calls."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Max, Min, Q, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field

from invocations.chain.marks import STRETCH
from invocations.chain.models import SequenceMark
from invocations.models import McpToolInvocation
from invocations.rest.jsonpath import Condition, ConditionFilter
from invocations.rest.serializers import sees_bodies
from sessions_app.models import Transport
from sessions_app.protocol.errors import INTERNAL_CODES, Forbidden
from sessions_app.rest.lists import (
    BooleanFilter,
    ChoiceFilter,
    ExactFilter,
    FilterSet,
    IntegerFilter,
    MomentFilter,
)

_CONDITION_HELP = (
    'A path and the JSON value that stands there: `$.city="Berlin"`, `$.items[0].count=3`. Needs the right to read '
    "bodies. Each body is read for it: give a time or a session too."
)


@dataclass(frozen=True, slots=True)
class Span:
    """Bounds of the sequence, both included; None is no bound."""

    least: int | None = None
    most: int | None = None

    def of(self, rows: QuerySet[McpToolInvocation]) -> QuerySet[McpToolInvocation]:
        if self.least is not None:
            rows = rows.filter(id__gte=self.least)
        return rows if self.most is None else rows.filter(id__lte=self.most)


def span(after: datetime | None, before: datetime | None) -> Span | None:
    """Give bounds outside which no call started in a time, which may hold others too; None where none started in it.

    Every index of the audit ends in the sequence, so each then answers for a time without reading what is newer or
    older. Reads the marks of the sequence, and the calls that are not marked yet.
    """
    if after is None and before is None:
        return Span()
    started, touched = Q(), Q()
    if after is not None:
        started, touched = Q(started_at__gte=after), Q(most_started__gte=after)
    if before is not None:
        started, touched = started & Q(started_at__lt=before), touched & Q(least_started__lt=before)
    marks = SequenceMark.objects.order_by()
    told = marks.filter(touched).aggregate(least=Min("number"), most=Max("through"))
    marked = marks.aggregate(through=Max("through"))["through"]
    calls = McpToolInvocation.objects.order_by()
    if marked is None:
        # The sums keep PostgreSQL from looking for the ends along the key, through all that lies outside the time.
        rest = calls.filter(started).aggregate(least=Min(F("id") + 0), most=Max(F("id") + 0))
    else:
        newer = calls.filter(id__gt=marked)
        rest = newer.aggregate(least=Min("id", filter=started), most=Max("id", filter=started))
    least = [end for end in (told["least"] and told["least"] * STRETCH, rest["least"]) if end is not None]
    most = [end for end in (told["most"], rest["most"]) if end is not None]
    if not most:
        return None
    return Span(min(least) if after is not None else None, max(most) if before is not None else None)


class InvocationFilter(FilterSet):
    span: Span | None = None
    """Where the rows lie that are asked for; None where there are none. Known once they were filtered."""
    reads_bodies = False
    """Whether each body is looked into."""

    started_after = MomentFilter(
        field_name="started_at", lookup_expr="gte",
        help_text="ISO 8601, this moment included; without an offset it is UTC.",
    )  # fmt: skip
    started_before = MomentFilter(
        field_name="started_at", lookup_expr="lt",
        help_text="ISO 8601, this moment excluded; without an offset it is UTC.",
    )  # fmt: skip
    status = ChoiceFilter(choices=McpToolInvocation.Status.choices)
    tool = ExactFilter(field_name="tool_name")
    version = ExactFilter(field_name="tool_version")
    tool_digest = ExactFilter(help_text="The digest of the definition that ran.")
    principal = ExactFilter(help_text="`key:<id>`, `user:<id>` or `anonymous`.")
    client = ExactFilter(field_name="client_name")
    client_version = ExactFilter()
    client_address = ExactFilter()
    protocol_version = ExactFilter()
    process = ExactFilter(field_name="process_id")
    session = ExactFilter(field_name="session_id")
    transport = ChoiceFilter(choices=Transport.choices)
    error_code = ChoiceFilter(choices=[(code, code) for code in sorted(INTERNAL_CODES)], method="filter_error_code")
    jsonrpc_code = IntegerFilter()
    retryable = BooleanFilter(help_text="Calls that succeeded are neither.")
    duplicate = BooleanFilter(method="filter_duplicate", help_text="Repeats of an earlier request.")
    duplicate_of = ExactFilter(method="filter_present", help_text="Repeats of the call with this invocation id.")
    interrupted = BooleanFilter(method="filter_interrupted", help_text="Calls whose process died.")
    min_occurrences = IntegerFilter(
        field_name="occurrences", lookup_expr="gte", least=1, help_text="From 2: refusals of a flood, counted in a row."
    )
    request_id = ExactFilter(method="filter_request_id", help_text="`7` finds the number and the text.")
    trace_id = ExactFilter(method="filter_present")
    continues = ExactFilter(help_text="Later rounds of the call whose first attempt this is.")
    turn = ExactFilter(field_name="turn_id", help_text="Calls that a model made in this turn of a chat.")
    replay_of = ExactFilter(help_text="Replays of the call with this invocation id.")
    connection = ExactFilter(help_text="The upstream that the tool was called at, by its short name.")
    incomplete = BooleanFilter(
        field_name="left_out", lookup_expr="isnull", exclude=True,
        help_text="Whether something of a body was redacted or cut short.",
    )  # fmt: skip
    arguments_digest = ExactFilter(help_text="SHA-256 of the arguments' canonical JSON, as they are recorded.")
    arguments = ConditionFilter(method="filter_body", help_text=_CONDITION_HELP)
    result = ConditionFilter(method="filter_body", help_text=_CONDITION_HELP)
    min_duration_ms = IntegerFilter(field_name="duration_ms", lookup_expr="gte", least=0)
    max_duration_ms = IntegerFilter(field_name="duration_ms", lookup_expr="lte", least=0)

    class Meta:
        model = McpToolInvocation
        fields: list[str] = []

    def filter_queryset(self, queryset: QuerySet[McpToolInvocation]) -> Any:
        given = self.form.cleaned_data
        self.reads_bodies = bool(given["arguments"] or given["result"])
        rows = super().filter_queryset(queryset)
        self.span = span(given["started_after"], given["started_before"])
        return rows.none() if self.span is None else rows

    def filter_error_code(self, rows: QuerySet[McpToolInvocation], name: str, value: str) -> Any:
        # The status is the partial index's own condition.
        return rows.filter(error_code=value, status="error")

    @extend_schema_field(OpenApiTypes.STR)
    def filter_present(self, rows: QuerySet[McpToolInvocation], name: str, value: str) -> Any:
        # Not being empty is the partial index's own condition.
        return rows.filter(**{name: value}).exclude(**{name: ""})

    @extend_schema_field(OpenApiTypes.BOOL)
    def filter_duplicate(self, rows: QuerySet[McpToolInvocation], name: str, value: Any) -> Any:
        if value in ("", None):
            return rows
        return rows.exclude(duplicate_of="") if value else rows.filter(duplicate_of="")

    @extend_schema_field(OpenApiTypes.STR)
    def filter_request_id(self, rows: QuerySet[McpToolInvocation], name: str, value: str) -> Any:
        meant: list[str | int] = [value]
        if value.removeprefix("-").isdecimal() and len(value) <= 20 and str(int(value)) == value:
            meant.append(int(value))
        return rows.filter(request_id__in=meant)

    @extend_schema_field(OpenApiTypes.BOOL)
    def filter_interrupted(self, rows: QuerySet[McpToolInvocation], name: str, value: Any) -> Any:
        if value in ("", None):
            return rows
        return (
            rows.filter(error_code="interrupted", status="error") if value else rows.exclude(error_code="interrupted")
        )

    def filter_body(self, rows: QuerySet[McpToolInvocation], name: str, value: Condition | None) -> Any:
        if value is None:
            return rows
        if not sees_bodies(self.request):
            raise Forbidden(
                f"You may not read bodies, so not search them: leave {name} out, or ask an administrator for "
                "invocations.read_bodies.",
                permission="invocations.read_bodies",
            )
        return rows.filter(value.on(McpToolInvocation._meta.db_table, name))
