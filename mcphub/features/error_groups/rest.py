"""REST over error groups, and decisions about them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from invocations.rest.reads import RecordedViewSet
from invocations.rest.serializers import sees_bodies
from mcphub.features.error_groups.filters import ERROR_FILTERS
from mcphub.features.error_groups.judging import judge
from mcphub.features.error_groups.models import ErrorGroup
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import AskedSerializer, RowSerializer, StrictText
from sessions_app.protocol.errors import Forbidden
from sessions_app.protocol.json import Json

_SLOTS = {"type": "object", "additionalProperties": {"type": "integer"}}
_CALLERS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"principal": {"type": "string"}, "label": {"type": "string"}, "calls": {"type": "integer"}},
        "required": ["principal", "label", "calls"],
    },
}


class ErrorGroupSerializer(RowSerializer[ErrorGroup]):
    """Failed calls of one tool with one code and one message, apart from varying parts."""

    message = serializers.SerializerMethodField(help_text="Normalised; null for who may not read bodies.")
    hours = serializers.SerializerMethodField(help_text="Hour in UTC, as `2026-01-31T12`, to calls.")
    days = serializers.SerializerMethodField(help_text="Day in UTC to calls.")
    callers = serializers.SerializerMethodField(help_text="The first callers that it hit.")

    class Meta:
        model = ErrorGroup
        fields = [
            "id",
            "tool_name",
            "error_code",
            "message",
            "state",
            "state_at",
            "state_by",
            "reopened",
            "calls",
            "first_at",
            "last_at",
            "first_sequence",
            "last_sequence",
            "hours",
            "days",
            "callers",
            "unnamed_calls",
        ]
        read_only_fields = fields

    @extend_schema_field({"type": ["string", "null"]})
    def get_message(self, group: ErrorGroup) -> str | None:
        return None if self.context["hidden"] else group.message

    @extend_schema_field(_SLOTS)
    def get_hours(self, group: ErrorGroup) -> Json:
        return group.hours

    @extend_schema_field(_SLOTS)
    def get_days(self, group: ErrorGroup) -> Json:
        return group.days

    @extend_schema_field(_CALLERS)
    def get_callers(self, group: ErrorGroup) -> Json:
        return [
            {"principal": principal, "label": label, "calls": calls}
            for principal, (label, calls) in group.callers.items()
        ]


class JudgeSerializer(AskedSerializer):
    reason = StrictText(required=False, allow_blank=True, max_length=500, help_text="Kept on record.")


_DEED: dict[str, Any] = {
    "request": JudgeSerializer,
    "responses": {200: ErrorGroupSerializer},
    "description": "By people who are logged in, not by keys.",
}


@extend_schema_view(
    list=extend_schema(summary="Errors in groups, last seen first"),
    retrieve=extend_schema(summary="One group of errors"),
)
class ErrorGroupViewSet(RecordedViewSet[ErrorGroup]):
    queryset = ErrorGroup.objects.all()
    serializer_class = ErrorGroupSerializer
    filters = ERROR_FILTERS
    ordering = ("-last_at", "-id")
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    required_permission = {"read": "invocations.view_errorgroup", "write": "invocations.change_errorgroup"}
    missing = "There is no such group. GET /api/errors/ lists them."

    def get_serializer_context(self) -> dict[str, object]:
        hidden = self.request is None or not sees_bodies(self.request)
        return {**super().get_serializer_context(), "hidden": hidden}

    def bodies_read(self) -> list[str]:
        return ["error"] if sees_bodies(self.request) else []

    def retrieve(self, request: Request, *args: object, **kwargs: object) -> Response:
        answer = Response(self.get_serializer(self.get_object()).data)
        self._record([answer.data["id"]], subject=str(answer.data["id"]))
        return answer

    @extend_schema(summary="Count errors of this kind without listing them as open", **_DEED)
    @action(detail=True, methods=["post"])
    def mute(self, request: Request, pk: str) -> Response:
        return self._judged(request, "mute")

    @extend_schema(summary="Say that errors of this kind are over; the next one opens the group again", **_DEED)
    @action(detail=True, methods=["post"])
    def resolve(self, request: Request, pk: str) -> Response:
        return self._judged(request, "resolve")

    @extend_schema(summary="Open a muted or resolved group again", **_DEED)
    @action(detail=True, methods=["post"])
    def reopen(self, request: Request, pk: str) -> Response:
        return self._judged(request, "reopen")

    def _judged(self, request: Request, deed: str) -> Response:
        if request.auth is not None:
            raise Forbidden("Errors are muted and resolved by people who are logged in, not by keys.")
        asked = JudgeSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given: dict[str, Any] = dict(asked.validated_data)
        group = self.get_object()
        judge(group, deed, request.user, given.get("reason", ""))
        return Response(self.get_serializer(group).data)
