"""REST over changes that wait for a second person. Read only: they are decided in the admin, by people."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers

from sessions_app.filters import WAITING_FILTERS
from sessions_app.history import guarding
from sessions_app.history.models import WaitingChange
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import RowSerializer, RowViewSet

_STAGES = [*WaitingChange.State.values, "expired"]


class WaitingChangeSerializer(RowSerializer[WaitingChange]):
    """A change that one person alone must not make."""

    state = serializers.ChoiceField(
        choices=[(stage, stage) for stage in _STAGES], source="stage", read_only=True, help_text="What became of it."
    )

    class Meta:
        model = WaitingChange
        fields = [
            "id",
            "state",
            "subject_model",
            "subject_id",
            "subject_label",
            "before",
            "after",
            "reason",
            "proposed_by",
            "proposer_label",
            "decided_by",
            "decided_at",
            "answer",
            "created_at",
            "expires_at",
        ]
        read_only_fields = fields


@extend_schema_view(
    list=extend_schema(summary="Changes that wait, or waited, for a second person, newest first"),
    retrieve=extend_schema(summary="One such change", description="People confirm or reject it in the admin."),
)
class WaitingChangeViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[WaitingChange]):
    queryset = WaitingChange.objects.all()
    serializer_class = WaitingChangeSerializer
    filters = WAITING_FILTERS
    ordering = ("-id",)
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "catalog:write"}
    required_permission = {"read": "sessions_app.view_waitingchange"}

    def get_queryset(self) -> QuerySet[WaitingChange]:
        return guarding.seen_by(self.request.user)

    missing = "There is no such change. GET /api/waiting-changes/ lists them."
