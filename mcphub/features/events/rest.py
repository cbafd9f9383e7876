"""REST over callbacks that are subscribed to events, with the rights of whoever asks, and over events of upstreams."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.db.models import Q
from drf_spectacular.utils import extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcphub.features.events import offers, subscribing
from mcphub.features.events.arguments import ArgumentsMisfit
from mcphub.features.events.errors import EventCallback, EventExhausted, EventForbidden
from mcphub.features.events.models import EventSubscription, UpstreamEvent
from mcphub.features.events.subscriber import EventSubscriber
from sessions_app.caller import caller_of_key, person_of
from sessions_app.history.events import actor_of
from sessions_app.kit.lists.filters import ListFilter, YesOrNo
from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.json_fields import JSONObject
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import AskedSerializer, RowSerializer, RowViewSet, StrictText
from sessions_app.models import ApiKey
from sessions_app.protocol.errors import Forbidden, RateLimited
from sessions_app.protocol.json import Json

SUBSCRIPTION_FILTERS: tuple[ListFilter, ...] = (
    YesOrNo(name="failing", label="", meant=lambda is_failing: Q(failing_since__isnull=not is_failing)),
)


class EventSubscriptionSerializer(RowSerializer[EventSubscription]):
    """A callback that receives the events of one name. Its address and secret are never shown."""

    id = serializers.CharField(source="mark", read_only=True)
    event = serializers.CharField(source="name", read_only=True)
    arguments = JSONObject(read_only=True)
    caller = serializers.CharField(source="caller_label", read_only=True)
    callback = serializers.CharField(source="shown_url", read_only=True, help_text="The host alone.")

    class Meta:
        model = EventSubscription
        fields = [
            "id",
            "event",
            "arguments",
            "caller",
            "principal",
            "callback",
            "created_at",
            "expires_at",
            "is_ending",
            "sent",
            "abandoned",
            "last_sent_at",
            "last_error",
            "failing_since",
        ]
        read_only_fields = fields


class CallbackWishSerializer(AskedSerializer):
    event = StrictText(max_length=300, help_text="As `events/list` has it.")
    arguments = JSONObject(required=False, help_text="Such as `state` and `mine`.")
    url = StrictText(max_length=2000, help_text="An https URL, which has to return a challenge.")
    secret = StrictText(max_length=200, help_text="`whsec_` and 24 to 64 bytes in base64. It signs each event.")
    ttl_ms = serializers.IntegerField(required=False, allow_null=True, help_text="null: as long as may be.")
    cursor = StrictText(required=False, allow_null=True, max_length=40, help_text="Without it, from now on.")


@extend_schema_view(
    list=extend_schema(summary="Callbacks that receive events, newest first"),
    retrieve=extend_schema(summary="One callback"),
)
class EventSubscriptionViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[EventSubscription]):
    http_method_names = ["get", "head", "post", "delete"]
    queryset = EventSubscription.objects.all()
    serializer_class = EventSubscriptionSerializer
    filters = SUBSCRIPTION_FILTERS
    ordering = ("-created_at", "-id")
    lookup_field = "mark"
    lookup_url_kwarg = "id"
    lookup_value_regex = "sub_[0-9a-f]{1,36}"
    of_workspace = frozenset({"create"})
    required_scope = {"read": "audit:read", "create": "tools:list", "delete": "catalog:write"}
    required_permission = {
        "read": "events.view_eventsubscription",
        "create": "events.view_eventsubscription",
        "delete": "events.delete_eventsubscription",
    }
    may_conflict = True
    missing = "There is no such subscription. GET /api/event-subscriptions/ lists them."

    @extend_schema(
        summary="Subscribe a callback to an event",
        description="With the rights of the key or person that asks, as `events/subscribe` does. The hub first posts a "
        "challenge to the callback. The same request again renews the subscription and answers 200.",
        request=CallbackWishSerializer,
        responses={200: EventSubscriptionSerializer, 201: EventSubscriptionSerializer},
    )
    def create(self, request: Request) -> Response:
        asked = CallbackWishSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        caller = caller_of_key(request.auth) if isinstance(request.auth, ApiKey) else person_of(request.user)
        answer = subscribed(EventSubscriber(caller), asked.validated_data)
        row = EventSubscription.objects.get(mark=answer["id"])
        return Response(self.get_serializer(row).data, status=200 if "deliveryStatus" in answer else 201)

    @extend_schema(
        summary="End a subscription",
        description="Its callback is notified and gets no further events.",
        responses={204: None},
    )
    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        rows = EventSubscription.objects.filter(pk=self.get_object().pk)
        subscribing.end_by_operator(rows, actor_of(request.user), "")
        return Response(status=204)


def subscribed(subscriber: EventSubscriber, wish: dict[str, Json]) -> dict[str, Json]:
    """Subscribe by a validated wish; return the answer of `events/subscribe`. Raises HubError."""
    params: dict[str, Json] = {
        "name": wish["event"],
        "delivery": {"mode": "webhook", "url": wish["url"], "secret": wish["secret"]},
        "arguments": wish.get("arguments"),
        "cursor": wish.get("cursor"),
        **({"ttlMs": wish["ttl_ms"]} if "ttl_ms" in wish else {}),
    }
    receiver = subscriber.admitted()
    try:
        return async_to_sync(subscribing.subscribe)(subscriber, receiver, params)
    except EventForbidden as error:
        raise Forbidden(error.message) from error
    except EventExhausted as error:
        raise RateLimited(error.message) from error
    except EventCallback as error:
        raise Conflict(error.message, **error.spec_data) from error


class UpstreamEventSerializer(RowSerializer[UpstreamEvent]):
    """A type of events that an upstream offers."""

    connection = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    state = serializers.ChoiceField(choices=UpstreamEvent.STATES, read_only=True)
    offered = JSONObject(read_only=True, help_text="As the upstream lists it now; empty where it does not any more.")
    approved = JSONObject(read_only=True, help_text="Served, and held against what comes.")
    arguments = JSONObject(read_only=True, help_text="With which it is received.")
    problem = serializers.CharField(source="trouble", read_only=True, help_text="Why it is not received now.")

    class Meta:
        model = UpstreamEvent
        fields = [
            "id",
            "name",
            "connection",
            "state",
            "problem",
            "offered",
            "approved",
            "arguments",
            "received",
            "repeated",
            "refused",
            "last_refusal",
            "gaps",
            "last_received_at",
        ]
        read_only_fields = fields


class EventDecisionSerializer(AskedSerializer):
    reason = StrictText(required=False, allow_blank=True, default="", max_length=300, help_text="Kept in the history.")


class EventApprovalSerializer(EventDecisionSerializer):
    arguments = JSONObject(
        required=False, help_text="By the `inputSchema` of the definition. Without them, those of the approval before."
    )


@extend_schema_view(
    list=extend_schema(summary="Types of events that upstreams offer"), retrieve=extend_schema(summary="One type")
)
class UpstreamEventViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[UpstreamEvent]):
    http_method_names = ["get", "head", "post"]
    queryset = UpstreamEvent.objects.select_related("connection")
    serializer_class = UpstreamEventSerializer
    filters = ()
    ordering = ("name",)
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = {"read": "events.view_upstreamevent", "write": "tools_catalog.approve_mcpupstreamtool"}
    may_conflict = True
    missing = "There is no such event. GET /api/upstream-events/ lists them."

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        if request.auth is not None and request.method == "POST":
            raise Forbidden("Events of upstreams are approved by people who are logged in, not by keys.")

    @extend_schema(
        summary="Approve a type of events",
        request=EventApprovalSerializer,
        responses={200: UpstreamEventSerializer},
        description="By people who are logged in. The hub receives it, by the definition that is offered now.",
    )
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        asked = EventApprovalSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        wish = asked.validated_data
        try:
            is_new = offers.approve(self.get_object(), actor_of(request.user), wish["reason"], wish.get("arguments"))
        except ArgumentsMisfit as error:
            raise serializers.ValidationError({"arguments": [error.message]}) from error
        if not is_new:
            raise Conflict("Nothing is offered that is not approved.")
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(
        summary="Stop a type of events",
        request=EventDecisionSerializer,
        responses={200: UpstreamEventSerializer},
        description="By people who are logged in. The hub receives it no more, and subscriptions to it end.",
    )
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, pk: str) -> Response:
        asked = EventDecisionSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        if not offers.stop(self.get_object(), actor_of(request.user), asked.validated_data["reason"]):
            raise Conflict("It is not approved.")
        return Response(self.get_serializer(self.get_object()).data)
