from django.utils.translation import gettext_lazy as _

from mcphub.parts import (
    ConsolePage,
    DoctorCheck,
    Endpoints,
    HubCommand,
    HubService,
    NoticeFollower,
    NoticeKind,
    PeriodicSweep,
    ProtocolExtension,
    RestExamples,
    RestResource,
    RolePermissions,
)
from sessions_app.kit.features import FeatureConfig


class EventsConfig(FeatureConfig):
    name = "mcphub.features.events"
    label = "events"
    verbose_name = _("Events for clients")
    requires = ("notifications", "signin")
    parts = (
        ProtocolExtension(
            "io.modelcontextprotocol/events",
            {
                "events/list": "mcphub.features.events.methods:events_list",
                "events/poll": "mcphub.features.events.methods:events_poll",
                "events/subscribe": "mcphub.features.events.subscribing:events_subscribe",
                "events/unsubscribe": "mcphub.features.events.subscribing:events_unsubscribe",
            },
            stateless={"events/stream": "mcphub.features.events.streaming:events_stream"},
            draft_name="events",  # ChatGPT, November 2026
        ),
        Endpoints("mcphub.features.events.endpoints"),
        DoctorCheck(_("upstream events"), "mcphub.features.events.doctor:check"),
        RestExamples("mcphub.features.events.examples"),
        RestResource(
            "event-subscriptions",
            "mcphub.features.events.rest:EventSubscriptionViewSet",
            _("Callbacks that receive events."),
        ),
        RestResource(
            "upstream-events",
            "mcphub.features.events.rest:UpstreamEventViewSet",
            _("Types of events that upstreams offer."),
        ),
        HubCommand("event-subscription", "callbacks that receive events", "mcphub.features.events.command"),
        ConsolePage(
            "access",
            _("Event subscriptions"),
            "webhook",
            "events_eventsubscription",
            place=55,
            docs="integrate/events#callbacks",
            group=_("Apps"),
            words=_("webhook callback events"),
            about=_(
                "When a client subscribes a callback to events of the hub, the subscription is listed here, and can be "
                "ended."
            ),
        ),
        ConsolePage(
            "connections",
            _("Upstream events"),
            "sensors",
            "events_upstreamevent",
            place=15,
            docs="integrate/events#of-upstreams",
            words=_("events of servers triggers"),
            about=_(
                "An upstream that declares events lists their types here. Approve a type, and the hub receives it once "
                "for all clients that see a tool of the upstream."
            ),
        ),
        NoticeKind(
            "events.cut",
            _("An upstream sends too many events"),
            _("%(connection)s sent %(count)s events within an hour. Further ones are read after %(until)s."),
            "events.view_upstreamevent",
            "events_upstreamevent",
            ends=True,
            states="mcphub.features.events.taking:flooding",
            shared=("connection",),
        ),
        HubCommand("event", "events of upstreams: offered, approved, received", "mcphub.features.events.event_command"),
        HubService("events", "mcphub.features.events.hub:EventsService"),
        NoticeFollower("mcphub.features.events.recording:record"),
        PeriodicSweep("mcphub.features.events.sweeping:purge"),
        PeriodicSweep("mcphub.features.events.taking:purge"),
        PeriodicSweep("mcphub.features.events.sweeping:purge_subscriptions"),
        RolePermissions(("events.view_upstreamevent",)),
        RolePermissions(("events.view_eventsubscription",), ("Auditor", "Operator")),
        RolePermissions(("events.delete_eventsubscription",), ("Operator",)),
    )
