"""REST over resources and prompts."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.serializers import BaseSerializer

from sessions_app.rest.lists import BooleanFilter, ChoiceFilter, ExactFilter, FilterSet
from sessions_app.rest.writing import JSONObject, JSONValue, Named, RowSerializer, StrictText, WritingViewSet, attribute
from tools_catalog.api import SCOPES, runs_the_catalogue, visible_rows
from tools_catalog.models import McpPrompt, McpResource
from tools_catalog.models_content import PromptBackend, ResourceBackend


@extend_schema_field({"type": "array", "items": {"type": "object", "additionalProperties": True}})
class JSONList(JSONValue):
    """A JSON list of objects; the model says what is wrong with them."""

    default_error_messages = {"not_objects": "This must be a list of JSON objects."}

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            self.fail("not_objects")
        return data


class ContentSerializer(RowSerializer[Any]):
    INSIDE = frozenset({"function", "completions", "content", "messages"})
    """What is read over MCP, under its scope and limits, or is nobody's business but the operators'."""

    groups = Named(
        slug_field="name", queryset=Group.objects.all(), many=True, required=False,
        help_text="Names of the groups that may see and read it. Empty: every caller.",
    )  # fmt: skip
    function = StrictText(
        required=False, allow_blank=True, max_length=200,
        help_text="A registered Python function. Null for a key without catalog:write.",
    )  # fmt: skip
    completions = JSONObject(required=False, help_text="Null for a key without catalog:write.")
    icons = JSONList(required=False)
    reason = StrictText(
        write_only=True, required=False, allow_blank=True, max_length=100, help_text="Why. Kept with the history."
    )

    def to_representation(self, instance: Any) -> Any:
        shown = super().to_representation(instance)
        request = self.context.get("request")
        if request is not None and not runs_the_catalogue(request):
            shown |= dict.fromkeys(self.INSIDE & shown.keys())
        return shown

    def _write(self, row: Any, values: dict[str, Any]) -> Any:
        attribute(row, self.context["request"], values.pop("reason", ""))
        return super()._write(row, values)


class ResourceSerializer(ContentSerializer):
    """A resource, or many of them by one URI template, with its content."""

    content = StrictText(
        required=False, allow_blank=True, trim_whitespace=False,
        help_text="The text, or bytes in base64. Null for a key without catalog:write.",
    )  # fmt: skip
    is_template = serializers.BooleanField(read_only=True, help_text="Whether the URI has variables (RFC 6570).")

    class Meta:
        model = McpResource
        fields = [
            "id", "uri", "is_template", "name", "title", "description", "mime_type", "annotations", "backend",
            "content", "function", "timeout_seconds", "completions", "icons", "meta", "enabled", "groups",
            "created_at", "updated_at", "reason",
        ]  # fmt: skip
        read_only_fields = ["id", "created_at", "updated_at"]


class PromptSerializer(ContentSerializer):
    """A prompt with its messages."""

    arguments = JSONList(required=False)
    messages = JSONList(required=False, help_text="Null for a key without catalog:write.")

    class Meta:
        model = McpPrompt
        fields = [
            "name", "title", "description", "arguments", "backend", "messages", "function", "timeout_seconds",
            "completions", "icons", "meta", "enabled", "groups", "created_at", "updated_at", "reason",
        ]  # fmt: skip
        read_only_fields = ["created_at", "updated_at"]


class ResourceFilter(FilterSet):
    uri = ExactFilter()
    enabled = BooleanFilter()
    backend = ChoiceFilter(choices=ResourceBackend.choices)

    class Meta:
        model = McpResource
        fields: list[str] = []


class PromptFilter(FilterSet):
    enabled = BooleanFilter()
    backend = ChoiceFilter(choices=PromptBackend.choices)

    class Meta:
        model = McpPrompt
        fields: list[str] = []


class ContentViewSet(mixins.CreateModelMixin, mixins.DestroyModelMixin, WritingViewSet[Any]):
    required_scope = SCOPES

    def get_queryset(self) -> QuerySet[Any]:
        return visible_rows(super().get_queryset(), self.request)

    def perform_create(self, serializer: BaseSerializer[Any]) -> None:
        with transaction.atomic():
            serializer.save()

    def perform_destroy(self, instance: Any) -> None:
        attribute(instance, self.request, "")
        instance.delete()


def _permissions(model: str) -> dict[str, str]:
    return {
        "read": f"tools_catalog.view_{model}",
        "create": f"tools_catalog.add_{model}",
        "write": f"tools_catalog.change_{model}",
        "delete": f"tools_catalog.delete_{model}",
    }


@extend_schema_view(
    list=extend_schema(summary="Resources and templates, by URI"),
    retrieve=extend_schema(summary="One resource"),
    create=extend_schema(summary="Add a resource"),
    update=extend_schema(summary="Replace a resource"),
    partial_update=extend_schema(summary="Change a resource"),
    destroy=extend_schema(summary="Remove a resource"),
)
class ResourceViewSet(ContentViewSet):
    queryset = McpResource.objects.prefetch_related("groups")
    serializer_class = ResourceSerializer
    filterset_class = ResourceFilter
    ordering = ("uri",)
    lookup_value_regex = "[0-9]{1,18}"
    required_permission = _permissions("mcpresource")
    missing = "There is no such resource. GET /api/resources/ lists them with their ids."


@extend_schema_view(
    list=extend_schema(summary="Prompts, by name"),
    retrieve=extend_schema(summary="One prompt"),
    create=extend_schema(summary="Add a prompt"),
    update=extend_schema(summary="Replace a prompt"),
    partial_update=extend_schema(summary="Change a prompt"),
    destroy=extend_schema(summary="Remove a prompt"),
)
class PromptViewSet(ContentViewSet):
    queryset = McpPrompt.objects.prefetch_related("groups")
    serializer_class = PromptSerializer
    filterset_class = PromptFilter
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_permission = _permissions("mcpprompt")
    missing = "There is no such prompt. GET /api/prompts/ lists them."
