"""REST over sessions: current and past ones, and ending a session."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import store
from sessions_app.filters import SESSION_FILTERS
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import AskedSerializer, RowSerializer, RowViewSet
from sessions_app.models import McpSession
from sessions_app.protocol.errors import MethodNotAllowed


class SessionSerializer(RowSerializer[McpSession]):
    """A client's session."""

    class Meta:
        model = McpSession
        fields = [
            "session_id",
            "transport",
            "state",
            "protocol_version",
            "client_name",
            "client_version",
            "client_capabilities",
            "principal",
            "caller_label",
            "is_implicit",
            "created_at",
            "initialized_at",
            "last_activity_at",
            "expires_at",
            "ended_at",
            "end_reason",
        ]
        read_only_fields = fields


class ClosingSerializer(AskedSerializer):
    """The only change to a session: it can be closed."""

    state = serializers.ChoiceField(choices=[(McpSession.State.CLOSED.value, McpSession.State.CLOSED.value)])


_CLOSING = {
    "type": "object",
    "properties": {"state": {"enum": [McpSession.State.CLOSED.value]}},
    "required": ["state"],
    "additionalProperties": False,
}
"""Written out: as a serializer in a PATCH, the schema would require nothing."""


@extend_schema_view(
    list=extend_schema(summary="Sessions, newest first"),
    retrieve=extend_schema(summary="One session"),
    partial_update=extend_schema(
        summary="Close a session",
        description="Its client must initialize again. A session that has ended stays as it is.",
        request={"application/json": _CLOSING},
        responses={204: None},
    ),
)
class SessionViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[McpSession]):
    queryset = McpSession.objects.defer("implicit_key")
    serializer_class = SessionSerializer
    filters = SESSION_FILTERS
    ordering = ("-created_at", "-session_id")
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "audit:read", "write": "catalog:write"}
    required_permission = {"read": "sessions_app.view_mcpsession", "write": "sessions_app.change_mcpsession"}
    missing = "There is no such session. GET /api/sessions/ lists them."

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        store.expire_due()

    def partial_update(self, request: Request, *args: object, **kwargs: object) -> Response:
        session = self.get_object()
        ClosingSerializer(data=request.data).is_valid(raise_exception=True)
        McpSession.objects.filter(pk=session.pk).close(f"closed over REST by {request.user}"[:100], by=request.user)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def http_method_not_allowed(self, request: Any, *args: object, **kwargs: object) -> Response:
        if request.method == "DELETE" and self.detail:
            raise MethodNotAllowed(
                'Sessions are not deleted: the audit names them. Close it: PATCH {"state": "closed"}.',
                allowed=["GET", "PATCH"],
            )
        return super().http_method_not_allowed(request, *args, **kwargs)
