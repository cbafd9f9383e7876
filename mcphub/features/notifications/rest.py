"""REST over notices, and over deliveries to the person's own channels. Read only: people replay in the console."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers

from mcphub.features.notifications import noticing
from mcphub.features.notifications.catalogue import KINDS
from mcphub.features.notifications.filters import DELIVERY_FILTERS, NOTICE_FILTERS
from mcphub.features.notifications.models import Delivery, Notice, Subscription
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import RowSerializer, RowViewSet
from sessions_app.models import ApiKey


class NoticeSerializer(RowSerializer[Notice]):
    """A reported matter."""

    kind = serializers.ChoiceField(choices=[(name, name) for name in KINDS], read_only=True)
    title = serializers.CharField(read_only=True, help_text="In English, unless Accept-Language asks for Russian.")
    words = serializers.CharField(read_only=True, help_text="What happened, to what, and what to do next.")
    facts = serializers.DictField(read_only=True, help_text="What the words are made from.")

    class Meta:
        model = Notice
        fields = ["id", "kind", "subject", "title", "words", "facts", "count", "first_at", "last_at", "ended_at"]
        read_only_fields = fields


@extend_schema_view(
    list=extend_schema(
        summary="Notices, newest first",
        description="A key reads all but those of one person alone; a person what their permissions let them read.",
    ),
    retrieve=extend_schema(summary="One notice"),
)
class NoticeViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[Notice]):
    queryset = Notice.objects.all()
    serializer_class = NoticeSerializer
    filters = NOTICE_FILTERS
    ordering = ("-id",)
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "audit:read"}
    required_permission = {"read": "telling.view_notice"}
    missing = "There is no such notice. GET /api/notices/ lists them."

    def get_queryset(self) -> QuerySet[Notice]:
        rows = super().get_queryset()
        if isinstance(self.request.auth, ApiKey):
            return rows.exclude(kind="test")
        return noticing.visible_to(self.request.user, rows)  # type: ignore[arg-type]


class DeliverySerializer(RowSerializer[Delivery]):
    """A notice on its way to one place, or there, or given up."""

    message_id = serializers.SerializerMethodField(help_text="What receivers know a repetition by (`webhook-id`).")
    subscription_name = serializers.CharField(source="subscription.name", read_only=True)
    way = serializers.CharField(source="subscription.way", read_only=True)

    class Meta:
        model = Delivery
        fields = [
            "id",
            "message_id",
            "notice",
            "subscription",
            "subscription_name",
            "way",
            "state",
            "tries",
            "error",
            "due_at",
            "created_at",
            "ended_at",
        ]
        read_only_fields = fields

    def get_message_id(self, row: Delivery) -> str:
        return f"msg_{row.mark.hex}"


@extend_schema_view(
    list=extend_schema(
        summary="Deliveries of notices, newest first",
        description="A key reads those of everybody, without addresses; a person their own and those of their groups.",
    ),
    retrieve=extend_schema(summary="One delivery"),
)
class DeliveryViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[Delivery]):
    queryset = Delivery.objects.select_related("subscription")
    serializer_class = DeliverySerializer
    filters = DELIVERY_FILTERS
    ordering = ("-id",)
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "audit:read"}
    required_permission = {"read": "telling.view_delivery"}
    missing = "There is no such delivery. GET /api/notice-deliveries/ lists them."

    def get_queryset(self) -> QuerySet[Delivery]:
        rows = super().get_queryset()
        if isinstance(self.request.auth, ApiKey):
            return rows
        of_person = noticing.managed_by(self.request.user)  # type: ignore[arg-type]  # a key was answered above
        return rows.filter(subscription__in=Subscription.objects.filter(of_person))
