"""REST over redaction rules. Read by programs, written by people."""

from __future__ import annotations

from django.db import transaction
from rest_framework import mixins
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.serializers import BaseSerializer

from invocations.redaction.models import McpRedactionRule
from sessions_app.history import guarding
from sessions_app.kit.lists.filters import ListFilter, OneOf, TextIs, YesOrNo
from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.writing import ReasonedSerializer, WritingViewSet, attribute, permissions
from sessions_app.protocol.errors import Forbidden
from tools_catalog.rest.removable import described

REDACTION_FILTERS: tuple[ListFilter, ...] = (
    YesOrNo(name="enabled", label=""),
    OneOf(name="kind", label="", choices=McpRedactionRule.Kind.choices),
    OneOf(name="part", label="", choices=McpRedactionRule.Part.choices),
    TextIs(name="tool", column="tool_name", help_text="As the rule has it: an exact name, or one with *."),
)


class RedactionRuleSerializer(ReasonedSerializer):
    """One place that is taken out of bodies before they are recorded."""

    class Meta:
        model = McpRedactionRule
        fields = ["id", "kind", "place", "part", "tool_name", "enabled", "note", "created_at", "reason"]
        read_only_fields = ["created_at"]


@described(
    "redaction rule",
    "Redaction rules, oldest first",
    on_removal="What was recorded without the place stays without it. What is recorded from now on has it. "
    "One in force is switched off first.",
)
class RedactionRuleViewSet(mixins.CreateModelMixin, mixins.DestroyModelMixin, WritingViewSet[McpRedactionRule]):
    queryset = McpRedactionRule.objects.all()
    serializer_class = RedactionRuleSerializer
    filters = REDACTION_FILTERS
    ordering = ("id",)
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    required_permission = permissions("invocations.mcpredactionrule")
    holds_back = True
    may_conflict = True
    missing = "There is no such rule. GET /api/redaction-rules/ lists them."

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        if request.auth is not None and request.method not in SAFE_METHODS:
            raise Forbidden("What is left out of the audit is decided by people who are logged in, not by keys.")

    def perform_create(self, serializer: BaseSerializer[McpRedactionRule]) -> None:
        with transaction.atomic():
            serializer.save()

    def perform_destroy(self, instance: McpRedactionRule) -> None:
        if instance.enabled and guarding.needs_second_person():
            raise Conflict('The rule is in force. Switch it off first: PATCH {"enabled": false}.')
        attribute(instance, self.request, "")
        instance.delete()
