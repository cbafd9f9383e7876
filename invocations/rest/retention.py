"""REST over how long the audit is kept, and over legal holds. Read by auditors' programs, written by people."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from invocations.chain.models import AuditHold, AuditPolicy
from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import (
    AskedSerializer,
    ReasonedSerializer,
    RowSerializer,
    RowViewSet,
    StrictText,
    attribute,
    permissions,
)
from sessions_app.protocol.errors import Forbidden

_PEOPLE = "By people who are logged in, not by keys."
_SCOPE = {"read": "audit:read", "write": "audit:read"}


class _ByPeople(RowViewSet[Any]):
    """Keys read; decisions about evidence need a named person."""

    def check_permissions(self, request: Request) -> None:
        if request.auth is not None and request.method not in SAFE_METHODS:
            raise Forbidden("How long the audit is kept is decided by people who are logged in, not by keys.")
        super().check_permissions(request)


class HoldSerializer(RowSerializer[AuditHold]):
    """A legal hold: its rows and bodies are kept until it is released."""

    class Meta:
        model = AuditHold
        fields = [
            "name",
            "reason",
            "tool_name",
            "principal",
            "session_id",
            "received_from",
            "received_until",
            "first_block",
            "last_block",
            "created_at",
            "released_at",
        ]
        read_only_fields = ["created_at", "released_at"]


class ReleaseSerializer(AskedSerializer):
    reason = StrictText(required=False, allow_blank=True, default="", max_length=500, help_text="Kept on record.")


@extend_schema_view(
    list=extend_schema(summary="Legal holds, newest first"),
    retrieve=extend_schema(summary="One legal hold"),
    create=extend_schema(summary="Hold a part of the audit", description=_PEOPLE),
)
class HoldViewSet(mixins.CreateModelMixin, mixins.RetrieveModelMixin, mixins.ListModelMixin, _ByPeople):
    queryset = AuditHold.objects.all()
    serializer_class = HoldSerializer
    ordering = ("-created_at",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = _SCOPE
    required_permission = permissions("invocations.audithold")
    may_conflict = True
    missing = "There is no such hold. GET /api/audit/holds/ lists them."

    def perform_create(self, serializer: serializers.BaseSerializer[AuditHold]) -> None:
        with transaction.atomic():
            serializer.save()

    @extend_schema(
        summary="Release a hold, which cannot be set again",
        request=ReleaseSerializer,
        responses={200: HoldSerializer},
        description=_PEOPLE,
    )
    @action(detail=True, methods=["post"], required_permission={"create": "invocations.change_audithold"})
    def release(self, request: Request, name: str) -> Response:
        asked = ReleaseSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        with transaction.atomic():
            hold = self.get_object()
            hold = AuditHold.objects.select_for_update().get(pk=hold.pk)
            if hold.released_at is not None:
                raise Conflict("The hold is released already. Make another one.")
            hold.release(attribute(hold, request, asked.validated_data["reason"])[1])
        return Response(self.get_serializer(hold).data)


class RetentionSerializer(ReasonedSerializer):
    """How long the audit is kept. null: for ever, and of bodies as long as their rows."""

    class Meta:
        model = AuditPolicy
        fields = ["rows_days", "bodies_days", "reason"]


class RetentionViewSet(_ByPeople):
    serializer_class = RetentionSerializer
    queryset = AuditPolicy.objects.all()
    pagination_class = None
    filter_backends = ()
    may_conflict = True
    required_scope = _SCOPE
    required_permission = {"read": "invocations.view_auditpolicy", "write": "invocations.change_auditpolicy"}

    @extend_schema(operation_id="audit_retention_read", summary="How long the audit is kept")
    def kept(self, request: Request) -> Response:
        return Response(self.get_serializer(AuditPolicy.current()).data)

    @extend_schema(operation_id="audit_retention_change", summary="Say how long the audit is kept", description=_PEOPLE)
    def keep(self, request: Request) -> Response:
        with transaction.atomic():
            row = AuditPolicy.objects.select_for_update().filter(pk=1).first() or AuditPolicy(pk=1)
            written = self.get_serializer(row, data=request.data, partial=True)
            written.is_valid(raise_exception=True)
            written.save()
        return Response(written.data)
