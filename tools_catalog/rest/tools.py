"""REST over the catalogue: tool definitions and their versions.

Authentication and errors are the ones that REST_FRAMEWORK names; this floor knows of a key only that it has groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.utils import OpenApiParameter, extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.json_fields import JSONObject
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import (
    Named,
    RowSerializer,
    RowViewSet,
    StrictText,
    WritingViewSet,
    attribute,
    permissions,
)
from sessions_app.protocol.errors import MethodNotAllowed
from sessions_app.protocol.json import Json
from sessions_app.workspaces.models import keys_of
from sessions_app.workspaces.rest import workspace_field
from tools_catalog.catalog.additions import checks_of, read_checks
from tools_catalog.filters import TOOL_FILTERS
from tools_catalog.models import McpToolDefinition, McpToolset, McpToolVersion, reach
from tools_catalog.models.ruled import former_names, ruled

_Row = TypeVar("_Row", bound=Model)

SCOPES = {"read": "tools:list", "write": "catalog:write"}


class _Key(Protocol):
    """A key's rights in the catalogue."""

    scopes: list[str]
    workspace_id: int | None
    principal: str
    caller_label: str

    def held_groups(self) -> QuerySet[Any]:
        """Return the groups with rows that it sees now."""


class ConfigurationField(serializers.Field[Any, Any, Any, Any]):
    """A tool's backend: addresses and headers of other systems, for operators of the catalogue only."""

    default_error_messages = {"not_an_object": "This must be a JSON object."}

    def to_internal_value(self, data: Json) -> Json:
        if not isinstance(data, dict):
            self.fail("not_an_object")
        return data  # the model says what is wrong with it

    def to_representation(self, value: Json) -> Json:
        request = self.context.get("request")
        return value if request is None or runs_the_catalogue(request) else None


class AliasesField(serializers.ListField):
    """Former names of a tool."""

    child = StrictText()

    def get_attribute(self, instance: McpToolDefinition) -> list[str]:
        return live_aliases(instance)


