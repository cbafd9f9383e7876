"""REST over rules about calls."""

from __future__ import annotations

from rest_framework import serializers

from mcphub.features.call_rules.filters import POLICY_FILTERS
from mcphub.features.call_rules.models import McpPolicyRule
from sessions_app.kit.rest.writing import ReasonedSerializer, StrictInteger, permissions
from sessions_app.workspaces.rest import workspace_field
from tools_catalog.rest.removable import RemovableViewSet, described


class PolicyRuleSerializer(ReasonedSerializer):
    """A call rule: its condition and its effect."""

    priority = StrictInteger(required=False, min_value=-1000, max_value=1000)
    is_in_force = serializers.BooleanField(read_only=True, help_text="It is enabled and does not only watch.")

    workspace = workspace_field()

    class Meta:
        model = McpPolicyRule
        fields = [
            "name",
            "version",
            "effect",
            "applies_to",
            "target",
            "workspace",
            "condition",
            "words",
            "priority",
            "enabled",
            "watching",
            "is_in_force",
            "valid_from",
            "valid_until",
            "ask_decider",
            "ask_group",
            "ask_needed",
            "ask_seconds",
            "created_at",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["version", "created_at", "updated_at"]


@described(
    "rule about calls",
    "Rules about calls, by name",
    on_removal="The record of calls that it decided keeps its name. One in force is switched off first.",
)
class PolicyRuleViewSet(RemovableViewSet):
    queryset = McpPolicyRule.objects.select_related("workspace")
    serializer_class = PolicyRuleSerializer
    filters = POLICY_FILTERS
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    of_workspace = frozenset({"list", "retrieve", "create", "update", "partial_update", "destroy"})
    required_permission = permissions("tools_catalog.mcppolicyrule")
    may_conflict = True
    in_force = 'The rule is in force. Switch it off first: PATCH {"enabled": false}.'
    missing = "There is no such rule. GET /api/policy-rules/ lists them."
