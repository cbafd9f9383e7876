from django.utils.translation import gettext_lazy as _

from invocations.parts import EventSubject, FailureFollower, FailureLink
from mcphub.parts import ConsolePage, HubCommand, RestExamples, RestResource, RolePermissions, SchemaEnum
from sessions_app.kit.features import FeatureConfig


class ErrorGroupsConfig(FeatureConfig):
    name = "mcphub.features.error_groups"
    label = "error_groups"
    verbose_name = _("Errors")
    embeds = True
    parts = (
        HubCommand("error", "list, mute and resolve groups of errors", "mcphub.features.error_groups.command"),
        RestResource(
            "errors", "mcphub.features.error_groups.rest:ErrorGroupViewSet", _("Failed calls, grouped by cause.")
        ),
        ConsolePage(
            "calls",
            _("Errors"),
            "report",
            "invocations_errorgroup",
            "e",
            place=15,
            words=_("failures issues exceptions"),
            about=_(
                "Failed calls with the same tool, error code and message are grouped here, so that you can follow, "
                "resolve or mute them."
            ),
            docs="operate/console#errors-in-groups",
        ),
        FailureFollower("mcphub.features.error_groups.grouping"),
        FailureLink(_("Error group"), "mcphub.features.error_groups.links:group_of"),
        EventSubject("errorgroup", _("errors")),
        RolePermissions(("invocations.view_errorgroup",)),
        RolePermissions(("invocations.change_errorgroup",), ("Operator",)),
        SchemaEnum("ErrorStateEnum", "mcphub.features.error_groups.models.ErrorGroup.State"),
        RestExamples("mcphub.features.error_groups.examples"),
    )
