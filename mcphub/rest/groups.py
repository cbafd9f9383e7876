"""REST over groups: console roles, and access to tools. By people, as in the console."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ValidationError
from django.db.models import Count, Model, OuterRef, ProtectedError, Subquery
from django.db.models.functions import Coalesce
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.writing import Named, ReasonedSerializer, permissions
from sessions_app.people import code_of, permissions_beyond
from sessions_app.protocol.errors import Forbidden
from tools_catalog.rest.removable import RemovableViewSet, described

_IN_IT = get_user_model().groups.through.objects.filter(group=OuterRef("pk")).order_by().values("group")
_PEOPLE = Coalesce(Subquery(_IN_IT.values_list(Count("pk"))), 0)
_MOST_NAMED = 10
"""Things that a refusal to remove a group names."""


@extend_schema_field(OpenApiTypes.STR)
class _PermissionField(Named):
    """A permission by its code, `app.codename`."""

    def __init__(self, **options: Any) -> None:
        known = Permission.objects.select_related("content_type")
        super().__init__(slug_field="codename", queryset=known, **options)

    def to_internal_value(self, data: object) -> Permission:
        if not isinstance(data, str):
            self.fail("invalid")
        app, _, codename = data.partition(".")
        found = Permission.objects.filter(content_type__app_label=app, codename=codename).first()
        if found is None:
            self.fail("does_not_exist", slug_name="code", value=data[:100])
        return found

    def to_representation(self, value: Any) -> str:
        return code_of(value)


class PeopleGroupSerializer(ReasonedSerializer):
    """A group: a role if it has console permissions; else it controls access to tools."""

    permissions = _PermissionField(
        many=True, required=False, help_text="All of them, such as `invocations.view_mcptoolinvocation`."
    )
    people = serializers.SerializerMethodField(help_text="How many are in it. `/api/people/?group=NAME` names them.")

    class Meta:
        model = Group
        fields = ["name", "permissions", "people", "reason"]

    def get_people(self, row: Any) -> int:
        counted: int | None = getattr(row, "people", None)
        return row.user_set.count() if counted is None else counted

    def _write(self, row: Any, values: dict[str, Any]) -> Any:
        had = set(row.permissions.all()) if row.pk else set()
        added = set(values.get("permissions", ())) - had
        if beyond := permissions_beyond(self.context["request"].user, added):
            names = ", ".join(beyond)
            raise ValidationError({"permissions": f"You may not hand out {names}: you lack it. Ask a superuser."})
        return super()._write(row, values)


@described(
    "group",
    "Groups, by name",
    on_removal="Its people lose what it gives. Refused while something is reserved to it: that would be open to all.",
)
class GroupViewSet(RemovableViewSet):
    queryset = Group.objects.annotate(people=_PEOPLE).prefetch_related("permissions__content_type")
    serializer_class = PeopleGroupSerializer
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    required_permission = permissions("auth.group")
    may_conflict = True
    holds_back = False
    missing = "There is no such group. GET /api/groups/ lists them."

    def check_permissions(self, request: Request) -> None:
        if request.auth is not None:
            raise Forbidden("Groups are read and changed by people who are logged in, not by keys.")
        super().check_permissions(request)

    def perform_destroy(self, instance: Model) -> None:
        try:
            super().perform_destroy(instance)
        except ProtectedError as error:
            raise Conflict(reserved_to(error)) from error


def reserved_to(error: ProtectedError) -> str:
    """Return what keeps a group from being removed, and what to do first."""
    names = sorted(str(each) for each in error.protected_objects)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    reserved = f"{', '.join(names[:_MOST_NAMED])}{more}"
    return f"Reserved to this group: {reserved}. Open them to others, or to another group, first."
