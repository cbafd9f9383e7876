"""REST over API keys, to read: who holds one, what it may do, until when. Made, rotated and revoked elsewhere."""

from __future__ import annotations

from django.contrib.auth.models import Group
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, serializers

from sessions_app.kit.rest.writing import RowSerializer, RowViewSet
from sessions_app.models import ApiKey


class KeySerializer(RowSerializer[ApiKey]):
    """An API key without its text, of which the hub has a hash only."""

    principal = serializers.SerializerMethodField(help_text="As calls name it: key:ID.")
    scopes = serializers.ListField(child=serializers.CharField(), read_only=True)
    groups: serializers.SlugRelatedField[Group] = serializers.SlugRelatedField(
        slug_field="name", many=True, read_only=True
    )

    class Meta:
        model = ApiKey
        fields = [
            "principal",
            "name",
            "prefix",
            "scopes",
            "groups",
            "created_at",
            "expires_at",
            "revoked_at",
            "last_used_at",
        ]
        read_only_fields = fields

    def get_principal(self, row: ApiKey) -> str:
        return f"key:{row.pk}"


@extend_schema_view(
    list=extend_schema(summary="API keys, newest first"), retrieve=extend_schema(summary="One API key, by its prefix")
)
class KeyViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[ApiKey]):
    queryset = ApiKey.objects.prefetch_related("groups")
    serializer_class = KeySerializer
    ordering = ("-pk",)
    lookup_field = "prefix"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "audit:read"}
    required_permission = {"read": "sessions_app.view_apikey"}
    missing = "There is no such key. GET /api/keys/ lists them."
