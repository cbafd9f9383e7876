"""REST over calls that wait for a yes: an inbox for programs, and the decision."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from invocations.redaction import load as redaction
from invocations.redaction.records import RecordRedaction
from invocations.rest.reads import RecordedViewSet
from invocations.rest.serializers import ObjectBody, sees_bodies
from mcphub.features.approvals import deciding
from mcphub.features.approvals.models import McpApproval
from sessions_app.kit.lists.filters import OneOf, TextIs
from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.json_fields import JSONObject
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import AskedSerializer, RowSerializer, StrictText
from sessions_app.protocol.errors import Forbidden

_BODIES = ("arguments", "edited")
_FILTERS = (
    OneOf(name="status", label="", choices=McpApproval.Status.choices),
    TextIs(name="tool", column="tool_name", label=_("tool (exact name)")),
    TextIs(name="principal", label=_("principal (key:1, user:1, …)")),
)


class ApprovalSerializer(RowSerializer[McpApproval]):
    """A call that waits, or waited, for a person's yes."""

    arguments = ObjectBody()
    edited = ObjectBody(help_text="The arguments that the call was approved with, where somebody edited them.")
    session_id = serializers.CharField(read_only=True)
    caller_label = serializers.CharField(read_only=True)
    bodies_hidden = serializers.SerializerMethodField(help_text="True: arguments are withheld from you and read null.")

    class Meta:
        model = McpApproval
        fields = [
            "id",
            "status",
            "tool_name",
            "tool_version",
            "effects",
            "principal",
            "caller_label",
            "session_id",
            "transport",
            "client_name",
            "arguments",
            "edited",
            "rule",
            "rule_version",
            "words",
            "decider",
            "group",
            "needed",
            "given",
            "reason",
            "decided_by",
            "decided_at",
            "granted_until",
            "invocation_id",
            "created_at",
            "expires_at",
            "bodies_hidden",
        ]
        read_only_fields = fields

    def get_bodies_hidden(self, row: McpApproval) -> bool:
        return bool(self.context["hidden"])


_CLOSED = "By people who are logged in, not by keys. Never by who asked, unless the question is for them."


class ApproveSerializer(AskedSerializer):
    arguments = JSONObject(required=False, help_text="To call with in place of those that were asked for.")
    grant = serializers.ChoiceField(choices=["hour", "session"], required=False, help_text="No question for an hour.")
    reason = StrictText(required=False, allow_blank=True, max_length=deciding.LONGEST_REASON)


class DenySerializer(AskedSerializer):
    reason = StrictText(
        required=False, allow_blank=True, max_length=deciding.LONGEST_REASON, help_text="The caller is told it."
    )


@extend_schema_view(
    list=extend_schema(summary="Calls that wait, or waited, for an approval, newest first"),
    retrieve=extend_schema(summary="One such call"),
)
class ApprovalViewSet(RecordedViewSet[McpApproval]):
    queryset = McpApproval.objects.all()
    serializer_class = ApprovalSerializer
    filters = _FILTERS
    ordering = ("-created_at", "-id")
    lookup_value_regex = "[A-Za-z0-9_]{1,40}"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    of_workspace = frozenset({"list", "retrieve", "approve", "deny"})
    required_permission = {"read": "invocations.view_mcpapproval", "write": "invocations.decide_mcpapproval"}
    may_conflict = True
    missing = "There is no such approval. GET /api/approvals/ lists them."

    def get_serializer_context(self) -> dict[str, object]:
        hidden = self.request is None or not sees_bodies(self.request)
        return {**super().get_serializer_context(), "hidden": hidden}

    def bodies_read(self) -> list[str]:
        return list(_BODIES) if sees_bodies(self.request) else []

    def retrieve(self, request: Request, *args: object, **kwargs: object) -> Response:
        answer = Response(self.get_serializer(self.get_object()).data)
        self._record([answer.data["id"]], subject=answer.data["id"])
        return answer

    @extend_schema(
        summary="Approve a call, as it is or edited",
        request=ApproveSerializer,
        responses={200: ApprovalSerializer},
        description=_CLOSED,
    )
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        given = _read(ApproveSerializer, request)
        decision = deciding.Decision(
            approve=True, reason=given.get("reason", ""), arguments=given.get("arguments"), grant=given.get("grant", "")
        )
        return self._decided(request, decision)

    @extend_schema(
        summary="Deny a call", request=DenySerializer, responses={200: ApprovalSerializer}, description=_CLOSED
    )
    @action(detail=True, methods=["post"])
    def deny(self, request: Request, pk: str) -> Response:
        reason = _read(DenySerializer, request).get("reason", "")
        return self._decided(request, deciding.Decision(approve=False, reason=reason))

    def _decided(self, request: Request, decision: deciding.Decision) -> Response:
        if request.auth is not None:
            raise Forbidden("Calls are approved and denied by people who are logged in, not by keys.")
        record = RecordRedaction(redaction.load())
        try:
            row = deciding.decide(self.get_object(), decision, deciding.decider_of(request.user), record)
        except deciding.DecisionRefused as error:
            if error.why in ("own", "group", "twice"):
                raise Forbidden(str(error)) from error
            if error.why == "arguments":
                raise serializers.ValidationError({"arguments": [str(error)]}) from error
            raise Conflict(str(error)) from error
        return Response(self.get_serializer(row).data)


def _read(kind: type[AskedSerializer], request: Request) -> dict[str, Any]:
    asked = kind(data=request.data)
    asked.is_valid(raise_exception=True)
    return dict(asked.validated_data)
