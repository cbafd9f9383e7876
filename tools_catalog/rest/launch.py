"""REST over launch profiles and secrets, to read. Both are written in the console, which shows what they may do."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins
from rest_framework.request import Request

from sessions_app.kit.rest.writing import JSONValue, RowSerializer, RowViewSet
from sessions_app.protocol.errors import Forbidden
from tools_catalog.models import LaunchProfile, Secret


class LaunchProfileSerializer(RowSerializer[LaunchProfile]):
    """A command that the hub may run as a child process. Secrets are named in it, never contained."""

    arguments = JSONValue(read_only=True, help_text="The words of the command.")
    readable = JSONValue(read_only=True, help_text="Paths that the child may read.")
    writable = JSONValue(read_only=True, help_text="Paths that the child may change.")

    class Meta:
        model = LaunchProfile
        fields = [
            "name",
            "command",
            "arguments",
            "environment",
            "directory",
            "readable",
            "writable",
            "network",
            "user",
            "is_unconfined",
            "memory_mb",
            "cpu_seconds",
            "open_files",
            "file_mb",
            "max_processes",
            "instances",
            "updated_at",
        ]
        read_only_fields = fields


class SecretSerializer(RowSerializer[Secret]):
    """A secret by its name, and what it is bound to. No part of its value."""

    class Meta:
        model = Secret
        fields = ["name", "origins", "places", "users", "updated_at"]
        read_only_fields = fields


@extend_schema_view(
    list=extend_schema(summary="Launch profiles, by name", description="For people, not for keys."),
    retrieve=extend_schema(summary="One launch profile", description="For people, not for keys."),
)
class LaunchProfileViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[LaunchProfile]):
    queryset = LaunchProfile.objects.all()
    serializer_class = LaunchProfileSerializer
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "catalog:write"}
    required_permission = {"read": "tools_catalog.view_launchprofile"}
    missing = "There is no such launch profile. GET /api/launch-profiles/ lists them."

    def check_permissions(self, request: Request) -> None:
        if request.auth is not None:
            raise Forbidden("Launch profiles are read by people who are logged in, not by keys.")
        super().check_permissions(request)


@extend_schema_view(
    list=extend_schema(summary="Secrets by name, without their values"),
    retrieve=extend_schema(summary="One secret, without its value"),
)
class SecretViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[Secret]):
    queryset = Secret.objects.all()
    serializer_class = SecretSerializer
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "catalog:write"}
    required_permission = {"read": "tools_catalog.view_secret"}
    missing = "There is no such secret. GET /api/secrets/ lists them."
