"""REST over resources and prompts."""

from __future__ import annotations

from django.contrib.auth.models import Group
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from sessions_app.kit.rest.json_fields import JSONObject, JSONValue
from sessions_app.kit.rest.writing import Named, ReasonedSerializer, StrictText, permissions
from sessions_app.protocol.json import Json
from sessions_app.workspaces.rest import workspace_field
from tools_catalog.filters import PROMPT_FILTERS, RESOURCE_FILTERS
from tools_catalog.models import McpPrompt, McpResource
from tools_catalog.rest.removable import RemovableViewSet, described
from tools_catalog.rest.tools import runs_the_catalogue


@extend_schema_field({"type": "array", "items": {"type": "object", "additionalProperties": True}})
class JSONList(JSONValue):
    """A JSON list of objects, validated by the model."""

    default_error_messages = {"not_objects": "This must be a list of JSON objects."}

    def to_internal_value(self, data: Json) -> list[object]:
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            self.fail("not_objects")
        return data


class ContentSerializer(ReasonedSerializer):
    INSIDE = frozenset({"function", "completions", "content", "messages"})
    """Members read over MCP, under its scope and limits, or reserved to operators."""

    groups = Named(
        slug_field="name",
        queryset=Group.objects.all(),
        many=True,
        required=False,
        help_text="Names of the groups that may see and read it. Empty: every caller.",
    )
    function = StrictText(
        required=False,
        allow_blank=True,
        max_length=200,
        help_text="A registered Python function. Null for a key without catalog:write.",
    )
    completions = JSONObject(required=False, help_text="Null for a key without catalog:write.")
    icons = JSONList(required=False)

    def to_representation(self, instance: object) -> dict[str, object]:
        shown = super().to_representation(instance)
        request = self.context.get("request")
        if request is not None and not runs_the_catalogue(request):
            shown |= dict.fromkeys(self.INSIDE & shown.keys())
        return shown


class ResourceSerializer(ContentSerializer):
    """A resource, or many of them by one URI template, with its content."""

    content = StrictText(
        required=False,
        allow_blank=True,
        trim_whitespace=False,
        help_text="The text, or bytes in base64. Null for a key without catalog:write.",
    )
    is_template = serializers.BooleanField(read_only=True, help_text="Whether the URI has variables (RFC 6570).")

    workspace = workspace_field()

    class Meta:
        model = McpResource
        fields = [
            "id",
            "uri",
            "is_template",
            "name",
            "title",
            "description",
            "mime_type",
            "annotations",
            "backend",
            "content",
            "function",
            "timeout_seconds",
            "completions",
            "icons",
            "meta",
            "enabled",
            "groups",
            "workspace",
            "created_at",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["id", "created_at", "updated_at"]


class PromptSerializer(ContentSerializer):
    """A prompt with its messages."""

    arguments = JSONList(required=False)
    messages = JSONList(required=False, help_text="Null for a key without catalog:write.")

    workspace = workspace_field()

    class Meta:
        model = McpPrompt
        fields = [
            "name",
            "title",
            "description",
            "arguments",
            "backend",
            "messages",
            "function",
            "timeout_seconds",
            "completions",
            "icons",
            "meta",
            "enabled",
            "groups",
            "workspace",
            "created_at",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["created_at", "updated_at"]


@described("resource", "Resources and templates, by URI")
class ResourceViewSet(RemovableViewSet):
    queryset = McpResource.objects.select_related("workspace").prefetch_related("groups")
    serializer_class = ResourceSerializer
    filters = RESOURCE_FILTERS
    ordering = ("uri",)
    lookup_value_regex = "[0-9]{1,18}"
    required_permission = permissions("tools_catalog.mcpresource")
    missing = "There is no such resource. GET /api/resources/ lists them with their ids."


@described("prompt", "Prompts, by name")
class PromptViewSet(RemovableViewSet):
    queryset = McpPrompt.objects.select_related("workspace").prefetch_related("groups")
    serializer_class = PromptSerializer
    filters = PROMPT_FILTERS
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_permission = permissions("tools_catalog.mcpprompt")
    missing = "There is no such prompt. GET /api/prompts/ lists them."
