"""Which model embeds the tools and questions of searches, and the vectors that it gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.history.guarding import GuardedModel

MOST_DIMENSIONS = 4096
LONGEST_SECONDS = 5


class EmbeddingSource(GuardedModel):
    """A model behind an OpenAI-compatible `/embeddings`. One can be enabled; without one, searches go by words."""

    RECORDED_AS = "embedding_source"
    GUARDED: ClassVar[Mapping[str, Any]] = {"enabled": False}
    """Definitions of tools leave the hub."""
    JUDGED_BY = ("provider_id",)

    provider = models.ForeignKey(
        "chat.ChatProvider", models.CASCADE, related_name="embedding_sources", verbose_name=_("provider")
    )
    model = models.CharField(
        _("model"), max_length=200, help_text=_("The provider's name of an embedding model, for its /embeddings.")
    )
    dimensions = models.PositiveSmallIntegerField(
        _("dimensions"),
        null=True,
        blank=True,
        validators=[MinValueValidator(8), MaxValueValidator(MOST_DIMENSIONS)],
        help_text=_("Leave blank for the model's own. Fewer are faster; not every model can shorten its vectors."),
    )
    timeout_seconds = models.FloatField(
        _("timeout, seconds"),
        default=0.8,
        validators=[MinValueValidator(0.05), MaxValueValidator(LONGEST_SECONDS)],
        help_text=_("A search waits no longer for the provider, then goes by words alone."),
    )
    enabled = models.BooleanField(
        _("enabled"),
        default=False,
        help_text=_(
            "Sends names, titles, descriptions and arguments of the tools that can be searched, and the words of each "
            "search, to this provider. Tools and searches of workspaces are never sent."
        ),
    )
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("embedding model")
        verbose_name_plural = _("embedding models")
        ordering = ["provider__slug", "model"]
        constraints = [
            models.UniqueConstraint(fields=["enabled"], condition=Q(enabled=True), name="embedding_source_one_enabled"),
            models.CheckConstraint(condition=~Q(model=""), name="embedding_source_has_model"),
        ]

    def __str__(self) -> str:
        return f"{self.provider.slug}/{self.model}"

    def clean(self) -> None:
        if self.enabled and EmbeddingSource.objects.filter(enabled=True).exclude(pk=self.pk).exists():
            raise ValidationError({"enabled": _("Another embedding model is enabled. Disable it first.")})


class EmbeddingUse(models.Model):
    """The use, cost and last failure of a model; shared by the workers."""

    source = models.OneToOneField(
        EmbeddingSource, models.CASCADE, primary_key=True, related_name="use", verbose_name=_("embedding model")
    )
    tokens = models.PositiveBigIntegerField(_("tokens"), default=0)
    cost_millionths = models.PositiveBigIntegerField(_("cost"), default=0)
    failure = models.TextField(_("last failure"), blank=True)
    failed_at = models.DateTimeField(_("failed at"), null=True, blank=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.source}: {self.tokens}"


class EmbeddingSpend(models.Model):
    """The cost of a caller's requests for vectors within one minute, for alerts."""

    minute = models.DateTimeField()
    principal = models.CharField(max_length=64, blank=True)
    """Empty: the hub's own requests."""
    provider = models.CharField(max_length=40)
    cost_millionths = models.PositiveBigIntegerField(default=0)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["minute", "principal", "provider"], name="embedding_spend_one_row")
        ]

    def __str__(self) -> str:
        return f"{self.provider} {self.minute:%Y-%m-%d %H:%M}"


class CachedVector(models.Model):
    """The vector of a text, by a digest of the model and the text. The text itself is not kept."""

    digest = models.CharField(primary_key=True, max_length=64)
    vector = models.BinaryField()
    """32-bit floats, little endian, of length one."""
    used_at = models.DateTimeField(default=timezone.now)
    """Within a day."""

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["used_at"], name="cached_vector_use")]

    def __str__(self) -> str:
        return self.digest
