"""REST over access reviews: one is posted with its snapshot, read with its grants, and decided by its reviewers."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, User
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcphub.features.access_review import deciding
from mcphub.features.access_review.filters import GRANT_FILTERS, REVIEW_FILTERS
from mcphub.features.access_review.models import LONGEST_REASON, AccessReview, ReviewedGrant
from sessions_app.kit.rest.json_fields import JSONObject, JSONValue
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import AskedSerializer, Named, RowSerializer, RowViewSet, StrictInteger, StrictText
from sessions_app.protocol.errors import Forbidden
from sessions_app.workspaces.rest import workspace_field

_BY_PEOPLE = "By people who are logged in, not by keys."


class AccessReviewSerializer(RowSerializer[AccessReview]):
    """An access review, with how far it is."""

    workspace = workspace_field()
    group = Named(slug_field="name", queryset=Group.objects.all(), required=False, allow_null=True)
    reviewers = Named(slug_field="username", queryset=User.objects.all(), many=True, help_text="User names.")
    state = serializers.ChoiceField(choices=["open", "overdue", "closed"], read_only=True)
    grants = serializers.IntegerField(source="row_count", read_only=True)
    kept = serializers.IntegerField(source="kept_count", read_only=True)
    taken_away = serializers.IntegerField(source="taken_count", read_only=True)
    undecided = serializers.IntegerField(source="undecided_count", read_only=True)

    class Meta:
        model = AccessReview
        fields = [
            "id",
            "name",
            "workspace",
            "group",
            "tools",
            "reviewers",
            "due_at",
            "state",
            "grants",
            "kept",
            "taken_away",
            "undecided",
            "started_by",
            "started_at",
            "closed_by",
            "closed_at",
        ]
        read_only_fields = ["started_by", "started_at", "closed_by", "closed_at"]


class ReviewedGrantSerializer(RowSerializer[ReviewedGrant]):
    """A grant as it was when the review began, and its decision."""

    state = serializers.ChoiceField(choices=["undecided", "overdue", *ReviewedGrant.Decision.values], read_only=True)
    through = JSONObject(read_only=True)
    tool_names = JSONValue(read_only=True, help_text="The first 50.")

    class Meta:
        model = ReviewedGrant
        fields = [
            "id",
            "review",
            "kind",
            "principal",
            "label",
            "grant",
            "through",
            "tool_count",
            "tool_names",
            "last_used_at",
            "is_unused",
            "state",
            "reason",
            "decided_by",
            "decided_at",
        ]
        read_only_fields = fields


class GrantDecisionSerializer(AskedSerializer):
    grants = serializers.ListField(
        child=StrictInteger(min_value=1, max_value=2**63 - 1), min_length=1, max_length=deciding.MOST_AT_ONCE
    )
    decision = serializers.ChoiceField(choices=ReviewedGrant.Decision.values)
    reason = StrictText(required=False, allow_blank=True, default="", max_length=LONGEST_REASON)


class DecidedGrantSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    state = serializers.CharField()
    problem = serializers.CharField(help_text="Why this one is not decided; empty where it is.")


class ReviewClosingSerializer(AskedSerializer):
    reason = StrictText(required=False, allow_blank=True, default="", max_length=LONGEST_REASON)


@extend_schema_view(
    list=extend_schema(summary="Access reviews, newest first"), retrieve=extend_schema(summary="One access review")
)
class AccessReviewViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[AccessReview]):
    http_method_names = ["get", "head", "post"]
    queryset = AccessReview.objects.counted().select_related("workspace", "group").prefetch_related("reviewers")
    serializer_class = AccessReviewSerializer
    filters = REVIEW_FILTERS
    ordering = ("-started_at", "-id")
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    of_workspace = frozenset({"list", "retrieve", "create", "decide", "close"})
    required_permission = {
        "read": "access_review.view_accessreview",
        "create": "access_review.add_accessreview",
        "write": "access_review.change_accessreview",
    }
    may_conflict = True
    missing = "There is no such access review. GET /api/access-reviews/ lists them."

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        if request.auth is not None and request.method == "POST":
            raise Forbidden("Access is reviewed by people who are logged in, not by keys.")

    @extend_schema(
        summary="Start an access review",
        description=f"{_BY_PEOPLE} Takes the snapshot of who may call what at this moment.",
        request=AccessReviewSerializer,
        responses={201: AccessReviewSerializer},
    )
    def create(self, request: Request) -> Response:
        asked = self.get_serializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given = dict(asked.validated_data)
        reviewers = given.pop("reviewers")
        row = deciding.start(AccessReview(**given), reviewers, request.user)
        return Response(self.get_serializer(self.get_queryset().get(pk=row.pk)).data, status=201)

    @extend_schema(
        summary="Decide about grants",
        description=f"{_BY_PEOPLE} By a reviewer, never about their own access. take_away needs a reason and takes the "
        "grant away: it revokes a key, removes a person from a group, disables an account, revokes an app.",
        request=GrantDecisionSerializer,
        responses={200: DecidedGrantSerializer(many=True)},
    )
    @action(detail=True, methods=["post"], required_permission={"write": "access_review.decide_accessreview"})
    def decide(self, request: Request, pk: str) -> Response:
        asked = GrantDecisionSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given, review = asked.validated_data, self.get_object()
        rows = list(review.rows.filter(pk__in=given["grants"]))
        found = deciding.decide(review, rows, given["decision"], given["reason"], request.user)
        answers = [{"id": each.row.pk, "state": each.row.state, "problem": each.problem} for each in found]
        missing = sorted(set(given["grants"]) - {row.pk for row in rows})
        answers += [{"id": pk, "state": "", "problem": "The review has no such grant."} for pk in missing]
        return Response(answers)

    @extend_schema(
        summary="Close an access review",
        description=f"{_BY_PEOPLE} What is undecided stays as it is.",
        request=ReviewClosingSerializer,
        responses={200: AccessReviewSerializer},
    )
    @action(detail=True, methods=["post"])
    def close(self, request: Request, pk: str) -> Response:
        asked = ReviewClosingSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        deciding.close(self.get_object(), request.user, asked.validated_data["reason"])
        return Response(self.get_serializer(self.get_object()).data)


@extend_schema_view(
    list=extend_schema(summary="Grants under review"), retrieve=extend_schema(summary="One grant under review")
)
class ReviewedGrantViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[ReviewedGrant]):
    http_method_names = ["get", "head"]
    queryset = ReviewedGrant.objects.select_related("review")
    serializer_class = ReviewedGrantSerializer
    filters = GRANT_FILTERS
    ordering = ("-pk",)
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    of_workspace = frozenset({"list", "retrieve"})
    required_permission = {"read": "access_review.view_reviewedgrant", "write": "access_review.view_reviewedgrant"}
    missing = "There is no such grant. GET /api/reviewed-grants/ lists them."
