"""REST over launch profiles, to read, and over secrets by name. Profiles are written in the console alone."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.request import Request
from rest_framework.serializers import BaseSerializer

from sessions_app.kit.rest.writing import (
    JSONValue,
    ReasonedSerializer,
    RowSerializer,
    RowViewSet,
    StrictText,
    WritingViewSet,
    attribute,
)
from sessions_app.protocol.errors import Forbidden
from tools_catalog.models import LaunchProfile, Secret

_LONGEST_VALUE = 65_536
_BY_PEOPLE = "By people who are logged in, not by keys."


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


class SecretSerializer(ReasonedSerializer):
    """A secret by its name, and what it is bound to. Its value is written and never given."""

    value = StrictText(
        write_only=True,
        trim_whitespace=False,
        max_length=_LONGEST_VALUE,
        help_text="The credential. Needed for a new secret; in an edit the stored value stays where this is left out.",
    )

    class Meta:
        model = Secret
        fields = ["name", "origins", "places", "users", "value", "updated_at", "reason"]
        read_only_fields = ["updated_at"]

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        found = super().get_fields()
        if self.instance is not None:
            # The value is sealed under the name.
            found["name"].read_only, found["value"].required = True, False
        return found

    def _write(self, row: object, values: dict[str, Any]) -> Any:
        if (value := values.pop("value", None)) is not None:
            assert isinstance(row, Secret)
            row.name = values.get("name", row.name)
            row.set_value(value)
        return super()._write(row, values)


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
    create=extend_schema(summary="Add a secret", description=_BY_PEOPLE),
    update=extend_schema(summary="Replace a secret", description=_BY_PEOPLE),
    partial_update=extend_schema(summary="Change a secret", description=_BY_PEOPLE),
    destroy=extend_schema(summary="Remove a secret", description=_BY_PEOPLE),
)
class SecretViewSet(mixins.CreateModelMixin, mixins.DestroyModelMixin, WritingViewSet[Secret]):
    queryset = Secret.objects.all()
    serializer_class = SecretSerializer
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = {
        "read": "tools_catalog.view_secret",
        "create": "tools_catalog.add_secret",
        "write": "tools_catalog.change_secret",
        "delete": "tools_catalog.delete_secret",
    }
    missing = "There is no such secret. GET /api/secrets/ lists them."

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        if request.auth is not None and request.method not in ("GET", "HEAD"):
            raise Forbidden("Secrets are written by people who are logged in, not by keys.")

    def perform_create(self, serializer: BaseSerializer[Secret]) -> None:
        with transaction.atomic():
            serializer.save()

    def perform_destroy(self, instance: Secret) -> None:
        attribute(instance, self.request, "")
        instance.delete()
