from django.utils.translation import gettext_lazy as _

from mcphub.parts import ConsolePage, HubService, NoticeFollower, PeriodicSweep, ProtocolExtension
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
        ),
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
        HubService("events", "mcphub.features.events.hub:EventsService"),
        NoticeFollower("mcphub.features.events.recording:record"),
        PeriodicSweep("mcphub.features.events.sweeping:purge"),
        PeriodicSweep("mcphub.features.events.sweeping:purge_subscriptions"),
    )
