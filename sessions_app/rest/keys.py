"""REST over API keys: their owners, scopes and ends; created, rotated, and revoked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import accountable
from sessions_app.keys import making
from sessions_app.kit.people_tables import PEOPLE
from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.schema import HeldBackSerializer, extend_schema
from sessions_app.kit.rest.writing import (
    AskedSerializer,
    Named,
    ReasonedSerializer,
    RowViewSet,
    StrictInteger,
    StrictText,
    attribute,
    permissions,
)
from sessions_app.models import ApiKey
from sessions_app.protocol.errors import Forbidden
from sessions_app.workspaces.rest import workspace_field
from sessions_app.workspaces.scope import current

_MOST_OVERLAP_HOURS = 168
_MOST_PEOPLE = 20


class _KnownNames(Named):
    """People or groups that a key may name. Within a workspace, people name themselves and their own groups, and
    cannot detect the existence of others.
    """

    def get_queryset(self) -> Any:
        found: Any = super().get_queryset()
        if current() is None:
            return found
        person = self.context["request"].user.pk
        if person is None:
            return found.none()
        return found.filter(pk=person) if found.model is get_user_model() else found.filter(user=person)


class KeySerializer(ReasonedSerializer):
    """An API key without its text, of which the hub has a hash only."""

    principal = serializers.CharField(read_only=True, help_text="As calls name it: key:ID, of a person's key user:ID.")
    owner = _KnownNames(
        slug_field=PEOPLE.name,
        queryset=get_user_model()._default_manager.all(),
        required=False,
        allow_null=True,
        default=None,
        help_text="The person whose key it is. Only this person, or a superuser, may make it. Never changes.",
    )
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=ApiKey.Scope.choices),
        required=False,
        default=lambda: list(ApiKey.DEFAULT_SCOPES),
        max_length=len(ApiKey.Scope.values),
        help_text="What it may do. Nobody hands out more than they have.",
    )
    groups = _KnownNames(slug_field="name", queryset=Group.objects.all(), many=True, required=False, default=list)

    workspace = workspace_field()
    accountable = serializers.SerializerMethodField(
        help_text="User names of those who answer for it, and so confirm and approve nothing that comes by it. ?: an "
        "unknown person, so that two people or a superuser confirm."
    )

    class Meta:
        model = ApiKey
        fields = [
            "principal",
            "name",
            "owner",
            "service",
            "prefix",
            "scopes",
            "groups",
            "workspace",
            "calls_per_minute",
            "recorded_mib_per_day",
            "created_at",
            "expires_at",
            "revoked_at",
            "last_used_at",
            "accountable",
            "reason",
        ]
        read_only_fields = ["principal", "prefix", "created_at", "revoked_at", "last_used_at"]
        extra_kwargs = {
            "expires_at": {
                "help_text": "Left out: after the days of the limit key_days. null: never by itself.",
                "default": making.default_end,
            }
        }

    def get_accountable(self, key: ApiKey) -> list[str]:
        known: dict[str, list[str]] = self.context.get("accountable", {})
        names = known.get(key.credential)
        return key.accountable if names is None else names


class KeyWithText(KeySerializer):
    """A key with its text, which is given this once."""

    text = serializers.CharField(read_only=True, help_text="The key itself. It cannot be had again.")

    class Meta(KeySerializer.Meta):
        fields = [*KeySerializer.Meta.fields, "text"]

    def create(self, values: dict[str, Any]) -> ApiKey:
        """Create the key; raise ValidationError, by field, without the permission."""
        request: Request = self.context["request"]
        groups, reason = values.pop("groups"), values.pop("reason", "")
        making.refuse(request.user, owner=values["owner"], scopes=values["scopes"], groups=groups)
        author, reason = attribute(ApiKey(), request, reason)
        key, text = ApiKey.issue(groups=groups, reason=reason, created_by=author, **values)
        key.text = text  # type: ignore[attr-defined]
        return key


class RevocationSerializer(AskedSerializer):
    reason = StrictText(required=False, allow_blank=True, max_length=100, default="", help_text="Why.")


class RotationSerializer(RevocationSerializer):
    overlap_hours = StrictInteger(
        required=False,
        default=0,
        min_value=0,
        max_value=_MOST_OVERLAP_HOURS,
        help_text="How long the old text still works.",
    )


class AccountableSerializer(RevocationSerializer):
    people = serializers.ListField(
        child=StrictText(max_length=150),
        min_length=1,
        max_length=_MOST_PEOPLE,
        help_text="User names, in place of those before. ?: an unknown person, too.",
    )

    def validate_people(self, names: list[str]) -> list[str]:
        try:
            accountable.found(names)
        except accountable.NobodyNamed as error:
            raise serializers.ValidationError(error.messages) from error
        return names


@extend_schema_view(
    list=extend_schema(summary="API keys, newest first"),
    retrieve=extend_schema(summary="One API key, by its prefix"),
    create=extend_schema(
        summary="Make an API key",
        request=KeySerializer,
        responses={201: KeyWithText},
        description="Shows its text once.",
    ),
)
class KeyViewSet(mixins.CreateModelMixin, mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[ApiKey]):
    queryset = ApiKey.objects.select_related("owner", "workspace").prefetch_related("groups")
    serializer_class = KeySerializer
    ordering = ("-pk",)
    lookup_field = "prefix"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "audit:read", "write": "keys:write"}
    of_workspace = frozenset({"list", "retrieve", "create", "rotate", "revoke"})
    required_permission = permissions("sessions_app.apikey")
    missing = "There is no such key. GET /api/keys/ lists them."

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset)
        self._accountable = accountable.names_of_each(key.credential for key in page or ())
        return page

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "accountable": getattr(self, "_accountable", {})}

    def get_serializer_class(self) -> type[KeySerializer]:
        return KeyWithText if self.action in ("create", "rotate") else KeySerializer

    @extend_schema(summary="Give a key a new text", request=RotationSerializer, responses={200: KeyWithText})
    @action(detail=True, methods=["post"], required_permission={"write": "sessions_app.change_apikey"})
    def rotate(self, request: Request, prefix: str) -> Response:
        asked = RotationSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        with transaction.atomic():
            key = self._locked(prefix)
            if not making.may_act_for(request.user, key.owner) or making.scopes_beyond(request.user, key.scopes):
                raise Forbidden("Only who may do all that the key may, and for a person's key that person, rotates it.")
            if making.groups_beyond(request.user, key.groups.all()):
                raise Forbidden("Only who is in all groups of the key rotates it.")
            if not key.is_usable():
                raise Conflict("The key was revoked, has expired, or its person is disabled. Make another key.")
            _author, key.change_reason = attribute(key, request, asked.validated_data["reason"] or "rotated")
            key.text = key.rotate(timedelta(hours=asked.validated_data["overlap_hours"]))  # type: ignore[attr-defined]
        return Response(self.get_serializer(key).data)

    @extend_schema(summary="Revoke a key", request=RevocationSerializer, responses={200: KeySerializer})
    @action(detail=True, methods=["post"], required_permission={"write": "sessions_app.change_apikey"})
    def revoke(self, request: Request, prefix: str) -> Response:
        """End it for good. One that was revoked before stays as it is."""
        asked = RevocationSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        with transaction.atomic():
            key = self._locked(prefix)
            _author, reason = attribute(key, request, asked.validated_data["reason"])
            ApiKey.objects.filter(pk=key.pk).revoke(reason)
        return Response(self.get_serializer(self.get_object()).data, status=status.HTTP_200_OK)

    @extend_schema(
        summary="Name who answers for a key",
        request=AccountableSerializer,
        responses={200: KeySerializer, 202: HeldBackSerializer},
        description="Anybody may add people; to leave one out, an unknown one too, waits for a second person.",
    )
    @action(
        detail=True,
        methods=["post"],
        url_path="accountable",
        required_permission={"write": "sessions_app.change_apikey"},
    )
    def name_accountable(self, request: Request, prefix: str) -> Response:
        asked = AccountableSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        with transaction.atomic():
            key = self._locked(prefix)
            key.accountable = asked.validated_data["people"]
            _author, key.change_reason = attribute(key, request, asked.validated_data["reason"])
            key.save()
        if (waiting := key.waiting_answer()) is not None:
            return Response(waiting, status=status.HTTP_202_ACCEPTED)
        return Response(self.get_serializer(self.get_object()).data)

    def _locked(self, prefix: str) -> ApiKey:
        """Return the key for an edit; raise Http404."""
        rows = ApiKey.objects.select_for_update(of=("self",)).select_related("owner")
        return get_object_or_404(rows, prefix=prefix)
