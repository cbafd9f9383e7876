"""Metrics of notices that the database has."""

from __future__ import annotations

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric

from mcphub.features.notifications.models import Delivery


def deliveries() -> list[Metric]:
    """Return the waiting and abandoned deliveries of notices: read from two indexes; sent ones are not counted."""
    states = (Delivery.State.WAITING, Delivery.State.DEAD)
    counts = dict(Delivery.objects.filter(state__in=states).order_by().values_list("state").annotate(Count("pk")))
    family = GaugeMetricFamily(
        "mcphub_notice_deliveries", "Deliveries of notices that wait, or were given up and are kept.", labels=["state"]
    )
    for state in states:
        family.add_metric([state.value], counts.get(state.value, 0))
    return [family]
