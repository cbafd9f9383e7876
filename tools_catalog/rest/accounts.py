"""REST over accounts at upstreams and APIs: how each stands, and its end. Tokens are in no answer."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.db.models import OuterRef, Subquery
from drf_spectacular.utils import extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.history.events import actor_of
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import RowSerializer, RowViewSet
from tools_catalog.accounts import signing_in
from tools_catalog.filters import ACCOUNT_FILTERS
from tools_catalog.models import PersonalList, UpstreamAccount


class AccountSerializer(RowSerializer[UpstreamAccount]):
    """An account that the hub has at an upstream or an API, of one person or of all."""

    of = serializers.SerializerMethodField(help_text="Where it is: at a connection's server or a service's API.")
    name = serializers.SerializerMethodField(help_text="Of that connection or service.")
    listed_at = serializers.DateTimeField(
        read_only=True, help_text="When lists were read with it last, where a connection's lists depend on who asks."
    )
    issuer = serializers.SerializerMethodField(help_text="Who gave the tokens. Empty before it was ever connected.")

    class Meta:
        model = UpstreamAccount
        fields = [
            "id",
            "of",
            "name",
            "principal",
            "state",
            "account_name",
            "issuer",
            "scopes",
            "wanted_scopes",
            "expires_at",
            "connected_by",
            "connected_at",
            "refreshed_at",
            "listed_at",
            "failure",
        ]
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(choices=["connection", "service"]))
    def get_of(self, row: UpstreamAccount) -> str:
        return row.place.of

    def get_name(self, row: UpstreamAccount) -> str:
        return row.place.slug

    def get_issuer(self, row: UpstreamAccount) -> str:
        return row.registration.issuer if row.registration is not None else ""


@extend_schema_view(
    list=extend_schema(summary="Accounts at upstreams and APIs, newest first"),
    retrieve=extend_schema(summary="One account"),
    destroy=extend_schema(
        summary="Disconnect an account",
        description="The hub forgets its tokens and takes them back at the issuer. The row stays, as `ended`.",
    ),
)
class AccountViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[UpstreamAccount]):
    queryset = UpstreamAccount.objects.select_related("connection", "service", "registration").annotate(
        listed_at=Subquery(
            PersonalList.objects.filter(connection=OuterRef("connection"), principal=OuterRef("principal")).values(
                "listed_at"
            )[:1]
        )
    )
    serializer_class = AccountSerializer
    filters = ACCOUNT_FILTERS
    ordering = ("-pk",)
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = {
        "read": "tools_catalog.view_mcpconnection",
        "write": "tools_catalog.change_mcpconnection",
        "delete": "tools_catalog.change_mcpconnection",
    }
    missing = "There is no such account. GET /api/accounts/ lists them."

    def destroy(self, request: Request, *args: object, **kwargs: object) -> Response:
        async_to_sync(signing_in.disconnect)(self.get_object(), actor_of(request.user))
        return Response(status=status.HTTP_204_NO_CONTENT)
