"""REST over upstream offers: read by operators of the catalogue, decided about by people."""

from __future__ import annotations

from difflib import unified_diff

from django.db import transaction
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.json_fields import JSONValue
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import AskedSerializer, Named, RowSerializer, RowViewSet, StrictText
from sessions_app.kit.shown import visible
from sessions_app.protocol.errors import Forbidden
from tools_catalog.discovery import proposals
from tools_catalog.discovery import reconcile as discovery
from tools_catalog.filters import OFFER_FILTERS
from tools_catalog.models import McpUpstreamTool
from tools_catalog.models.offer_kinds import handler_of

_APPROVES = {"write": "tools_catalog.approve_mcpupstreamtool"}


class OfferSerializer(RowSerializer[McpUpstreamTool]):
    """A definition that an upstream lists: as it is now, and as it was approved."""

    id = serializers.IntegerField(read_only=True)
    connection = Named(slug_field="slug", read_only=True)
    state = serializers.ChoiceField(choices=McpUpstreamTool.State.choices, read_only=True)
    seen = JSONValue(read_only=True, help_text="The definition as the upstream lists it now.")
    approved = JSONValue(read_only=True, help_text="The definition as it was approved; {} where it never was.")
    digest = serializers.CharField(source="seen_digest", read_only=True, help_text="Of `seen`. A decision names it.")
    warnings = serializers.DictField(
        child=serializers.IntegerField(),
        read_only=True,
        help_text="What detectors find in `seen`, hidden characters and phrases that speak to a model: kind and count.",
    )
    remark = serializers.CharField(source="refusal", read_only=True, help_text="Why it cannot be served, if it cannot.")
    conversions = serializers.SerializerMethodField(
        help_text="What the hub changes of `seen` to serve it: spellings of schemas, and its name."
    )

    difference = serializers.SerializerMethodField(
        help_text="Unified difference of the texts behind the definition, a skill's files, since the approval. Null in "
        "lists, and for other kinds."
    )

    class Meta:
        model = McpUpstreamTool
        fields = [
            "id",
            "connection",
            "kind",
            "upstream_name",
            "name",
            "state",
            "seen",
            "approved",
            "digest",
            "warnings",
            "remark",
            "conversions",
            "difference",
            "renamed_from",
            "seen_at",
            "decided_by",
            "decided_at",
        ]
        read_only_fields = fields

    def get_conversions(self, row: McpUpstreamTool) -> list[str]:
        return proposals.remarks_of(row)

    @extend_schema_field({"type": "string", "nullable": True})
    def get_difference(self, row: McpUpstreamTool) -> str | None:
        is_one = getattr(self.context.get("view"), "action", "retrieve") != "list" and not self.context.get("is_list")
        further = handler_of(row.kind) if is_one else None
        if further is None:
            return None
        approved, now = further.texts(row)
        lines: list[str] = []
        for name in dict.fromkeys([*approved, *now]):
            before, after = (visible(texts.get(name, "")).splitlines() for texts in (approved, now))
            lines += unified_diff(before, after, f"approved/{name}", f"offered/{name}", lineterm="")
        return "\n".join(lines)


class DecisionSerializer(AskedSerializer):
    digest = StrictText(max_length=64, help_text="Of the definition that was looked at, as the offer gives it.")
    reason = StrictText(required=False, allow_blank=True, max_length=300, default="", help_text="Why. Kept.")


@extend_schema_view(
    list=extend_schema(summary="What upstreams offer", description="Tools, resources, templates and prompts."),
    retrieve=extend_schema(summary="One offer"),
)
class OfferViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[McpUpstreamTool]):
    queryset = McpUpstreamTool.objects.select_related("connection")
    serializer_class = OfferSerializer
    filters = OFFER_FILTERS
    ordering = ("-pk",)
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = {"read": "tools_catalog.view_mcpupstreamtool", **_APPROVES}
    missing = "There is no such offer. GET /api/offers/ lists them."

    @extend_schema(
        summary="Approve an offer",
        request=DecisionSerializer,
        responses={200: OfferSerializer},
        description="By people who are logged in, not by keys. It is served as `seen` has it.",
    )
    @action(detail=True, methods=["post"], required_permission=_APPROVES)
    def approve(self, request: Request, pk: str) -> Response:
        with transaction.atomic():
            row, reason = self._decided(request, pk)
            try:
                discovery.approve(row, author=request.user, reason=reason)
            except discovery.ApprovalRefused as error:
                raise Conflict(str(error)) from error
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(
        summary="Reject an offer",
        request=DecisionSerializer,
        responses={200: OfferSerializer},
        description="By people who are logged in, not by keys. What was approved before stays in service.",
    )
    @action(detail=True, methods=["post"], required_permission=_APPROVES)
    def reject(self, request: Request, pk: str) -> Response:
        with transaction.atomic():
            row, reason = self._decided(request, pk)
            row.change_reason = reason
            discovery.reject(row, author=request.user)
        return Response(self.get_serializer(self.get_object()).data)

    def _decided(self, request: Request, pk: str) -> tuple[McpUpstreamTool, str]:
        """Return the offer that a person decides about, as it was looked at, and why. Raises Conflict, Forbidden."""
        if request.auth is not None:
            raise Forbidden("What an upstream offers is approved by people who are logged in, not by keys.")
        asked = DecisionSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        rows = McpUpstreamTool.objects.select_for_update(of=("self",)).select_related("connection")
        row = get_object_or_404(rows, pk=pk)
        if row.is_gone or row.seen_digest != asked.validated_data["digest"]:
            raise Conflict("The upstream offers something else now. Read the offer again, and decide about that.")
        return row, asked.validated_data["reason"]
