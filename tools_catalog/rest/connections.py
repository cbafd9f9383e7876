"""REST over connections to other MCP servers. Connections that run a program are written by people who may start
programs.
"""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction
from drf_spectacular.utils import extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from sessions_app import bus
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.tried import TriedSerializer, tried
from sessions_app.kit.rest.writing import Named, RowSerializer, StrictText, WritingViewSet, attribute, permissions
from sessions_app.protocol.errors import Forbidden, MethodNotAllowed
from sessions_app.protocol.json import Json
from sessions_app.workspaces.rest import workspace_field
from tools_catalog.accounts.resolving import Accounts
from tools_catalog.filters import CONNECTION_FILTERS
from tools_catalog.models import HttpService, LaunchProfile, McpConnection
from tools_catalog.models.upstream import may_launch
from tools_catalog.upstream import probe
from tools_catalog.upstream.confinement import machine
from tools_catalog.vault import secret_for

_STDIO = McpConnection.Transport.STDIO
_CHANGES = {"write": "tools_catalog.change_mcpconnection"}


class HeldSerializer(serializers.Serializer[Any]):
    """One thing that a child is kept from."""

    subject = serializers.CharField(help_text="Files, network, processes, system calls, user or limits.")
    is_held = serializers.BooleanField(help_text="False where nothing keeps it from that.")
    how = serializers.CharField(help_text="By what, or why not.")


