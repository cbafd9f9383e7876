"""REST over the processes of the hub: which there are and were, and the transports that each serves."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers

from sessions_app.filters import PROCESS_FILTERS
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import RowSerializer, RowViewSet
from sessions_app.models import ProcessTransport, ServerProcess


class TransportSerializer(serializers.ModelSerializer[ProcessTransport]):
    """A transport that the process serves."""

    configuration = serializers.DictField(read_only=True)

    class Meta:
        model = ProcessTransport
        fields = ["type", "is_active", "configuration", "last_error", "last_error_at"]
        read_only_fields = fields


class ProcessSerializer(RowSerializer[ServerProcess]):
    """A process of the hub."""

    transports = TransportSerializer(many=True, read_only=True)

    class Meta:
        model = ServerProcess
        fields = [
            "process_id",
            "status",
            "version",
            "protocol_version",
            "host",
            "pid",
            "started_at",
            "last_seen_at",
            "stopped_at",
            "transports",
        ]
        read_only_fields = fields


@extend_schema_view(
    list=extend_schema(summary="Processes of the hub, newest first"),
    retrieve=extend_schema(summary="One process and its transports"),
)
class ProcessViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[ServerProcess]):
    queryset = ServerProcess.objects.prefetch_related("transports")
    serializer_class = ProcessSerializer
    filters = PROCESS_FILTERS
    ordering = ("-started_at", "-process_id")
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "audit:read"}
    required_permission = {"read": "sessions_app.view_serverprocess"}
    missing = "There is no such process. GET /api/processes/ lists them."
