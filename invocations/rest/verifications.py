"""REST over verifications of the audit. Read only."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers

from invocations.chain.models import AuditVerification
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import RowSerializer, RowViewSet

_SCOPE = {"read": "audit:read", "write": "audit:read"}


class VerificationSerializer(RowSerializer[AuditVerification]):
    """The extent and result of a verification of the audit."""

    problem = serializers.CharField(read_only=True, help_text="Empty: all was as it was sealed.")

    class Meta:
        model = AuditVerification
        fields = ["id", "verified_at", "way", "size", "blocks", "milliseconds", "problem"]
        read_only_fields = fields


@extend_schema_view(list=extend_schema(summary="Verifications of the audit, newest first"))
class VerificationViewSet(mixins.ListModelMixin, RowViewSet[AuditVerification]):
    queryset = AuditVerification.objects.all()
    serializer_class = VerificationSerializer
    ordering = ("-id",)
    required_scope = _SCOPE
    required_permission = {"read": "invocations.view_auditblock", "write": "invocations.view_auditblock"}
