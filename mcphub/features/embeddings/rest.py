"""REST over embedding models and their state. Read only: they are changed in the console."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, serializers

from mcphub.features.embeddings.models import CachedVector, EmbeddingSource
from mcphub.features.embeddings.state import EmbeddingCoverage, coverage_of, use_of
from sessions_app.kit.lists.filters import ListFilter, YesOrNo
from sessions_app.kit.rest.writing import RowSerializer, RowViewSet

FILTERS: tuple[ListFilter, ...] = (YesOrNo(name="enabled", label=""),)


class EmbeddingModelSerializer(RowSerializer[EmbeddingSource]):
    """An embedding model, its use and last failure, and how many tools have vectors."""

    id = serializers.IntegerField(read_only=True)
    provider = serializers.CharField(source="provider.slug", read_only=True)
    tools = serializers.SerializerMethodField(help_text="Tools that searches find. null: the model is off.")
    tools_with_vectors = serializers.SerializerMethodField(help_text="Those that it finds by meaning.")
    vectors = serializers.SerializerMethodField(
        help_text="Vectors of tools and questions that are kept, of all models."
    )
    tokens = serializers.SerializerMethodField(help_text="Used until now.")
    cost_millionths = serializers.SerializerMethodField(
        help_text="Of the hub's currency, at the prices of the moment. Without a price 0."
    )
    failure = serializers.SerializerMethodField(help_text="The last one. Empty: none.")
    failed_at = serializers.DateTimeField(source="use.failed_at", read_only=True, allow_null=True)

    class Meta:
        model = EmbeddingSource
        fields = [
            "id",
            "provider",
            "model",
            "dimensions",
            "timeout_seconds",
            "enabled",
            "tools",
            "tools_with_vectors",
            "vectors",
            "tokens",
            "cost_millionths",
            "failure",
            "failed_at",
            "updated_at",
        ]
        read_only_fields = fields

    def get_tools(self, row: EmbeddingSource) -> int | None:
        coverage = self._coverage(row)
        return None if coverage is None else coverage.tools

    def get_tools_with_vectors(self, row: EmbeddingSource) -> int | None:
        coverage = self._coverage(row)
        return None if coverage is None else coverage.embedded

    def get_vectors(self, row: EmbeddingSource) -> int:
        return CachedVector.objects.count()

    def get_tokens(self, row: EmbeddingSource) -> int:
        return use_of(row).tokens

    def get_cost_millionths(self, row: EmbeddingSource) -> int:
        return use_of(row).cost_millionths

    def get_failure(self, row: EmbeddingSource) -> str:
        return use_of(row).failure

    def _coverage(self, row: EmbeddingSource) -> EmbeddingCoverage | None:
        """Return how far the row's model is. One model can be enabled, so this looks once for an answer."""
        known: dict[int, EmbeddingCoverage | None] = self.__dict__.setdefault("_known", {})
        if row.pk not in known:
            known[row.pk] = coverage_of(row)
        return known[row.pk]


@extend_schema_view(
    list=extend_schema(summary="Embedding models and their state"),
    retrieve=extend_schema(summary="One embedding model"),
)
class EmbeddingModelViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[EmbeddingSource]):
    queryset = EmbeddingSource.objects.select_related("provider", "use")
    serializer_class = EmbeddingModelSerializer
    filters = FILTERS
    ordering = ("provider__slug", "model", "pk")
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "catalog:write"}
    required_permission = {"read": "embeddings.view_embeddingsource"}
    missing = "There is no such embedding model. GET /api/embedding-models/ lists them."
