from django.utils.translation import gettext_lazy as _

from mcphub.parts import HubService, NoticeFollower, PeriodicSweep, ProtocolExtension
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
            also="events",
        ),
        HubService("events", "mcphub.features.events.hub:EventsService"),
        NoticeFollower("mcphub.features.events.recording:record"),
        PeriodicSweep("mcphub.features.events.sweeping:purge"),
        PeriodicSweep("mcphub.features.events.sweeping:purge_subscriptions"),
    )