class ConfigurationSchema(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Null is read, never written."""

    target_class = ConfigurationField

    def map_serializer_field(self, auto_schema: object, direction: str) -> dict[str, Json]:
        kinds = "object" if direction == "request" else ["object", "null"]
        return {"type": kinds, "additionalProperties": True}


class ToolDefinitionSerializer(RowSerializer[McpToolDefinition]):
    """A tool as clients see it, and how it is run."""

    configuration = ConfigurationField(
        help_text="Secrets are named, never shown. Null for a key without catalog:write."
    )
    groups = Named(
        slug_field="name",
        queryset=Group.objects.all(),
        many=True,
        required=False,
        help_text="Names of the groups that may see and call it. Empty: every caller.",
    )
    aliases = AliasesField(
        required=False, help_text="Former names that still lead to it. Send fewer to forget the others."
    )
    reason = StrictText(
        write_only=True, required=False, allow_blank=True, max_length=300, help_text="Why. Kept with the version."
    )

    workspace = workspace_field()

    class Meta:
        model = McpToolDefinition
        fields = [
            "name",
            "aliases",
            "title",
            "description",
            "input_schema",
            "output_schema",
            "version",
            "enabled",
            "backend",
            "configuration",
            "read_only",
            "destructive",
            "idempotent",
            "open_world",
            "retry_safe",
            "timeout_seconds",
            "task_support",
            "calls_per_minute",
            "groups",
            "workspace",
            "meta",
            "requirements",
            "created_at",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["version", "created_at", "updated_at"]

    def _write(self, row: McpToolDefinition, values: dict[str, Any]) -> McpToolDefinition:
        reason = values.pop("reason", "")
        kept = values.pop("aliases", None)
        if kept is not None:
            if unknown := sorted(set(kept) - set(live_aliases(row))):
                words = f"{unknown[0][:64]!r} is no former name of it. They come of renaming; leave out what to forget."
                raise serializers.ValidationError({"aliases": [words]}, code="does_not_exist")
            if row.pk:
                _forget(row, kept)
        row.change_author, row.change_reason = attribute(row, self.context["request"], reason)
        return super()._write(row, values)


class ToolVersionSerializer(RowSerializer[McpToolVersion]):
    """The visible and executed definition under one version number."""

    definition = serializers.SerializerMethodField(help_text="What clients saw and what ran.")

    class Meta:
        model = McpToolVersion
        fields = ["version", "digest", "definition", "author_label", "reason", "created_at"]
        read_only_fields = fields

    @extend_schema_field(JSONObject)
    def get_definition(self, version: McpToolVersion) -> Json:
        if runs_the_catalogue(self.context["request"]):
            return version.definition
        return {**version.definition, "configuration": None}


@extend_schema_view(
    list=extend_schema(summary="Tools, by name"),
    retrieve=extend_schema(summary="One tool"),
    create=extend_schema(summary="Add a tool"),
    update=extend_schema(summary="Replace a tool's definition"),
    partial_update=extend_schema(
        summary="Change a tool", description="What clients see changes as the next version. Disable a tool here."
    ),
)
class ToolDefinitionViewSet(mixins.CreateModelMixin, WritingViewSet[McpToolDefinition]):
    queryset = McpToolDefinition.objects.select_related("workspace").prefetch_related("groups", "aliases")
    serializer_class = ToolDefinitionSerializer
    filters = TOOL_FILTERS
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = SCOPES
    of_workspace = frozenset({"list", "retrieve"})
    required_permission = permissions("tools_catalog.mcptooldefinition")
    holds_back = True
    may_conflict = True
    missing = "There is no such tool. GET /api/tool-definitions/ lists them."

    def get_queryset(self) -> QuerySet[McpToolDefinition]:
        return visible_rows(super().get_queryset(), self.request)

    def get_object(self) -> McpToolDefinition:
        """Return the tool of the name in the address, or of the former name."""
        self.kwargs["name"] = _present_name(self.kwargs["name"])
        return super().get_object()

    def perform_create(self, serializer: BaseSerializer[McpToolDefinition]) -> None:
        with transaction.atomic():
            serializer.save()

    def http_method_not_allowed(self, request: Any, *args: object, **kwargs: object) -> Response:
        if request.method == "DELETE" and self.detail:
            raise MethodNotAllowed(
                'Tools are not deleted: the audit names them for ever. Disable it: PATCH {"enabled": false}.',
                allowed=["GET", "PATCH", "PUT"],
            )
        return super().http_method_not_allowed(request, *args, **kwargs)


@extend_schema_view(
    list=extend_schema(
        summary="Versions of a tool, newest first",
        parameters=[OpenApiParameter("name", str, OpenApiParameter.PATH, description="The tool's name.")],
    )
)
class ToolVersionViewSet(mixins.ListModelMixin, RowViewSet[McpToolVersion]):
    queryset = McpToolVersion.objects.defer("author")
    serializer_class = ToolVersionSerializer
    ordering = ("-id",)
    required_scope = SCOPES
    required_permission = ToolDefinitionViewSet.required_permission
    missing = ToolDefinitionViewSet.missing

    def get_queryset(self) -> QuerySet[McpToolVersion]:
        if getattr(self, "swagger_fake_view", False):
            return super().get_queryset()
        tools = visible_rows(McpToolDefinition.objects.only("id"), self.request)
        return super().get_queryset().filter(tool=get_object_or_404(tools, name=_present_name(self.kwargs["name"])))


def _forget(row: McpToolDefinition, kept: list[str]) -> None:
    """Delete the other former names. Raises Conflict where a policy covers the tool by one of them."""
    forgotten = row.aliases.exclude(name__in=kept)
    if evaded := reach.losses_of_names(forgotten.values_list("name", flat=True)):
        raise Conflict(
            f"By a former name {row.name} is in the reach of: {', '.join(evaded)}. Name the tool there by its present "
            "name first, or have a superuser remove the former name."
        )
    forgotten.delete()


def live_aliases(row: McpToolDefinition) -> list[str]:
    """Return the former names that still lead to the tool."""
    now = timezone.now()
    return [alias.name for alias in row.aliases.all() if alias.expires_at > now] if row.pk else []


def _present_name(name: str) -> str:
    found = McpToolDefinition.objects.only("name").called(name)
    return name if found is None else found.name


def visible_rows(rows: QuerySet[_Row], request: Request) -> QuerySet[_Row]:
    """All rows for operators of the catalogue; for another key those of its groups, as in MCP's lists."""
    key = cast("_Key | None", request.auth)
    if key is None or runs_the_catalogue(request):
        return rows
    model: Any = rows.model
    reserved, column = model.groups.through.objects, f"{model._meta.model_name}_id"
    open_to_key = reserved.filter(group__in=key.held_groups()).values(column)
    seen = rows.filter(Q(pk__in=open_to_key) | ~Q(pk__in=reserved.values(column)))
    seen = seen.filter(Q(workspace=None) | Q(workspace__in=_workspaces_of(key)))
    if model is McpToolDefinition and (hidden := _hidden_by_checks(key)):
        return seen.exclude(pk__in=hidden)
    return seen


def _workspaces_of(key: _Key) -> Iterable[int]:
    """Return the workspaces with rows that a key sees."""
    if key.workspace_id is not None:
        return [key.workspace_id]
    return keys_of(key.held_groups().values_list("pk", flat=True))


def _hidden_by_checks(key: _Key) -> list[int]:
    """Return the tools that checks of features hide from a key, as they do from MCP's lists."""
    checks = read_checks(only_hiding=True)
    if not checks:
        return []
    caller = _KeyAsPrincipal(key.principal, key.caller_label, frozenset(key.held_groups().values_list("pk", flat=True)))
    toolsets = {row.slug: frozenset(row.names()) for row in McpToolset.objects.filter(enabled=True)}
    hidden, former = [], former_names()
    for row in McpToolDefinition.objects.all():
        tool = ruled(row, former.get(row.pk, ()))
        if any(check.hides(tool, caller) is not None for check in checks_of((tool,), checks, toolsets).values()):
            hidden.append(row.pk)
    return hidden


@dataclass(frozen=True, slots=True)
class _KeyAsPrincipal:
    principal: str
    label: str
    groups: frozenset[int]
    claims: str = ""


def runs_the_catalogue(request: Request) -> bool:
    key = cast("_Key | None", request.auth)
    return key is None or "catalog:write" in key.scopes
