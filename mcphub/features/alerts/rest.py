"""REST over alerts, and the trial of one on the last week."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcphub.features.alerts.counting import last_week
from mcphub.features.alerts.models import Alert
from sessions_app.kit.database import TookTooLong
from sessions_app.kit.lists.filters import ListFilter, OneOf, YesOrNo
from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import Named, ReasonedSerializer, StrictInteger
from sessions_app.models import ApiKey, McpWorkspace
from tools_catalog.models import McpConnection, McpToolDefinition
from tools_catalog.rest.removable import RemovableViewSet, described

ALERT_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="measure", label="", choices=Alert.Measure.choices),
    YesOrNo(name="enabled", label=""),
)
_SCOPE: dict[str, Any] = {"required": False, "allow_null": True, "default": None}


class AlertSerializer(ReasonedSerializer):
    """A threshold on calls, or on money."""

    limit = StrictInteger(
        required=False,
        allow_null=True,
        min_value=1,
        help_text="Percent, milliseconds, or whole units of the currency; null for `quiet`.",
    )
    least_calls = StrictInteger(
        required=False, min_value=1, max_value=1_000_000, help_text="Fewer calls within the time do not fire."
    )
    tool = Named(slug_field="name", queryset=McpToolDefinition.objects.all(), help_text="Its name.", **_SCOPE)
    connection = Named(slug_field="slug", queryset=McpConnection.objects.all(), help_text="Its name.", **_SCOPE)
    workspace = Named(slug_field="slug", queryset=McpWorkspace._default_manager.all(), help_text="Its name.", **_SCOPE)

    person = Named(
        slug_field="username", queryset=User.objects.all(), help_text="Their user name; for `spend`.", **_SCOPE
    )
    key = Named(
        slug_field="prefix", queryset=ApiKey.objects.all(), help_text="Its prefix, of no person; for `spend`.", **_SCOPE
    )

    class Meta:
        model = Alert
        fields = [
            "id",
            "name",
            "enabled",
            "measure",
            "limit",
            "window_minutes",
            "least_calls",
            "tool",
            "connection",
            "workspace",
            "person",
            "key",
            "provider",
            "created_at",
            "checked_at",
            "fires_since",
            "reason",
        ]
        read_only_fields = ["created_at", "checked_at", "fires_since"]


class AlertPreviewSerializer(serializers.Serializer[Any]):
    """The trial on the last week."""

    fired = serializers.IntegerField(help_text="How often it would have fired.")
    share = serializers.FloatField(help_text="The part of the week in which it would have held, from 0 to 1.")


@described("alert", "Alerts, by name", on_removal="A notice of it that still holds ends.")
class AlertViewSet(RemovableViewSet):
    queryset = Alert.objects.select_related(*Alert.WATCHED)
    serializer_class = AlertSerializer
    filters = ALERT_FILTERS
    ordering = ("name",)
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = {
        "read": "alerts.view_alert",
        "create": "alerts.add_alert",
        "write": "alerts.change_alert",
        "delete": "alerts.delete_alert",
    }
    may_conflict = True
    missing = "There is no such alert. GET /api/alerts/ lists them."

    @extend_schema(
        summary="How often an alert would have fired in the last week", responses={200: AlertPreviewSerializer}
    )
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def preview(self, request: Request, pk: str) -> Response:
        try:
            found = last_week(self.get_object(), datetime.now(UTC))
        except TookTooLong as error:
            raise Conflict("Counting a week took too long. Choose a tool or a longer time.") from error
        return Response({"fired": found.fired, "share": round(found.slots_fired / max(1, found.slots), 4)})
