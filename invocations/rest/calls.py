"""REST over the audit: every recorded call, read-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from django.db.models import OuterRef, QuerySet, Subquery
from django.http import StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from invocations.lists.erased import marked
from invocations.models import McpRequestEnvelope, McpToolInvocation
from invocations.rest import figures, live, reads
from invocations.rest.filters import CallFilters
from invocations.rest.serializers import (
    BODIES,
    READ_BODIES,
    InvocationDetailSerializer,
    InvocationRowSerializer,
    InvocationSerializer,
    sees_bodies,
)
from sessions_app.kit.rest import selection
from sessions_app.kit.rest.filters import StrictFilterBackend
from sessions_app.kit.rest.lists import WALKED, WalkedPagination, limit_of
from sessions_app.kit.rest.replica import ReplicaReads
from sessions_app.kit.rest.schema import event_shape, extend_schema
from sessions_app.kit.rest.wire import AnyAccept
from sessions_app.protocol.json import Json
from sessions_app.rest.access import still_granted

_FIELDS = selection.parameter(InvocationSerializer.Meta.fields)
_EVENTS = {
    "oneOf": [
        event_shape("invocation", {"$ref": "#/components/schemas/Invocation"}, has_id=True),
        event_shape("error", {"type": "object", "required": ["code", "message"]}),
    ]
}
_TIME = f"Of the last day where no time is given; of {figures.MOST_ROWS} recorded calls at most."


@extend_schema_view(
    list=extend_schema(summary="Calls, newest first", description=WALKED, parameters=[_FIELDS]),
    retrieve=extend_schema(summary="One call, with the record made before it ran"),
)
class InvocationViewSet(ReplicaReads, reads.RecordedViewSet[McpToolInvocation]):
    queryset = McpToolInvocation.objects.all()
    filterset_class = CallFilters
    ordering = ("-id",)
    pagination_class = WalkedPagination
    lookup_field = "invocation_id"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    of_workspace = frozenset({"list", "retrieve", "facets", "statistics"})
    required_permission = {"read": "invocations.view_mcptoolinvocation", "write": "invocations.view_mcptoolinvocation"}
    missing = "There is no such call. GET /api/invocations/ lists them."
    parameters: tuple[str, ...] = (selection.NAME,)
    may_conflict = False
    live_actions = frozenset({"stream"})

    def get_serializer_class(self) -> type[InvocationRowSerializer]:
        return InvocationDetailSerializer if self.detail else InvocationSerializer

    def get_serializer_context(self) -> dict[str, object]:
        hidden = self.request is None or not sees_bodies(self.request)
        return {**super().get_serializer_context(), "hidden": hidden, "fields": self._members()}

    def _members(self) -> list[str]:
        """Return the members that the answer has."""
        known = self.get_serializer_class().Meta.fields
        is_asked = self.action == "list" and not getattr(self, "swagger_fake_view", False)
        return selection.chosen(self.request, known) if is_asked else known

    def get_queryset(self) -> QuerySet[McpToolInvocation]:
        rows = super().get_queryset()
        rows = rows.defer(*set(BODIES).difference(self.bodies_read()))
        if self.action in ("list", "retrieve") and "left_out" in self._members():
            rows = marked(rows)
        if not self.detail:
            return rows
        envelope = McpRequestEnvelope.objects.filter(invocation_id=OuterRef("invocation_id"))
        told = ["received_at", "method", "session_id", *(["params"] if "params" in self.bodies_read() else [])]
        return rows.annotate(**{f"envelope_{name}": Subquery(envelope.values(name)[:1]) for name in told})

    def bodies_read(self) -> list[str]:
        members = self._members() if sees_bodies(self.request) else ()
        of_envelope = ["params"] if "envelope" in members else []
        return [name for name in BODIES if name in members] + of_envelope

    def bodies_searched(self) -> list[str]:
        return [name for name in BODIES if name in self.request.query_params]

    @extend_schema(
        summary="Calls as they are recorded",
        filters=True,
        parameters=[
            _FIELDS,
            OpenApiParameter(
                "Last-Event-ID",
                {"type": "string", "pattern": "^[0-9]{1,18}$"},
                location=OpenApiParameter.HEADER,
                description="The sequence after which the stream begins; without it now.",
            ),
        ],
        responses={(200, "text/event-stream"): _EVENTS},
        description="Server-sent events `invocation`, whose id is the sequence. Bodies only where `fields` names them.",
    )
    @action(
        detail=False,
        filterset_class=live.LiveFilters,
        pagination_class=None,
        content_negotiation_class=AnyAccept,
        filter_backends=[],
    )
    def stream(self, request: Request) -> StreamingHttpResponse:
        live.check_room()
        known = InvocationSerializer.Meta.fields
        named = selection.NAME in request.query_params
        members = selection.chosen(request, known) if named else [name for name in known if name not in BODIES]
        bodies = [name for name in BODIES if name in members] if sees_bodies(request) else []
        rows = McpToolInvocation.objects.defer(*set(BODIES).difference(bodies))
        asked = StrictFilterBackend().valid_filterset(request, rows, self)
        position = live.position_of(request.headers.get("Last-Event-ID"))
        searched = self.bodies_searched()
        if searched:
            reads.record(request, read=[], searched=searched, rows=[])
        context = {**self.get_serializer_context(), "fields": members}

        def shown(found: list[McpToolInvocation]) -> Iterator[Mapping[str, Json]]:
            if bodies and found:
                reads.record(request, read=bodies, searched=[], rows=[row.pk for row in found])
            return iter(InvocationSerializer(found, many=True, context=context).data)

        needed = [self.required_permission["read"], *([READ_BODIES] if bodies or searched else [])]

        def may_read() -> bool:
            return still_granted(request, scope=self.required_scope["read"], permissions=needed)

        streamed = live.events(asked.qs, position, shown, may_read)
        answer = StreamingHttpResponse(streamed, content_type="text/event-stream")
        answer["X-Accel-Buffering"] = "no"
        return answer

    @extend_schema(
        summary="Which values occur among calls",
        parameters=[figures.LIMIT],
        responses=figures.FacetsSerializer,
        filters=True,
        description=_TIME,
    )
    @action(
        detail=False,
        filterset_class=figures.FigureFilters,
        pagination_class=None,
        parameters=("limit",),
        may_conflict=True,
    )
    def facets(self, request: Request) -> Response:
        limit = limit_of(request, figures.DEFAULT_LIMIT, figures.HIGHEST_LIMIT)
        asked = self._asked()
        return self._told(asked, figures.FacetsSerializer, figures.facets(asked.qs, limit))

    @extend_schema(
        summary="How often calls were made, how well and how fast",
        parameters=[figures.BY, figures.LIMIT],
        responses=figures.StatisticsSerializer,
        filters=True,
        description=_TIME,
    )
    @action(
        detail=False,
        filterset_class=figures.FigureFilters,
        pagination_class=None,
        parameters=("by", "limit"),
        may_conflict=True,
    )
    def statistics(self, request: Request) -> Response:
        by = figures.group_of(request.query_params.get("by"))
        limit = limit_of(request, figures.DEFAULT_LIMIT, figures.HIGHEST_LIMIT)
        asked = self._asked()
        return self._told(asked, figures.StatisticsSerializer, figures.statistics(asked.qs, by, limit))

    def _asked(self) -> figures.FigureFilters:
        asked: figures.FigureFilters = StrictFilterBackend().valid_filterset(self.request, self.get_queryset(), self)
        return asked

    def _told(
        self, asked: figures.FigureFilters, serializer: type[serializers.Serializer[object]], found: dict[str, Json]
    ) -> Response:
        if searched := self.bodies_searched():
            reads.record(self.request, read=[], searched=searched, rows=[])
        return Response(serializer({"started_after": asked.after, "started_before": asked.before, **found}).data)
