from django.utils.translation import gettext_lazy as _

from mcphub.parts import (
    ConsolePage,
    HubCommand,
    PaletteAction,
    PeriodicSweep,
    ProtocolExtension,
    RestExamples,
    RestResource,
    RolePermissions,
)
from sessions_app.kit.features import FeatureConfig
from tools_catalog.catalog.additions import OfferAdditions
from tools_catalog.upstream.listing import OfferKind


class SkillsConfig(FeatureConfig):
    name = "mcphub.features.skills"
    label = "skills"
    verbose_name = _("Skills")
    requires = ("importers",)
    parts = (
        OfferAdditions("mcphub.features.skills.offered:read", "mcphub.features.skills.offered:read_prompts"),
        OfferKind("skill", "mcphub.features.skills.approving:relayed"),
        ProtocolExtension(
            "io.modelcontextprotocol/skills",
            {
                "skills/list": "mcphub.features.skills.methods:skills_list",
                "skills/get": "mcphub.features.skills.methods:skills_get",
                "resources/directory/read": "mcphub.features.skills.methods:directory_read",
            },
            {"directoryRead": True},
        ),
        PeriodicSweep("mcphub.features.skills.sweeping:purge"),
        HubCommand("skill", "skills: instructions with files for models", "mcphub.features.skills.command"),
        RestExamples("mcphub.features.skills.examples"),
        RestResource("skills", "mcphub.features.skills.rest:SkillViewSet", _("Skills.")),
        ConsolePage(
            "catalogue",
            _("Skills"),
            "school",
            "skills_skill",
            place=45,
            words=_("instructions SKILL.md"),
            about=_(
                "A skill is a folder of instructions for models: a SKILL.md, and the files that it names. Add one from "
                "a zip or from the text of its SKILL.md."
            ),
            docs="integrate/skills",
        ),
        PaletteAction(
            _("Add a skill"), "school", "admin:skills_skill_add", ("skills.add_skill",), _("instructions SKILL.md")
        ),
        RolePermissions(("skills.view_skill",)),
        RolePermissions(
            ("skills.add_skill", "skills.change_skill", "skills.delete_skill"), ("Operator", "Upstream manager")
        ),
    )

    def ready(self) -> None:
        from mcphub.features.skills import skill_bundle
        from mcphub.features.skills.rules import RULES
        from sessions_app.kit.triggers import install_after_migrate

        skill_bundle.connect()
        install_after_migrate(self, RULES)
