"""Prices of models, as operators keep them: a row for each price, valid from a day on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcphub.features.chat.models.providers import ChatProvider
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.models.scoped import NAMED

ANY = "*"
"""In the place of a model's name: all of the provider that have no price of their own."""
MOST_PRICE = 10_000 * 1_000_000
"""Of a million tokens, in millionths."""
MOST_PRICES = 2000
"""Of a hub. Each process holds them all in memory."""
_PRICED = [MinValueValidator(0), MaxValueValidator(MOST_PRICE)]


class ChatModelPrice(LoadableModel):
    """The price of a million tokens of a model, in millionths of the hub's currency; see docs/secure/quotas.md."""

    RECORDED_AS = "price"
    UNRECORDED: ClassVar[tuple[str, ...]] = ("loaded_by",)

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        validators=[NAMED],
        help_text=_("Recorded with the usage that it priced."),
    )
    provider = models.ForeignKey(ChatProvider, models.CASCADE, related_name="prices", verbose_name=_("provider"))
    model = models.CharField(
        _("model"),
        max_length=200,
        help_text=_("The provider's model name, or * for all of its models without a price of their own."),
    )
    input_millionths = models.BigIntegerField(_("per million input tokens"), validators=_PRICED)
    cached_millionths = models.BigIntegerField(
        _("per million cached input tokens"),
        null=True,
        blank=True,
        validators=_PRICED,
        help_text=_("Leave blank if they cost the same."),
    )
    output_millionths = models.BigIntegerField(_("per million output tokens"), validators=_PRICED)
    valid_from = models.DateTimeField(
        _("valid from"),
        default=timezone.now,
        help_text=_("The latest price that has started applies. Past usage keeps its price."),
    )
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("model price")
        verbose_name_plural = _("model prices")
        ordering = ["provider__slug", "model", "-valid_from"]
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "model", "valid_from"],
                name="chat_price_once",
                violation_error_message=_("The model already has another price from this moment. Change that one."),
            ),
            models.CheckConstraint(condition=~Q(model=""), name="chat_price_has_model"),
            models.CheckConstraint(
                condition=Q(input_millionths__gte=0)
                & Q(output_millionths__gte=0)
                & (Q(cached_millionths=None) | Q(cached_millionths__gte=0)),
                name="chat_price_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(cached_millionths=None) | Q(cached_millionths__lte=F("input_millionths")),
                name="chat_price_cache_saves",
                violation_error_code="cached_millionths",
                violation_error_message=_("Cached tokens can't cost more than others."),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems: dict[str, Any] = {}
        self.model = self.model.strip()
        if "*" in self.model and self.model != ANY:
            problems["model"] = _("Enter the full name of one model, or * alone.")
        cached = self.cached_millionths
        if cached is not None and self.input_millionths is not None and cached > self.input_millionths:
            problems["cached_millionths"] = _("Cached tokens can't cost more than others.")
        if self._state.adding and type(self)._default_manager.count() >= MOST_PRICES:
            problems["name"] = _("The hub has %(most)d prices, the maximum. Delete one first.") % {"most": MOST_PRICES}
        if problems:
            raise ValidationError(problems)

    @property
    def provider_slug(self) -> str:
        """The provider, as files name it."""
        return self.provider.slug if self.provider_id is not None else ""

    @provider_slug.setter
    def provider_slug(self, slug: str) -> None:
        self.provider = ChatProvider.objects.get(slug=slug)

    @property
    def valid_from_text(self) -> str:
        """The moment, in the form of files."""
        return self.valid_from.astimezone(UTC).isoformat()

    @valid_from_text.setter
    def valid_from_text(self, text: str) -> None:
        self.valid_from = datetime.fromisoformat(text)
