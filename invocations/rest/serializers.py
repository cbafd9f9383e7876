"""A call in REST: its row, its bodies where they may be read, its envelope."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from invocations.columns import INVOCATION
from invocations.lists.erased import left_out
from invocations.models import McpToolInvocation
from sessions_app.kit.rest.json_fields import JSONValue
from sessions_app.kit.rest.selection import Selectable
from sessions_app.kit.rest.writing import RowSerializer
from sessions_app.rest.access import is_granted

BODIES = INVOCATION.bodies
READ_BODIES = "invocations.read_bodies"


def sees_bodies(request: Request) -> bool:
    """Return whether the requester may read arguments, results and errors, beyond the fact of a call."""
    return is_granted(request, scope="audit:read", permission=READ_BODIES)


class Body(JSONValue):
    """The input or output of a call; null without the permission to read bodies."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"read_only": True, "allow_null": True, **kwargs})

    def get_attribute(self, instance: McpToolInvocation) -> object:
        value = None if self.context["hidden"] else super().get_attribute(instance)
        return None if isinstance(value, str) else value  # a text stands where retention erased the body: its digest


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


_GONE = {
    "type": "object",
    "properties": {
        "redacted": {"type": "array", "items": {"type": "string"}, "description": "Places; of many the first 50."},
        "truncated": {"type": "boolean"},
        "bytes": {"type": "integer", "description": "Of the whole body, redacted, as JSON."},
        "erased": {"type": "boolean", "description": "Retention erased the body."},
        "sha256": {"type": "string", "description": "Of the whole body, redacted, as JSON."},
    },
    "additionalProperties": False,
}


@extend_schema_field(
    {"type": ["object", "null"], "properties": dict.fromkeys(BODIES, _GONE), "additionalProperties": False}
)
class LeftOutField(JSONValue):
    def get_attribute(self, instance: McpToolInvocation) -> object:
        return left_out(instance)


class MethodField(serializers.CharField):
    """Null, for a tool call, is shown as words."""

    def get_attribute(self, instance: McpToolInvocation) -> str | None:
        return instance.of_method


class InvocationRowSerializer(RowSerializer[McpToolInvocation]):
    """One recorded attempt at a call, or to read a resource, a prompt or a completion."""

    sequence = serializers.IntegerField(source="id", read_only=True, help_text="Grows with every recorded call.")
    session_id = serializers.CharField(read_only=True)
    process_id = serializers.CharField(read_only=True)
    request_id = RequestId(read_only=True, help_text="The id of the JSON-RPC request.")
    method = MethodField(
        read_only=True, help_text="`tools/call`, `resources/read`, `prompts/get` or `completion/complete`."
    )
    target = serializers.CharField(
        read_only=True,
        allow_null=True,
        help_text="The resource by its URI or template, or the prompt by its name; null for a call of a tool.",
    )
    arguments = ObjectBody()
    result = ObjectBody()
    error = ErrorBody(help_text="The JSON-RPC error.")
    left_out = LeftOutField(
        read_only=True, allow_null=True, help_text="What of the bodies is not on record; null: nothing."
    )
    bodies_hidden = serializers.SerializerMethodField(
        help_text="True: arguments, result and error are withheld from you and read null."
    )

    class Meta:
        model = McpToolInvocation
        fields = [*INVOCATION.members, "bodies_hidden"]
        read_only_fields = fields

    def get_bodies_hidden(self, invocation: McpToolInvocation) -> bool:
        return bool(self.context["hidden"])


class EnvelopeSerializer(serializers.Serializer[Any]):
    """The record made before a call ran."""

    received_at = serializers.DateTimeField()
    method = serializers.CharField()
    session_id = serializers.CharField()
    params = ObjectBody(help_text="Parameters of the request, with the arguments as they are recorded.")


class InvocationSerializer(Selectable, InvocationRowSerializer):
    """One recorded attempt at a call; the members that `fields` names, or all."""


class InvocationDetailSerializer(InvocationRowSerializer):
    """One recorded attempt at a call, with its envelope."""

    envelope = serializers.SerializerMethodField(help_text="The record made before the call ran.")

    class Meta(InvocationRowSerializer.Meta):
        fields = [*InvocationRowSerializer.Meta.fields, "envelope"]
        read_only_fields = fields

    @extend_schema_field(EnvelopeSerializer(allow_null=True))
    def get_envelope(self, invocation: Any) -> Any:
        if invocation.envelope_method is None:
            return None
        members = ("received_at", "method", "session_id", "params")
        found = {name: getattr(invocation, f"envelope_{name}", None) for name in members}
        return EnvelopeSerializer(found, context=self.context).data
