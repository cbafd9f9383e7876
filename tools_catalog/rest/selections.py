"""REST over services and toolsets: the targets of HTTP tools, and selections of tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import Named, ReasonedSerializer, StrictText, WritingViewSet, permissions
from sessions_app.protocol.errors import MethodNotAllowed
from sessions_app.workspaces.rest import workspace_field
from tools_catalog.filters import SERVICE_FILTERS, TOOLSET_FILTERS
from tools_catalog.models import HttpService, McpPrompt, McpResource, McpToolDefinition, McpToolset, reach
from tools_catalog.rest.removable import RemovableViewSet, described
from tools_catalog.rest.tools import runs_the_catalogue, visible_rows


class ServiceSerializer(ReasonedSerializer):
    """An API that several HTTP tools call."""

    class Meta:
        model = HttpService
        fields = [
            "slug",
            "title",
            "url",
            "headers",
            "account",
            "issuer",
            "authorization_url",
            "token_url",
            "client_id",
            "client_secret",
            "account_scopes",
            "kind",
            "version",
            "enabled",
            "created_at",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["created_at", "updated_at"]


class ToolsetSerializer(ReasonedSerializer):
    """A selection of tools with an address of its own."""

    INSIDE = frozenset({"patterns", "read_patterns"})
    """They may name tools that a caller must not know of."""

    tools = Named(
        slug_field="name",
        queryset=McpToolDefinition.objects.all(),
        many=True,
        required=False,
        help_text="Names of tools. A key without catalog:write reads those that it may see.",
    )
    patterns = StrictText(
        required=False,
        allow_blank=True,
        help_text="Patterns of names, with blanks between. Null for a key without catalog:write.",
    )
    prompts = Named(
        slug_field="name",
        queryset=McpPrompt.objects.all(),
        many=True,
        required=False,
        help_text="Names of prompts, where reads is chosen. A key without catalog:write reads those that it may see.",
    )
    resources = Named(
        slug_field="uri",
        queryset=McpResource.objects.all(),
        many=True,
        required=False,
        help_text="URIs of resources, where reads is chosen. A key without catalog:write reads those that it may see.",
    )
    read_patterns = StrictText(
        required=False,
        allow_blank=True,
        help_text="Patterns of names of prompts and of URIs, with blanks between. Null for a key without "
        "catalog:write.",
    )
    groups = Named(
        slug_field="name",
        queryset=Group.objects.all(),
        many=True,
        required=False,
        help_text="Names of the groups that may use the address. Empty: every caller.",
    )
    path = serializers.CharField(read_only=True, help_text="Where clients find it.")

    workspace = workspace_field()

    class Meta:
        model = McpToolset
        fields = [
            "slug",
            "path",
            "title",
            "description",
            "mode",
            "tools",
            "patterns",
            "reads",
            "prompts",
            "resources",
            "read_patterns",
            "enabled",
            "groups",
            "workspace",
            "created_at",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["created_at", "updated_at"]

    def to_representation(self, instance: Any) -> dict[str, object]:
        shown = super().to_representation(instance)
        request = self.context.get("request")
        if request is not None and not runs_the_catalogue(request):
            for member, (model, column) in _LINKED.items():
                seen = visible_rows(model.objects.filter(toolsets=instance), request)
                shown[member] = list(seen.order_by(column).values_list(column, flat=True))
            shown |= dict.fromkeys(self.INSIDE)
        return shown


_LINKED: Mapping[str, tuple[Any, str]] = {
    "tools": (McpToolDefinition, "name"),
    "prompts": (McpPrompt, "name"),
    "resources": (McpResource, "uri"),
}
"""A toolset's choices: its rows, and the column of their name."""


@extend_schema_view(
    list=extend_schema(summary="Services behind HTTP tools, by name"),
    retrieve=extend_schema(summary="One service"),
    create=extend_schema(summary="Add a service"),
    update=extend_schema(summary="Replace a service's words"),
    partial_update=extend_schema(
        summary="Change a service", description="Its tools take the change. Switch it off here: then none is served."
    ),
)
class ServiceViewSet(mixins.CreateModelMixin, WritingViewSet[Any]):
    queryset = HttpService.objects.all()
    ordering = ("slug",)
    lookup_field = "slug"
    lookup_value_regex = "[^/]+"
    serializer_class = ServiceSerializer
    holds_back = True
    filters = SERVICE_FILTERS
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = permissions("tools_catalog.httpservice")
    missing = "There is no such service. GET /api/services/ lists them."

    def perform_create(self, serializer: BaseSerializer[Any]) -> None:
        with transaction.atomic():
            serializer.save()

    def http_method_not_allowed(self, request: Any, *args: object, **kwargs: object) -> Response:
        if request.method == "DELETE" and self.detail:
            raise MethodNotAllowed(
                'Services are not deleted: tools name them. Disable it: PATCH {"enabled": false}.',
                allowed=["GET", "PATCH", "PUT"],
            )
        return super().http_method_not_allowed(request, *args, **kwargs)


@described("toolset", "Toolsets, by name", on_removal="Its tools stay; its address answers 404.")
class ToolsetViewSet(RemovableViewSet):
    queryset = McpToolset.objects.select_related("workspace").prefetch_related(
        "tools", "prompts", "resources", "groups"
    )
    serializer_class = ToolsetSerializer
    filters = TOOLSET_FILTERS
    ordering = ("slug",)
    lookup_field = "slug"
    lookup_value_regex = "[^/]+"
    required_permission = permissions("tools_catalog.mcptoolset")
    of_workspace = frozenset({"list", "retrieve", "create", "update", "partial_update", "destroy"})
    may_conflict = True
    missing = "There is no such toolset. GET /api/toolsets/ lists them."

    def perform_destroy(self, instance: Any) -> None:
        if evaded := reach.losses_without(instance):
            raise Conflict(
                f"Tools of {instance.slug} would leave the reach of: {', '.join(evaded)}. Change these first, or have "
                "a superuser remove the toolset."
            )
        super().perform_destroy(instance)
