"""REST over workspaces: their names, and their groups by role."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.response import Response

from sessions_app.kit.lists.filters import ListFilter, TextIs
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import Named, ReasonedSerializer, WritingViewSet, permissions
from sessions_app.models import McpWorkspace
from sessions_app.protocol.errors import Forbidden, MethodNotAllowed

FILTERS: tuple[ListFilter, ...] = (
    TextIs(name="group", column="members__name", help_text="Workspaces whose members are of this group."),
)

_ROLES = frozenset({"auditors", "operators"})
"""Roles that no key assigns; members that it names wait for a second person."""


def _groups(words: str) -> Named:
    return Named(slug_field="name", queryset=Group.objects.all(), many=True, required=False, help_text=words)


class WorkspaceSerializer(ReasonedSerializer):
    """A team with tools, keys, rules and calls of its own."""

    path = serializers.CharField(read_only=True, help_text="Where its clients find it.")
    members = _groups("Names of the groups whose people call its tools.")
    auditors = _groups("Names of the groups whose people also read its calls, with arguments and results.")
    operators = _groups("Names of the groups whose people also keep its toolsets, rules and keys.")

    class Meta:
        model = McpWorkspace
        fields = [
            "slug",
            "path",
            "title",
            "description",
            "members",
            "auditors",
            "operators",
            "created_at",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["created_at", "updated_at"]

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse roles from keys: a directory's key would put its own group among people who read and decide."""
        if self.context["request"].auth is not None and (given := sorted(_ROLES & attrs.keys())):
            raise Forbidden(
                f"A key gives nobody a role in a workspace. Leave out {' and '.join(given)}, or log in to set them."
            )
        attrs = super().validate(attrs)
        return attrs

    def update(self, instance: Any, validated_data: dict[str, object]) -> Any:
        if validated_data.get("slug", instance.slug) != instance.slug:
            words = "A workspace keeps its name: calls on record have it. Make another one."
            raise serializers.ValidationError({"slug": [words]}, code="invalid")
        return super().update(instance, validated_data)


@extend_schema_view(
    list=extend_schema(summary="Workspaces, by name"),
    retrieve=extend_schema(summary="One workspace"),
    create=extend_schema(summary="Make a workspace"),
    update=extend_schema(summary="Replace the words and the groups of a workspace"),
    partial_update=extend_schema(
        summary="Change a workspace", description="Who is taken out of it sees nothing of it within a second."
    ),
)
class WorkspaceViewSet(mixins.CreateModelMixin, WritingViewSet[Any]):
    queryset = McpWorkspace.objects.prefetch_related("members", "auditors", "operators")
    serializer_class = WorkspaceSerializer
    filters = FILTERS
    ordering = ("slug",)
    lookup_field = "slug"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "people:write", "write": "people:write"}
    required_permission = permissions("sessions_app.mcpworkspace")
    holds_back = True
    missing = "There is no such workspace. GET /api/workspaces/ lists them."

    def perform_create(self, serializer: Any) -> None:
        with transaction.atomic():
            serializer.save()

    def http_method_not_allowed(self, request: Any, *args: object, **kwargs: object) -> Response:
        if request.method == "DELETE" and self.detail:
            words = "Workspaces are not deleted: calls on record name them. Take the groups away."
            raise MethodNotAllowed(words, allowed=["GET", "PATCH", "PUT"])
        return super().http_method_not_allowed(request, *args, **kwargs)
