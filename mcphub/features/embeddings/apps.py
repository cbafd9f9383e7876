from django.utils.translation import gettext_lazy as _

from mcphub.features.quotas.apps import CountedModels
from mcphub.parts import (
    ConsolePage,
    DoctorCheck,
    HubCommand,
    HubService,
    PeriodicSweep,
    RecordedSpend,
    RestExamples,
    RestResource,
    RolePermissions,
)
from sessions_app.kit.features import FeatureConfig
from tools_catalog.catalog.closeness import SearchCloseness


class EmbeddingsConfig(FeatureConfig):
    name = "mcphub.features.embeddings"
    label = "embeddings"
    verbose_name = _("Embeddings")
    requires = ("chat", "quotas")
    parts = (
        SearchCloseness("mcphub.features.embeddings.service:closest"),
        HubService("embeddings", "mcphub.features.embeddings.service:EmbeddingService"),
        PeriodicSweep("mcphub.features.embeddings.cache:purge"),
        PeriodicSweep("mcphub.features.embeddings.spend:purge"),
        RecordedSpend("mcphub.features.embeddings.spend:spent", "mcphub.features.embeddings.spend:providers"),
        CountedModels("mcphub.features.embeddings.cache:provider_of_model"),
        HubCommand(
            "embedding",
            "show how far embedding models are, test one, or ask for the vectors of all tools",
            "mcphub.features.embeddings.command",
        ),
        RestResource(
            "embedding-models",
            "mcphub.features.embeddings.rest:EmbeddingModelViewSet",
            _("Models that searches find tools with by meaning, and their state."),
        ),
        RestExamples("mcphub.features.embeddings.examples"),
        DoctorCheck(_("embeddings"), "mcphub.features.embeddings.state:check"),
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
