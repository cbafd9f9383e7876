"""REST over the stops of writes: one is posted, and ended by its action `allow`."""

from __future__ import annotations

from typing import ClassVar

from django.core.exceptions import ValidationError
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcphub.features.writes.models import WriteStop
from sessions_app.kit.lists.filters import ListFilter, YesOrNo
from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.schema import HeldBackSerializer, extend_schema
from sessions_app.kit.rest.writing import AskedSerializer, RowSerializer, RowViewSet, StrictText, attribute, permissions
from sessions_app.workspaces.rest import workspace_field

WRITE_STOP_FILTERS: tuple[ListFilter, ...] = (YesOrNo(name="in_force", label=""),)


class WriteStopSerializer(RowSerializer[WriteStop]):
    """A stop of all writes, in force or over."""

    workspace = workspace_field()

    class Meta:
        model = WriteStop
        fields = ["id", "workspace", "reason", "in_force", "stopped_by", "stopped_at", "allowed_by", "allowed_at"]
        read_only_fields = ["in_force", "stopped_by", "stopped_at", "allowed_by", "allowed_at"]
        validators: ClassVar[list[object]] = []  # a stop in force is answered, not refused


class AllowWritesSerializer(AskedSerializer):
    reason = StrictText(required=False, allow_blank=True, max_length=300, help_text="Why. Kept with the history.")


@extend_schema_view(
    list=extend_schema(summary="Stops of all writes, newest first"), retrieve=extend_schema(summary="One stop")
)
class WriteStopViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[WriteStop]):
    queryset = WriteStop.objects.select_related("workspace")
    serializer_class = WriteStopSerializer
    filters = WRITE_STOP_FILTERS
    ordering = ("-stopped_at", "-id")
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = permissions("writes.writestop")
    may_conflict = True
    missing = "There is no such stop. GET /api/write-stops/ lists them."

    @extend_schema(
        summary="Stop all writes",
        description="For everybody, or for a workspace. Answers 200 with the stop in force where there is one.",
        request=WriteStopSerializer,
        responses={200: WriteStopSerializer, 201: WriteStopSerializer},
    )
    def create(self, request: Request) -> Response:
        asked = self.get_serializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given = asked.validated_data
        row, is_new = WriteStop.objects.stop(given.get("workspace"), given["reason"])
        return Response(self.get_serializer(row).data, status=201 if is_new else 200)

    @extend_schema(
        summary="Allow writes again",
        description="Answers 202 where a second person has to confirm it.",
        request=AllowWritesSerializer,
        responses={200: WriteStopSerializer, 202: HeldBackSerializer},
    )
    @action(detail=True, methods=["post"])
    def allow(self, request: Request, pk: str) -> Response:
        asked = AllowWritesSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        row = self.get_object()
        attribute(row, request, asked.validated_data.get("reason", ""))
        try:
            row.allow("")
        except ValidationError as error:
            raise Conflict(" ".join(error.messages)) from error
        waiting = row.waiting_answer()
        return Response(self.get_serializer(row).data) if waiting is None else Response(waiting, status=202)
