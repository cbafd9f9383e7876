"""REST over the audit: every recorded call, read-only, and the error mappings."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.request import Request

from invocations.models import McpErrorMapping, McpRequestEnvelope, McpToolInvocation
from sessions_app.models import Transport
from sessions_app.protocol.errors import INTERNAL_CODES
from sessions_app.rest.access import is_granted
from sessions_app.rest.lists import (
    BooleanFilter,
    ChoiceFilter,
    ExactFilter,
    FilterSet,
    IntegerFilter,
    MomentFilter,
)
from sessions_app.rest.writing import (
    JSONObject,
    JSONValue,
    RowSerializer,
    RowViewSet,
    WritingViewSet,
    attribute,
)

_BODIES = ("arguments", "result", "error")


def sees_bodies(request: Request) -> bool:
    """Say whether who asks may read arguments, results and errors, and not only that a call was made."""
    return is_granted(request, scope="audit:read", permission="invocations.read_bodies")


class Body(JSONValue):
    """What went in or came out of a call; null for who may not read bodies."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"read_only": True, "allow_null": True, **kwargs})

    def get_attribute(self, instance: McpToolInvocation) -> Any:
        return None if self.context["hidden"] else super().get_attribute(instance)


@extend_schema_field({"type": "object", "additionalProperties": True})
class ObjectBody(Body):
    pass


@extend_schema_field(
    {
        "type": "object",
        "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "data": {}},
        "required": ["code", "message"],
    }
)
class ErrorBody(Body):
    pass


@extend_schema_field({"type": ["string", "integer", "null"]})
class RequestId(JSONValue):
    pass


class InvocationSerializer(RowSerializer[McpToolInvocation]):
    """One recorded attempt at a call."""

    sequence = serializers.IntegerField(source="id", read_only=True, help_text="Grows with every recorded call.")
    session_id = serializers.CharField(read_only=True)
    process_id = serializers.CharField(read_only=True)
    request_id = RequestId(read_only=True, help_text="The id of the JSON-RPC request.")
    arguments = ObjectBody()
    result = ObjectBody()
    error = ErrorBody(help_text="The JSON-RPC error.")
    bodies_hidden = serializers.SerializerMethodField(
        help_text="True: arguments, result and error are withheld from you and read null."
    )

    class Meta:
        model = McpToolInvocation
        fields = [
            "sequence", "invocation_id", "session_id", "request_id", "tool_name", "tool_version",
            "tool_digest", "arguments", "arguments_digest", "status", "result", "error", "error_code",
            "jsonrpc_code", "retryable", "received_at", "started_at", "finished_at", "duration_ms",
            "duplicate_of", "occurrences", "transport", "protocol_version", "principal", "caller_label",
            "client_name", "client_version", "client_address", "trace_id", "process_id", "bodies_hidden",
        ]  # fmt: skip
        read_only_fields = fields

    def get_bodies_hidden(self, invocation: McpToolInvocation) -> bool:
        return bool(self.context["hidden"])


class EnvelopeSerializer(serializers.Serializer[Any]):
    """The record made before a call ran."""

    received_at = serializers.DateTimeField()
    method = serializers.CharField()


class InvocationDetailSerializer(InvocationSerializer):
    """One recorded attempt at a call, with its envelope."""

    envelope = serializers.SerializerMethodField(help_text="The record made before the call ran.")

    class Meta(InvocationSerializer.Meta):
        fields = [*InvocationSerializer.Meta.fields, "envelope"]
        read_only_fields = fields

    @extend_schema_field(EnvelopeSerializer(allow_null=True))
    def get_envelope(self, invocation: Any) -> Any:
        if invocation.envelope_method is None:
            return None
        found = {"received_at": invocation.envelope_received_at, "method": invocation.envelope_method}
        return EnvelopeSerializer(found).data


