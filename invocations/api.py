"""REST over the audit: every recorded call, read-only."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from invocations.models import McpRequestEnvelope, McpToolInvocation
from invocations.rest import figures, reads
from invocations.rest.filters import InvocationFilter
from invocations.rest.serializers import (
    BODIES,
    InvocationDetailSerializer,
    InvocationRowSerializer,
    InvocationSerializer,
    sees_bodies,
)
from invocations.rest.walking import WalkingPagination
from sessions_app.rest import selection
from sessions_app.rest.lists import StrictFilterBackend, limit_of

_TIME = (
    f"Of the last day where no time is given; of {figures.LONGEST_TIME.days} days and {figures.MOST_ROWS} recorded "
    "calls at most."
)

_PAGES = (
    "A search that would take long ends early: a page may hold fewer rows than `limit`, or none. Where `next` is not "
    "null, follow it: there may be more."
)


@extend_schema_view(
    list=extend_schema(summary="Calls, newest first", description=_PAGES, parameters=[selection.PARAMETER]),
    retrieve=extend_schema(summary="One call, with the record made before it ran"),
)
class InvocationViewSet(reads.RecordedViewSet[McpToolInvocation]):
    queryset = McpToolInvocation.objects.all()
    filterset_class = InvocationFilter
    ordering = ("-id",)
    pagination_class = WalkingPagination
    lookup_field = "invocation_id"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    required_permission = {
        "read": "invocations.view_mcptoolinvocation",
        "write": "invocations.view_mcptoolinvocation",
    }
    missing = "There is no such call. GET /api/invocations/ lists them."
    parameters: tuple[str, ...] = (selection.PARAMETER.name,)

    def get_serializer_class(self) -> type[InvocationRowSerializer]:
        return InvocationDetailSerializer if self.detail else InvocationSerializer

    def get_serializer_context(self) -> dict[str, Any]:
        hidden = self.request is None or not sees_bodies(self.request)
        return {**super().get_serializer_context(), "hidden": hidden, "fields": self._members()}

    def _members(self) -> list[str]:
        """Give the members that the answer has."""
        known = self.get_serializer_class().Meta.fields
        is_asked = self.action == "list" and not getattr(self, "swagger_fake_view", False)
        return selection.chosen(self.request, known) if is_asked else known

    def get_queryset(self) -> QuerySet[McpToolInvocation]:
        rows = super().get_queryset()
        rows = rows.defer(*set(BODIES).difference(self.bodies_read()))
        if not self.detail:
            return rows
        envelope = McpRequestEnvelope.objects.filter(invocation_id=OuterRef("invocation_id"))
        return rows.annotate(
            envelope_received_at=Subquery(envelope.values("received_at")[:1]),
            envelope_method=Subquery(envelope.values("method")[:1]),
        )

    def bodies_read(self) -> list[str]:
        members = self._members() if sees_bodies(self.request) else ()
        return [name for name in BODIES if name in members]

    def bodies_searched(self) -> list[str]:
        return [name for name in BODIES if name in self.request.query_params]

    @extend_schema(
        summary="Which values occur among calls", parameters=[figures.LIMIT], responses=figures.FacetsSerializer,
        filters=True, description=_TIME,
    )  # fmt: skip
    @action(detail=False, filterset_class=figures.FigureFilter, pagination_class=None, parameters=("limit",))
    def facets(self, request: Request) -> Response:
        limit = limit_of(request, figures.DEFAULT_LIMIT, figures.HIGHEST_LIMIT)
        asked = self._asked()
        return self._told(asked, figures.FacetsSerializer, figures.facets(asked.qs, limit))

    @extend_schema(
        summary="How often calls were made, how well and how fast", parameters=[figures.BY, figures.LIMIT],
        responses=figures.StatisticsSerializer, filters=True, description=_TIME,
    )  # fmt: skip
    @action(detail=False, filterset_class=figures.FigureFilter, pagination_class=None, parameters=("by", "limit"))
    def statistics(self, request: Request) -> Response:
        by = figures.group_of(request.query_params.get("by"))
        limit = limit_of(request, figures.DEFAULT_LIMIT, figures.HIGHEST_LIMIT)
        asked = self._asked()
        return self._told(asked, figures.StatisticsSerializer, figures.statistics(asked.qs, by, limit))

    def _asked(self) -> figures.FigureFilter:
        asked: figures.FigureFilter = StrictFilterBackend().valid_filterset(self.request, self.get_queryset(), self)
        return asked

    def _told(self, asked: figures.FigureFilter, serializer: Any, found: dict[str, Any]) -> Response:
        if searched := self.bodies_searched():
            reads.record(self.request, read=[], searched=searched, rows=[])
        return Response(serializer({"started_after": asked.after, "started_before": asked.before, **found}).data)
