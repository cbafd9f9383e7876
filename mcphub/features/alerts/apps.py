from django.utils.translation import gettext_lazy as _

from mcphub.parts import ConsolePage, HubCommand, NoticeKind, PaletteAction, RestExamples, RestResource, RolePermissions
from sessions_app.kit.features import FeatureConfig


class AlertsConfig(FeatureConfig):
    name = "mcphub.features.alerts"
    label = "alerts"
    requires = ("notifications",)
    verbose_name = _("Alerts")
    parts = (
        HubCommand(
            "alert", "list, add, try on the last week, switch and remove alerts", "mcphub.features.alerts.command"
        ),
        RestResource(
            "alerts", "mcphub.features.alerts.rest:AlertViewSet", _("Alerts: thresholds on calls and on money.")
        ),
        RestExamples("mcphub.features.alerts.examples"),
        ConsolePage(
            "inbox",
            _("Alerts"),
            "notification_important",
            "alerts_alert",
            place=45,
            words=_("alert alerts threshold monitor error rate latency p95 no calls pager spend cost money"),
            about=_(
                "An alert sends a notification when the error rate or latency of calls or the money spent passes a "
                "threshold, or when calls stop. Before you save one, it shows how often it would have fired last week."
            ),
            docs="operate/notifications#alerts",
        ),
        PaletteAction(
            _("Add an alert"),
            "add_alert",
            "admin:alerts_alert_add",
            ("alerts.add_alert",),
            _("new alert threshold monitor error rate latency spend cost"),
        ),
        NoticeKind(
            "alert.errors",
            _("Alert: error rate"),
            _(
                "%(alert)s: %(share)s %% of %(calls)s calls (%(scope)s) failed within %(within)s; the "
                "threshold is %(threshold)s %%."
            ),
            "alerts.view_alert",
            "alerts_alert",
            ends=True,
            states="mcphub.features.alerts.watching:failing",
            shown="mcphub.features.alerts.watching:shown",
        ),
        NoticeKind(
            "alert.slow",
            _("Alert: latency"),
            _(
                "%(alert)s: the p95 of %(calls)s calls (%(scope)s) was %(p95)s ms within %(within)s; the "
                "threshold is %(threshold)s ms."
            ),
            "alerts.view_alert",
            "alerts_alert",
            ends=True,
            states="mcphub.features.alerts.watching:slow",
            shown="mcphub.features.alerts.watching:shown",
        ),
        NoticeKind(
            "alert.quiet",
            _("Alert: no calls"),
            _("%(alert)s: no call (%(scope)s) within %(within)s."),
            "alerts.view_alert",
            "alerts_alert",
            ends=True,
            states="mcphub.features.alerts.watching:quiet",
            shown="mcphub.features.alerts.watching:shown",
        ),
        NoticeKind(
            "alert.spend",
            _("Alert: money spent"),
            _(
                "%(alert)s: %(spent)s %(currency)s spent (%(scope)s) within %(within)s; the threshold is "
                "%(threshold)s %(currency)s."
            ),
            "alerts.view_alert",
            "alerts_alert",
            ends=True,
            states="mcphub.features.alerts.watching:spending",
            shown="mcphub.features.alerts.watching:shown",
        ),
        RolePermissions(("alerts.view_alert",)),
        RolePermissions(
            ("alerts.add_alert", "alerts.change_alert", "alerts.delete_alert"), ("Operator", "Upstream manager")
        ),
    )

    def ready(self) -> None:
        from mcphub.features.alerts import bundle

        bundle.connect()
