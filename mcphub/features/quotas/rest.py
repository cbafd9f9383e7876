"""REST over quotas and their usage."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcphub.features.quotas import usage
from mcphub.features.quotas.filters import QUOTA_FILTERS
from mcphub.features.quotas.models import MOST_LIMIT, McpQuota
from sessions_app.kit.people_tables import PEOPLE
from sessions_app.kit.rest.filters import refuse_strange
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import Named, ReasonedSerializer, StrictInteger, permissions
from sessions_app.models import ApiKey
from tools_catalog.rest.removable import RemovableViewSet, described

_LIMIT: dict[str, Any] = {"required": False, "allow_null": True, "min_value": 1, "max_value": MOST_LIMIT}
_ABOUT: dict[str, Any] = {"required": False, "allow_null": True}


class QuotaSerializer(ReasonedSerializer):
    """A quota: its subject, its tools, and its limit per window."""

    person = Named(
        slug_field=PEOPLE.name,
        queryset=get_user_model()._default_manager.all(),
        help_text="Only the calls of this person, or account of a service, count.",
        **_ABOUT,
    )
    key = Named(
        slug_field="prefix",
        queryset=ApiKey.objects.all(),
        help_text="Only the calls with this key count, named by its prefix.",
        **_ABOUT,
    )
    group = Named(
        slug_field="name", queryset=Group.objects.all(), help_text="Only the calls of this group count.", **_ABOUT
    )
    soft_limit = StrictInteger(help_text="From here on it warns. Of money millionths.", **_LIMIT)
    hard_limit = StrictInteger(help_text="From here on it refuses. Of money millionths.", **_LIMIT)

    class Meta:
        model = McpQuota
        fields = [
            "name",
            "words",
            "enabled",
            "per",
            "person",
            "key",
            "group",
            "provider",
            "unit",
            "period",
            "soft_limit",
            "hard_limit",
            "applies_to",
            "target",
            "created_at",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["created_at", "updated_at"]


class QuotaUseSerializer(serializers.Serializer[Any]):
    """The count in the current window."""

    quota = serializers.CharField()
    subject = serializers.CharField(help_text="`user:1`, `key:2`, `group:3`, or `all`.")
    name = serializers.CharField(help_text="The name of the person, key or group; empty where there is none.")
    unit = serializers.ChoiceField(choices=McpQuota.Unit.choices)
    used = serializers.IntegerField(help_text="Of money millionths, as the limits.")
    soft_limit = serializers.IntegerField(allow_null=True)
    hard_limit = serializers.IntegerField(allow_null=True)
    currency = serializers.CharField(allow_null=True, help_text="Of money; null of other units.")
    estimated = serializers.IntegerField(help_text="Part of `used` that providers did not tell.")
    unpriced = serializers.IntegerField(help_text="Requests to models without a price, which count nothing.")
    state = serializers.ChoiceField(choices=["open", "warns", "refuses"])
    begins_at = serializers.DateTimeField()
    resets_at = serializers.DateTimeField(help_text="When all of it is released.")


class QuotaUsesQuerySerializer(serializers.Serializer[Any]):
    """The requested subject."""

    quota = serializers.CharField(required=False, help_text="Of this quota only.")


class QuotaUsesSerializer(serializers.Serializer[Any]):
    """The sums closest to a limit come first."""

    uses = QuotaUseSerializer(many=True, help_text=f"At most {usage.MOST_SHOWN}.")


@described(
    "quota",
    "Quotas, by name",
    on_removal="Refusals on record keep its name. One in force is switched off first where that needs a second person.",
)
class QuotaViewSet(RemovableViewSet):
    queryset = McpQuota.objects.select_related("person", "key", "group")
    serializer_class = QuotaSerializer
    filters = QUOTA_FILTERS
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = permissions("invocations.mcpquota")
    may_conflict = True
    in_force = 'The quota is in force. Switch it off first: PATCH {"enabled": false}.'
    missing = "There is no such quota. GET /api/quotas/ lists them."

    @extend_schema(
        summary="Who has used how much of which quota",
        parameters=[QuotaUsesQuerySerializer],
        responses={200: QuotaUsesSerializer},
    )
    @action(detail=False, methods=["get"], pagination_class=None, filter_backends=[])
    def usage(self, request: Request) -> Response:
        refuse_strange(request, ("quota",))
        asked = QuotaUsesQuerySerializer(data=request.query_params)
        asked.is_valid(raise_exception=True)
        found = usage.uses(quota=asked.validated_data.get("quota", ""))
        return Response({"uses": [each.told() for each in found]})