class ConnectionSerializer(RowSerializer[McpConnection]):
    """Another MCP server, how it is reached, and how the hub stands with it."""

    transport = serializers.ChoiceField(
        choices=McpConnection.Transport.choices,
        help_text="Fixed once it is saved. stdio runs the program of `profile`.",
    )
    profile = Named(
        slug_field="name",
        queryset=LaunchProfile.objects.all(),
        required=False,
        allow_null=True,
        help_text="Name of the launch profile that it runs over stdio. Set by upstream managers, not by keys.",
    )
    identity = Named(
        slug_field="slug",
        queryset=HttpService.objects.all(),
        required=False,
        allow_null=True,
        help_text="Name of the service whose accounts say who somebody is, where `account` is `jag`.",
    )
    groups = Named(
        slug_field="name",
        queryset=Group.objects.all(),
        many=True,
        required=False,
        help_text="Given to its tools when they are first approved.",
    )
    extensions = serializers.ListField(
        child=StrictText(max_length=200),
        required=False,
        help_text="Extensions of other vendors, by name, that client and upstream learn of each other.",
    )
    status = serializers.SerializerMethodField(help_text="The worst that a process of the hub reports.")
    error_message = serializers.SerializerMethodField(help_text="The last error. It stays while the hub tries again.")
    confinement = serializers.SerializerMethodField(
        help_text="Of a child: what this machine keeps it from, and what is missing. Empty over HTTP."
    )
    available_tools = serializers.SerializerMethodField(help_text="Names there of the tools that are served.")
    connected_at = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="When the connection was established that stands now."
    )
    reconnects = serializers.IntegerField(
        read_only=True, help_text="How often the connection or its session was lost and made anew, in all processes."
    )
    reconnected_at = serializers.DateTimeField(read_only=True, allow_null=True, help_text="When that was last counted.")
    last_used = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="When a call last went through it, within 3 s."
    )
    reason = StrictText(
        write_only=True, required=False, allow_blank=True, max_length=300, help_text="Why. Kept in the history."
    )

    workspace = workspace_field()

    class Meta:
        model = McpConnection
        fields = [
            "slug",
            "title",
            "enabled",
            "transport",
            "profile",
            "url",
            "headers",
            "account",
            "issuer",
            "client_id",
            "client_secret",
            "account_scopes",
            "sends_resource",
            "identity",
            "lists_per_person",
            "policy",
            "keeps_serving",
            "generated_skills",
            "prefix",
            "groups",
            "workspace",
            "sessions",
            "era",
            "may_ask",
            "may_ask_secrets",
            "may_sample",
            "may_list_roots",
            "extensions",
            "starts_eagerly",
            "idle_seconds",
            "refresh_seconds",
            "connect_seconds",
            "max_concurrent",
            "max_response_bytes",
            "max_notifications",
            "status",
            "error_message",
            "confinement",
            "available_tools",
            "connected_at",
            "reconnects",
            "reconnected_at",
            "last_used",
            "discovered_at",
            "created_at",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["discovered_at", "created_at", "updated_at"]

    @extend_schema_field(serializers.ChoiceField(choices=McpConnection.Status.choices))
    def get_status(self, row: McpConnection) -> str:
        return row.status

    def get_error_message(self, row: McpConnection) -> str:
        return row.error_message

    @extend_schema_field(HeldSerializer(many=True))
    def get_confinement(self, row: McpConnection) -> list[dict[str, Json]]:
        if row.profile is None:
            return []
        found = machine.held(row.profile.spec(), machine.this_machine())
        return [{"subject": each.subject, "is_held": each.is_held, "how": each.how} for each in found]

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_available_tools(self, row: McpConnection) -> list[str]:
        return [tool.upstream_name for tool in row.tools.all() if tool.state == "approved"]

    def validate_transport(self, value: str) -> str:
        if value == _STDIO:
            _demand_launching(self.context["request"])
        return value

    def validate_profile(self, value: LaunchProfile | None) -> LaunchProfile | None:
        if value is not None:
            _demand_launching(self.context["request"])
        return value

    def _write(self, row: McpConnection, values: dict[str, Any]) -> McpConnection:
        row.change_author, _ = attribute(row, self.context["request"], values.pop("reason", ""))
        return super()._write(row, values)


def _demand_launching(request: Request) -> None:
    """Refuse keys, and people who may not start programs. Raises Forbidden."""
    if request.auth is not None or not may_launch(request.user):
        raise Forbidden("A connection that runs a program is written by an upstream manager who is logged in.")


@extend_schema_view(
    list=extend_schema(summary="Connections to other MCP servers, by name"),
    retrieve=extend_schema(summary="One connection"),
    create=extend_schema(
        summary="Add a connection",
        description="Its tools then wait for approval. Over stdio by an upstream manager, not by keys.",
    ),
    update=extend_schema(summary="Replace a connection's words"),
    partial_update=extend_schema(summary="Change a connection", description="Switch it off here."),
)
class ConnectionViewSet(mixins.CreateModelMixin, WritingViewSet[McpConnection]):
    queryset = McpConnection.objects.select_related("profile", "identity", "workspace").prefetch_related(
        "groups", "links", "tools"
    )
    serializer_class = ConnectionSerializer
    filters = CONNECTION_FILTERS
    ordering = ("slug",)
    lookup_field = "slug"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = permissions("tools_catalog.mcpconnection")
    holds_back = True
    missing = "There is no such connection. GET /api/connections/ lists them."

    def perform_create(self, serializer: BaseSerializer[McpConnection]) -> None:
        with transaction.atomic():
            serializer.save()

    def perform_update(self, serializer: BaseSerializer[McpConnection]) -> None:
        row = serializer.instance
        if isinstance(row, McpConnection) and row.transport == _STDIO:
            _demand_launching(self.request)
        serializer.save()

    @extend_schema(
        summary="Test a connection",
        request=None,
        responses={200: TriedSerializer},
        description="The address is checked, the hub connects, lists the tools and disconnects: `address`, `connect`, "
        "`list`, up to the first that fails. Nothing is kept. Over stdio by an upstream manager, not by keys.",
    )
    @action(detail=True, methods=["post"], required_permission=_CHANGES)
    def test(self, request: Request, slug: str) -> Response:
        row = self._reached(request)
        return tried(async_to_sync(probe.probe)(row.spec(), secret_for, settings.MCPHUB_VERSION, account=Accounts()))

    @extend_schema(
        summary="List what a connection offers again",
        request=None,
        responses={202: ConnectionSerializer},
        description="Each process that holds the connection does so at once. What is new waits for approval at "
        "`/api/offers/`. Over stdio by an upstream manager, not by keys.",
    )
    @action(detail=True, methods=["post"], required_permission=_CHANGES)
    def refresh(self, request: Request, slug: str) -> Response:
        row = self._reached(request)
        bus.publish(bus.UPSTREAM_REFRESH, row.slug)
        return Response(self.get_serializer(row).data, status=202)

    def _reached(self, request: Request) -> McpConnection:
        """Return the connection if the requester may reach it: its command is run. Raises Forbidden."""
        row: McpConnection = self.get_object()
        if row.transport == _STDIO:
            _demand_launching(request)
        return row

    def http_method_not_allowed(self, request: Any, *args: object, **kwargs: object) -> Response:
        if request.method == "DELETE" and self.detail:
            raise MethodNotAllowed(
                'Connections are not deleted: tools and the audit name them. Disable it: PATCH {"enabled": false}.',
                allowed=["GET", "PATCH", "PUT"],
            )
        return super().http_method_not_allowed(request, *args, **kwargs)
