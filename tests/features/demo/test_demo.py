"""The invented past of a demo: its shape, that it is the same each time, and that it is sealed as any record."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from invocations.chain import service
from invocations.models import McpToolInvocation
from mcphub.features.demo import company, history, recording
from mcphub.features.demo.serving import MARK_FILE
from mcphub.features.error_groups.models import ErrorGroup
from mcphub.groups import ROLES
from sessions_app.kit.database import Dedicated
from sessions_app.models import McpWorkspace
from tests.factories import UserFactory
from tools_catalog.bundles import bundle

END = datetime(2026, 11, 26, 15, 30, tzinfo=UTC)
"""A Thursday."""


def test_the_past_is_the_same_each_time_and_has_working_days_nights_and_weekends() -> None:
    calls = history.calls(END)
    assert calls == history.calls(END)
    days = Counter(call.received_at.weekday() for call in calls)
    assert min(days[day] for day in range(5)) > 2 * max(days[5], days[6]) > 0
    hours = Counter(call.received_at.hour for call in calls)
    assert hours[10] > 5 * hours[23] > 0
    ended = [call.received_at + timedelta(milliseconds=call.milliseconds) for call in calls]
    assert ended == sorted(ended)
    assert END - timedelta(days=history.DAYS, hours=1) < ended[0] < ended[-1] < END


def test_the_error_began_yesterday() -> None:
    broken = [call.received_at for call in history.calls(END) if call.error == "upstream_error"]
    assert len(broken) > 20
    assert END - history.BROKEN_FOR < min(broken) < END - timedelta(hours=12)


def test_the_past_is_sealed_and_verifies_as_any_other(transactional_db: None, settings: Any, tmp_path: Path) -> None:
    settings.MCPHUB_AUDIT_DIR = tmp_path / "audit"
    bundle.load(bundle.read_pack("starter"), reason="demo")
    made = company.found("https://demo.company.example")
    calls = history.calls(END)[-400:]
    assert recording.write(calls, made.keys, END) == 400
    assert McpToolInvocation.objects.count() == 400
    database = Dedicated()
    try:
        assert service.sealer_of(database).seal() >= 400
        assert service.log_of(database).head().through["invocation"] >= 400
    finally:
        database.close()
    failing = ErrorGroup.objects.filter(tool_name="billing.list_orders").values_list("error_code", flat=True)
    assert "upstream_error" in failing
    for workspace in McpWorkspace.objects.all():
        workspace.members.clear()
    Group.objects.exclude(name__in=ROLES).delete()  # the fixture leaves the table alone, as migrations fill it


@pytest.mark.django_db
def test_the_tour_is_on_the_overview_of_a_demo_alone() -> None:
    client = Client()
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    assert _stops(client) == []
    mark = settings.MCPHUB_DATA_DIR / MARK_FILE
    mark.touch()
    try:
        stops = _stops(client)
        assert len(stops) == 6
        for stop in stops:
            assert client.get(stop.link).status_code == 200, stop.link
    finally:
        mark.unlink()


def _stops(client: Client) -> list[Any]:
    cards = client.get(reverse("admin:index")).context["cards"]
    return [stop for card in cards for stop in card["stops"]]
