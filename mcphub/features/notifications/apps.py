from django.utils.translation import gettext_lazy as _

from invocations.parts import EventSubject
from mcphub.parts import (
    ConsolePage,
    ConsoleSettings,
    HubCommand,
    HubService,
    PageRoutes,
    PeriodicSweep,
    RestResource,
    RolePermissions,
    RowMetrics,
)
from sessions_app.kit.features import FeatureConfig


class NotificationsConfig(FeatureConfig):
    name = "mcphub.features.notifications"
    label = "telling"
    requires = ("signin",)
    verbose_name = _("Notifications")
    parts = (
        HubCommand(
            "notice",
            "subscribe people to notices, test whether these arrive, and send once more what was given up",
            "mcphub.features.notifications.command",
        ),
        PageRoutes("mcphub.features.notifications.pages", below="admin/"),
        RestResource("notices", "mcphub.features.notifications.rest:NoticeViewSet", _("Notifications.")),
        RestResource(
            "notice-deliveries",
            "mcphub.features.notifications.rest:DeliveryViewSet",
            _("Notifications on their way to subscriptions, and those that were abandoned."),
        ),
        ConsolePage(
            "inbox",
            _("Notifications"),
            "notifications",
            "telling_notice",
            "n",
            place=40,
            words=_("alert alerts events"),
            about=_(
                "Matters that need your attention appear here: failing connections, waiting approvals, quotas "
                "that run low."
            ),
            docs="operate/notifications",
        ),
        ConsolePage(
            "settings",
            _("My notifications"),
            "mark_email_unread",
            "telling_subscription",
            place=22,
            words=_("alert alerts slack teams webhook email mail channel"),
            about=_(
                "A subscription sends you the notifications that you choose, for example by email or to a webhook."
            ),
            docs="operate/notifications#outside",
        ),
        ConsolePage(
            "settings",
            _("Deliveries"),
            "outgoing_mail",
            "telling_delivery",
            place=24,
            words=_("alert webhook email sent"),
            about=_("Each notification that a subscription sends is recorded here with its outcome."),
            docs="operate/notifications#outside",
        ),
        ConsoleSettings("mail", "telling_subscription", _("Where notifications go: e-mail, webhooks, chat channels.")),
        HubService("notifications", "mcphub.features.notifications.hub:Notifications"),
        PeriodicSweep("mcphub.features.notifications.noticing:purge"),
        RowMetrics("mcphub.features.notifications.metrics:deliveries"),
        RolePermissions(
            (
                "telling.view_notice",
                "telling.view_delivery",
                "telling.replay_delivery",
                "telling.view_subscription",
                "telling.add_subscription",
                "telling.change_subscription",
                "telling.delete_subscription",
            )
        ),
        EventSubject("subscription", _("subscriptions")),
    )
