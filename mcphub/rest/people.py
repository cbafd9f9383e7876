"""REST over people: accounts, their state, and their groups. By people, as in the console."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from drf_spectacular.utils import extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcphub import ending
from mcphub.console_access import keep_console
from sessions_app import people
from sessions_app.keys.making import groups_beyond
from sessions_app.kit.lists.filters import ListFilter, TextIs, YesOrNo
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import (
    AskedSerializer,
    Named,
    ReasonedSerializer,
    StrictText,
    WritingViewSet,
    attribute,
)
from sessions_app.protocol.errors import Forbidden

_BY_PEOPLE = "By people who are logged in, not by keys."


def _in_group(name: str) -> Q:
    return Q(pk__in=Group.objects.filter(name=name).values("user"))


PEOPLE_FILTERS: tuple[ListFilter, ...] = (
    YesOrNo(name="active", column="is_active", help_text="Who may come in."),
    YesOrNo(name="console", column="is_staff", help_text="Who may open the console."),
    YesOrNo(name="superuser", column="is_superuser", help_text="Who may do everything."),
    TextIs(name="group", meant=_in_group, help_text="The name of a group: who is in it."),
)


class PersonSerializer(ReasonedSerializer):
    """A person or a service account, without credentials."""

    principal = serializers.SerializerMethodField(help_text="As calls name it: user:ID.")
    groups = Named(
        slug_field="name",
        queryset=Group.objects.all(),
        many=True,
        required=False,
        help_text="All groups of the person. Nobody hands out a group that they lack. A group with permissions of the "
        "console opens the console.",
    )
    kept_by_directory = serializers.SerializerMethodField(
        help_text="A directory keeps the account, and writes over what is changed here."
    )

    class Meta:
        model = User
        fields = [
            "principal",
            "username",
            "first_name",
            "last_name",
            "email",
            "is_active",
            "is_staff",
            "is_superuser",
            "groups",
            "kept_by_directory",
            "date_joined",
            "last_login",
            "reason",
        ]
        read_only_fields = [
            "username",
            "first_name",
            "last_name",
            "email",
            "is_staff",
            "is_superuser",
            "date_joined",
            "last_login",
        ]
        extra_kwargs = {
            "is_active": {"help_text": "Who is made inactive loses keys, tokens and logins for good."},
            "is_staff": {"help_text": "Whether the person may open the console."},
        }

    def get_principal(self, row: User) -> str:
        return f"user:{row.pk}"

    def get_kept_by_directory(self, row: User) -> bool:
        return getattr(row, "provisioned", None) is not None

    def _write(self, row: Any, values: dict[str, Any]) -> User:
        """Apply the requested changes only; raise ValidationError, by field, without the permission."""
        request: Request = self.context["request"]
        had = set(row.groups.all())
        wanted = set(values.get("groups", had))
        is_active = values.get("is_active", row.is_active)
        _refuse(request, row, is_active=is_active, added=wanted - had)
        attribute(row, request, values.get("reason", ""))
        if is_active != row.is_active:
            row.is_active = is_active
            row.save(update_fields=["is_active"])
        if wanted != had:
            row.groups.set(wanted)
            keep_console(row, given=wanted - had, lost=had - wanted)
        return row  # type: ignore[no-any-return]


def _refuse(request: Request, row: User, *, is_active: bool, added: set[Group]) -> None:
    problems = {}
    if row.is_active and not is_active:
        if row.pk == request.user.pk:
            problems["is_active"] = "Nobody makes their own account inactive. Ask somebody else."
        elif ending.is_last_superuser(row):
            problems["is_active"] = "This is the last superuser who can log in. Make another one first."
    if beyond := groups_beyond(request.user, added):
        names = ", ".join(sorted(group.name for group in beyond))
        problems["groups"] = f"You may not hand out {names}: you are in no such group. Ask a superuser."
    if problems:
        raise ValidationError(problems)


class EndingSerializer(AskedSerializer):
    reason = StrictText(required=False, allow_blank=True, max_length=100, default="", help_text="Why.")


@extend_schema_view(
    list=extend_schema(summary="People, by user name", description=_BY_PEOPLE),
    retrieve=extend_schema(summary="One person, by their user name", description=_BY_PEOPLE),
    partial_update=extend_schema(summary="Let a person in or out, or change their groups", description=_BY_PEOPLE),
)
class PersonViewSet(WritingViewSet[User]):
    http_method_names = ["get", "head", "post", "patch"]
    queryset = User.objects.select_related("provisioned").prefetch_related("groups")
    serializer_class = PersonSerializer
    filters = PEOPLE_FILTERS
    ordering = ("username",)
    lookup_field = "username"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    required_permission = {"read": "auth.view_user", "write": "auth.change_user"}
    missing = "There is no such person. GET /api/people/ lists them."

    def check_permissions(self, request: Request) -> None:
        if request.auth is not None:
            raise Forbidden("People are read and changed by people who are logged in, not by keys.")
        super().check_permissions(request)

    def get_object(self) -> User:
        person = super().get_object()
        if self.request.method != "GET" and not people.is_within(self.request.user, person):
            raise Forbidden("This person may do what your own account may not. Ask a superuser.")
        return person

    @extend_schema(
        summary="End all access of a person",
        request=EndingSerializer,
        responses={200: PersonSerializer},
        description="Their keys, tokens and logins are revoked for good. The person can log in again.",
    )
    @action(detail=True, methods=["post"])
    def end(self, request: Request, username: str) -> Response:
        asked = EndingSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        with transaction.atomic():
            person = self.get_object()
            ending.end_all(person, asked.validated_data["reason"] or "ended over REST")
        return Response(self.get_serializer(person).data)