class InvocationFilter(FilterSet):
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
    principal = ExactFilter(help_text="`key:<id>`, `user:<id>` or `anonymous`.")
    client = ExactFilter(field_name="client_name")
    session = ExactFilter(field_name="session_id")
    transport = ChoiceFilter(choices=Transport.choices)
    error_code = ChoiceFilter(choices=[(code, code) for code in sorted(INTERNAL_CODES)])
    jsonrpc_code = IntegerFilter()
    retryable = BooleanFilter(help_text="Calls that succeeded are neither.")
    duplicate = BooleanFilter(method="filter_duplicate", help_text="Repeats of an earlier request.")
    request_id = ExactFilter(method="filter_request_id", help_text="`7` finds the number and the text.")
    trace_id = ExactFilter()
    min_duration_ms = IntegerFilter(field_name="duration_ms", lookup_expr="gte", least=0)
    max_duration_ms = IntegerFilter(field_name="duration_ms", lookup_expr="lte", least=0)

    class Meta:
        model = McpToolInvocation
        fields: list[str] = []

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


@extend_schema_view(
    list=extend_schema(summary="Calls, newest first"),
    retrieve=extend_schema(summary="One call, with the record made before it ran"),
)
class InvocationViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[McpToolInvocation]):
    queryset = McpToolInvocation.objects.all()
    filterset_class = InvocationFilter
    ordering = ("-id",)
    lookup_field = "invocation_id"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    required_permission = {
        "read": "invocations.view_mcptoolinvocation",
        "write": "invocations.view_mcptoolinvocation",
    }
    missing = "There is no such call. GET /api/invocations/ lists them."

    def get_serializer_class(self) -> type[InvocationSerializer]:
        return InvocationDetailSerializer if self.detail else InvocationSerializer

    def get_serializer_context(self) -> dict[str, Any]:
        hidden = self.request is None or not sees_bodies(self.request)
        return {**super().get_serializer_context(), "hidden": hidden}

    def get_queryset(self) -> QuerySet[McpToolInvocation]:
        rows = super().get_queryset()
        if not sees_bodies(self.request):
            rows = rows.defer(*_BODIES)
        if not self.detail:
            return rows
        envelope = McpRequestEnvelope.objects.filter(invocation_id=OuterRef("invocation_id"))
        return rows.annotate(
            envelope_received_at=Subquery(envelope.values("received_at")[:1]),
            envelope_method=Subquery(envelope.values("method")[:1]),
        )


class ErrorMappingSerializer(RowSerializer[McpErrorMapping]):
    """How an internal code is said on the wire."""

    data_schema = JSONObject(required=False, help_text="JSON Schema that error.data keeps to.")
    reason = serializers.CharField(
        write_only=True,
        required=False,
        allow_blank=True,
        max_length=100,
        help_text="Why. Kept in the history.",
    )

    class Meta:
        model = McpErrorMapping
        fields = [
            "internal_code", "json_rpc_code", "message_template", "retryable", "data_schema", "updated_at",
            "reason",
        ]  # fmt: skip
        read_only_fields = ["internal_code", "updated_at"]

    def _write(self, row: McpErrorMapping, values: dict[str, Any]) -> McpErrorMapping:
        attribute(row, self.context["request"], values.pop("reason", ""))
        return super()._write(row, values)


@extend_schema_view(
    list=extend_schema(summary="Error mappings, by internal code"),
    retrieve=extend_schema(summary="One error mapping"),
    update=extend_schema(summary="Replace an error mapping"),
    partial_update=extend_schema(
        summary="Change an error mapping", description="Every process of the hub follows within 250 ms."
    ),
)
class ErrorMappingViewSet(WritingViewSet[McpErrorMapping]):
    """The internal codes are a closed list and all ship, so mappings are neither added nor removed."""

    queryset = McpErrorMapping.objects.all()
    serializer_class = ErrorMappingSerializer
    ordering = ("internal_code",)
    lookup_field = "internal_code"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "audit:read", "write": "catalog:write"}
    required_permission = {
        "read": "invocations.view_mcperrormapping",
        "write": "invocations.change_mcperrormapping",
    }
    missing = "There is no such internal code. GET /api/error-mappings/ lists them."
