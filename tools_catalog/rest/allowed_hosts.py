"""REST over the hosts that the hub may reach outside the public internet."""

from __future__ import annotations

from sessions_app.kit.lists.filters import ListFilter, YesOrNo
from sessions_app.kit.rest.writing import ReasonedSerializer, permissions
from tools_catalog.models import AllowedHost
from tools_catalog.rest.removable import RemovableViewSet, described

ALLOWED_HOST_FILTERS: tuple[ListFilter, ...] = (YesOrNo(name="enabled", label=""),)


class AllowedHostSerializer(ReasonedSerializer):
    """A host, an address or a network outside the public internet that the hub may reach."""

    class Meta:
        model = AllowedHost
        fields = ["id", "host", "enabled", "note", "created_at", "reason"]
        read_only_fields = ["created_at"]


@described(
    "allowed host", "Allowed hosts, by name", on_removal="Requests to it are refused from now on, within 250 ms."
)
class AllowedHostViewSet(RemovableViewSet):
    queryset = AllowedHost.objects.all()
    serializer_class = AllowedHostSerializer
    filters = ALLOWED_HOST_FILTERS
    ordering = ("host",)
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = permissions("tools_catalog.allowedhost")
    missing = "There is no such allowed host. GET /api/allowed-hosts/ lists them."
