"""REST over launch profiles and over secrets by name, which people write, as strictly as in the console."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.request import Request
from rest_framework.serializers import BaseSerializer

from sessions_app.kit.rest.json_fields import JSONValue
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import ReasonedSerializer, StrictText, WritingViewSet, attribute, permissions
from sessions_app.protocol.errors import Forbidden
from tools_catalog.models import LaunchProfile, Secret

_LONGEST_VALUE = 65_536
_BY_PEOPLE = "By people who are logged in, not by keys."


class LaunchProfileSerializer(ReasonedSerializer):
    """A command that the hub may run as a child process. Secrets are named in it, never contained."""

    arguments = JSONValue(required=False, help_text="The words of the command.")
    readable = JSONValue(required=False, help_text="Paths that the child may read.")
    writable = JSONValue(required=False, help_text="Paths that the child may change.")

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
            "reason",
        ]
        read_only_fields = ["updated_at"]

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        found = super().get_fields()
        if self.instance is not None:
            found["name"].read_only = True  # secrets name the profile as their origin
        return found

    def validate_is_unconfined(self, value: bool) -> bool:
        if value and not self.context["request"].user.is_superuser:
            raise Forbidden("Only superusers let a program do everything: leave out is_unconfined.")
        return value


class SecretSerializer(ReasonedSerializer):
    """A secret by its name, and its binding. Its value is written and never given."""

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
    list=extend_schema(summary="Launch profiles: commands that the hub may run", description=_BY_PEOPLE),
    retrieve=extend_schema(summary="One launch profile", description=_BY_PEOPLE),
    create=extend_schema(summary="Add a launch profile", description=_BY_PEOPLE),
    update=extend_schema(summary="Replace a launch profile", description=_BY_PEOPLE),
    partial_update=extend_schema(summary="Change a launch profile", description=_BY_PEOPLE),
)
class LaunchProfileViewSet(mixins.CreateModelMixin, WritingViewSet[LaunchProfile]):
    queryset = LaunchProfile.objects.all()
    serializer_class = LaunchProfileSerializer
    holds_back = True
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = permissions("tools_catalog.launchprofile")
    missing = "There is no such launch profile. GET /api/launch-profiles/ lists them."

    def check_permissions(self, request: Request) -> None:
        if request.auth is not None:
            raise Forbidden("Launch profiles are read and written by people who are logged in, not by keys.")
        super().check_permissions(request)

    def perform_create(self, serializer: BaseSerializer[LaunchProfile]) -> None:
        with transaction.atomic():
            serializer.save()

    def perform_update(self, serializer: BaseSerializer[LaunchProfile]) -> None:
        row = serializer.instance
        # Checked as it is stored: a program that may do everything is not exchanged for another.
        stored = LaunchProfile.objects.only("is_unconfined").get(pk=row.pk) if row is not None else None
        if stored is not None and stored.is_unconfined and not self.request.user.is_superuser:
            raise Forbidden("Only superusers change a profile whose program may do everything.")
        serializer.save()


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
    required_permission = permissions("tools_catalog.secret")
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
