"""REST over the error mappings."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field, extend_schema_view

from invocations.models import McpErrorMapping
from sessions_app.kit.rest.json_fields import JSONObject
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import RowSerializer, StrictInteger, StrictText, WritingViewSet, attribute
from sessions_app.protocol import errors
from sessions_app.protocol.json import Json

_DEFINED = sorted(errors.STANDARD_CODES | errors.PROTOCOL_CODES)
_OWN = {"type": "integer", "minimum": errors.OWN_CODES.start, "maximum": errors.OWN_CODES.stop - 1}


@extend_schema_field({"type": "integer", "anyOf": [{"enum": _DEFINED}, _OWN]})
class RpcCode(StrictInteger):
    """A number of JSON-RPC that an internal code may be given."""

    default_error_messages = {"unknown": "Choose one of {defined}, or one from {least} to {most}."}

    def to_internal_value(self, data: Json) -> int:
        number = super().to_internal_value(data)
        if number not in _DEFINED and number not in errors.OWN_CODES:
            values = {"defined": ", ".join(map(str, _DEFINED)), "least": _OWN["minimum"], "most": _OWN["maximum"]}
            self.fail("unknown", **values)
        return number


class ErrorMappingSerializer(RowSerializer[McpErrorMapping]):
    """The wire form of an internal code."""

    json_rpc_code = RpcCode(help_text="A standard code, one that MCP defines, or one of the hub's own block.")
    data_schema = JSONObject(required=False, help_text="JSON Schema that error.data keeps to.")
    reason = StrictText(
        write_only=True, required=False, allow_blank=True, max_length=100, help_text="Why. Kept in the history."
    )

    class Meta:
        model = McpErrorMapping
        fields = [
            "internal_code",
            "json_rpc_code",
            "message_template",
            "retryable",
            "data_schema",
            "updated_at",
            "reason",
        ]
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
    required_permission = {"read": "invocations.view_mcperrormapping", "write": "invocations.change_mcperrormapping"}
    missing = "There is no such internal code. GET /api/error-mappings/ lists them."
