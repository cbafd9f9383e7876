"""REST over prices of models."""

from __future__ import annotations

from typing import Any

from mcphub.features.chat.models import ChatModelPrice, ChatProvider
from mcphub.features.chat.models.prices import MOST_PRICE
from sessions_app.kit.rest.writing import Named, ReasonedSerializer, StrictInteger, permissions
from tools_catalog.rest.removable import RemovableViewSet, described

_MONEY: dict[str, Any] = {"min_value": 0, "max_value": MOST_PRICE}


class ModelPriceSerializer(ReasonedSerializer):
    """The price of a million tokens of a model, in millionths of the hub's currency."""

    provider = Named(slug_field="slug", queryset=ChatProvider.objects.all(), help_text="Its name.")
    input_millionths = StrictInteger(help_text="For a million tokens read.", **_MONEY)
    cached_millionths = StrictInteger(
        required=False,
        allow_null=True,
        help_text="For a million of them that the provider had in its cache; null: as the others.",
        **_MONEY,
    )
    output_millionths = StrictInteger(help_text="For a million tokens written.", **_MONEY)

    class Meta:
        model = ChatModelPrice
        fields = [
            "name",
            "provider",
            "model",
            "input_millionths",
            "cached_millionths",
            "output_millionths",
            "valid_from",
            "created_at",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["created_at", "updated_at"]


@described("price", "Prices of models, by name", on_removal="Rounds on record keep its name, and sums what it counted.")
class ModelPriceViewSet(RemovableViewSet):
    queryset = ChatModelPrice.objects.select_related("provider")
    serializer_class = ModelPriceSerializer
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = permissions("chat.chatmodelprice")
    may_conflict = True
    missing = "There is no such price. GET /api/model-prices/ lists them."
