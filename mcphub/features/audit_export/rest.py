"""REST over the targets that the audit is shipped to. Read only: destinations are changed in the console."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers

from mcphub.features.audit_export import service
from mcphub.features.audit_export.models import ShippingTarget
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import RowSerializer, RowViewSet

_SCOPE = {"read": "audit:read", "write": "audit:read"}


class ShippingTargetSerializer(RowSerializer[ShippingTarget]):
    """A target, and how far it is."""

    position = serializers.IntegerField(source="state.position", read_only=True, help_text="The next row to go.")
    lag_rows = serializers.SerializerMethodField(help_text="Sealed rows that it has not got yet.")
    lag_seconds = serializers.SerializerMethodField(
        help_text="Since the oldest block was sealed that it has not got; 0: it has all."
    )
    rows = serializers.IntegerField(source="state.rows", read_only=True, help_text="Delivered, repeats included.")
    refused_rows = serializers.IntegerField(source="state.refused_rows", read_only=True)
    delivered_at = serializers.DateTimeField(source="state.delivered_at", read_only=True, allow_null=True)
    failures = serializers.IntegerField(source="state.failures", read_only=True, help_text="In a row.")
    failing_since = serializers.DateTimeField(source="state.failing_since", read_only=True, allow_null=True)
    problem = serializers.CharField(source="state.problem", read_only=True)

    class Meta:
        model = ShippingTarget
        fields = [
            "name",
            "kind",
            "enabled",
            "address",
            "content",
            "with_bodies",
            "format",
            "holds_retention",
            "position",
            "lag_rows",
            "lag_seconds",
            "rows",
            "refused_rows",
            "delivered_at",
            "failures",
            "failing_since",
            "problem",
        ]
        read_only_fields = fields

    @extend_schema_field(int)
    def get_lag_rows(self, row: ShippingTarget) -> int:
        return service.lag_of(row).rows

    @extend_schema_field(float)
    def get_lag_seconds(self, row: ShippingTarget) -> float:
        return round(service.lag_of(row).seconds, 3)


@extend_schema_view(
    list=extend_schema(summary="Targets that the audit is shipped to, by name"),
    retrieve=extend_schema(summary="One target, and how far it is"),
)
class ShippingTargetViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[ShippingTarget]):
    queryset = ShippingTarget.objects.with_lag()
    serializer_class = ShippingTargetSerializer
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = _SCOPE
    required_permission = {"read": "invocations.view_shippingtarget", "write": "invocations.view_shippingtarget"}
    missing = "There is no such target. GET /api/audit/shipping/ lists them."
