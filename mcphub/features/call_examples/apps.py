from django.utils.translation import gettext_lazy as _

from mcphub.parts import ConsolePage, RolePermissions
from sessions_app.kit.features import FeatureConfig
from tools_catalog.catalog.additions import ToolAdditions


class CallExamplesConfig(FeatureConfig):
    name = "mcphub.features.call_examples"
    label = "call_examples"
    verbose_name = _("Examples of use")
    parts = (
        ToolAdditions("mcphub.features.call_examples.addition:read"),
        ConsolePage(
            "catalogue",
            _("Examples of use"),
            "format_quote",
            "call_examples_toolexamples",
            place=55,
            about=_("Examples of use help searches find a tool. Take them from recorded calls, or write your own."),
            docs="integrate/agents#my-model-does-not-find-the-tool",
        ),
        RolePermissions(
            (
                "call_examples.view_toolexamples",
                "call_examples.add_toolexamples",
                "call_examples.change_toolexamples",
                "call_examples.delete_toolexamples",
            ),
            ("Operator",),
        ),
    )

    def ready(self) -> None:
        from mcphub.features.call_examples.rules import RULES
        from sessions_app.kit.triggers import install_after_migrate

        install_after_migrate(self, RULES)
