from django.utils.translation import gettext_lazy as _

from mcphub.parts import ConsolePage, HubService, PeriodicSweep, RolePermissions
from sessions_app.kit.features import FeatureConfig
from tools_catalog.catalog.closeness import SearchCloseness


class EmbeddingsConfig(FeatureConfig):
    name = "mcphub.features.embeddings"
    label = "embeddings"
    verbose_name = _("Embeddings")
    requires = ("chat",)
    parts = (
        SearchCloseness("mcphub.features.embeddings.service:closest"),
        HubService("embeddings", "mcphub.features.embeddings.service:EmbeddingService"),
        PeriodicSweep("mcphub.features.embeddings.cache:purge"),
        ConsolePage(
            "catalogue",
            _("Embeddings"),
            "scatter_plot",
            "embeddings_embeddingsource",
            place=55,
            words=_("semantic search vectors"),
            about=_(
                "An embedding model lets searches find tools by meaning. Definitions of tools and the words of "
                "searches are sent to its provider."
            ),
            docs="integrate/agents#searching-by-meaning",
        ),
        RolePermissions(("embeddings.view_embeddingsource",)),
        RolePermissions(
            (
                "embeddings.add_embeddingsource",
                "embeddings.change_embeddingsource",
                "embeddings.delete_embeddingsource",
            ),
            ("Operator",),
        ),
    )
