from django.utils.translation import gettext_lazy as _

from invocations.stages import CallStage
from mcphub.parts import (
    ConsoleBanner,
    ConsolePage,
    DoctorCheck,
    HubCommand,
    NoticeKind,
    PaletteAction,
    RestResource,
    RolePermissions,
    RowsInForce,
)
from sessions_app.bus import FollowedRows
from sessions_app.kit.features import FeatureConfig


class WritesConfig(FeatureConfig):
    name = "mcphub.features.writes"
    label = "writes"
    verbose_name = _("Write stops")
    parts = (
        FollowedRows("writes_changed", "mcphub.features.writes.in_force:read"),
        CallStage("mcphub.features.writes.stage:WriteStage"),
        HubCommand(
            "writes",
            "stop all writes, for everybody or a workspace, and allow them again",
            "mcphub.features.writes.command",
        ),
        RestResource("write-stops", "mcphub.features.writes.rest:WriteStopViewSet", _("Stops of all writes.")),
        ConsolePage(
            "rules",
            _("Write stops"),
            "front_hand",
            "writes_writestop",
            place=5,
            words=_("kill switch emergency freeze read-only mode maintenance"),
            about=_(
                "Add one to refuse all calls of tools that are not read-only, for everybody or for a workspace. A "
                "second person must agree to allow them again."
            ),
            docs="secure/write-stops",
        ),
        PaletteAction(
            _("Stop all writes"),
            "front_hand",
            "admin:writes_writestop_add",
            ("writes.add_writestop",),
            _("kill switch emergency freeze read-only mode maintenance"),
        ),
        ConsoleBanner("mcphub.features.writes.banner:shown"),
        NoticeKind(
            "writes.stopped",
            _("Writes are stopped"),
            _("%(where)s Stopped by %(who)s. %(reason)s"),
            "writes.view_writestop",
            "writes_writestop",
            is_alarm=True,
            ends=True,
            states="mcphub.features.writes.in_force:states",
        ),
        DoctorCheck(_("write stops"), "mcphub.features.writes.in_force:check"),
        RowsInForce(
            "writes_writestop",
            "in_force",
            _("The feature writes is off. Write stops in force that refuse no calls: %(count)d."),
        ),
        RolePermissions(("writes.view_writestop",)),
        RolePermissions(("writes.add_writestop", "writes.change_writestop"), ("Operator", "Upstream manager")),
    )

    def ready(self) -> None:
        from mcphub.features.writes.rules import RULES
        from sessions_app.kit.triggers import install_after_migrate

        install_after_migrate(self, RULES)
