"""Alerts on rows: what they count, that each fires once and ends once, and that nothing saves that cannot work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.test import Client

from invocations.figures.tallies import ALL, HOUR, MINUTE, TOOL, Tally, class_of, slot_of
from invocations.models import CallTally
from mcphub.features.alerts import watching
from mcphub.features.alerts.counting import last_week
from mcphub.features.alerts.models import MOST_ALERTS, Alert
from mcphub.features.notifications import sources
from mcphub.features.notifications.models import Delivery, Notice, Subscription
from sessions_app.models import ApiKey
from tests.factories import McpConnectionFactory, McpToolDefinitionFactory, McpToolInvocationFactory
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.models import McpUpstreamTool

pytestmark = pytest.mark.django_db
JSON = "application/json"

KINDS = ("alert.errors", "alert.slow", "alert.quiet")


def clock() -> datetime:
    return datetime.now(UTC)


def count(name: str, calls: int, errors: int = 0, *, ago: timedelta = timedelta(minutes=2), ms: int = 10) -> None:
    """Write calls of a tool as the sealing process counts them."""
    for span in (MINUTE, HOUR):
        for subject, each in ((TOOL, name), (ALL, "")):
            row, _ = CallTally.objects.get_or_create(
                subject=subject,
                name=each,
                span=span,
                slot=slot_of(clock() - ago, span),
                defaults={"calls": 0, "errors": 0, "durations": "{}"},
            )
            whole = Tally(row.calls + calls, row.errors + errors, Tally.load(row.durations))
            whole.durations[class_of(ms)] += calls
            row.calls, row.errors, row.durations = whole.calls, whole.errors, whole.dump()
            row.save()


def alert(name: str = "errors", **fields: Any) -> Alert:
    row = Alert(name=name, **{"limit": 20, "least_calls": 5, **fields})
    row.full_clean()
    row.save()
    return row


def fires(row: Alert, now: datetime | None = None) -> bool:
    watching.judge(row, now or clock())
    return Alert.objects.get(pk=row.pk).fires_since is not None


def look() -> None:
    """One look for notices, with every alert due."""
    Alert.objects.update(checked_at=None)
    sources.reconcile(sources.states(), KINDS)


def test_it_counts_the_calls_of_its_tool_connection_workspace_or_all() -> None:
    upstream = McpConnectionFactory(slug="shop")
    tool = McpToolDefinitionFactory(name="shop_find")
    offered = offer(upstream, definition("find"))["find"]
    McpUpstreamTool.objects.filter(pk=offered.pk).update(tool=tool)
    other = McpToolDefinitionFactory(name="other")
    count("shop_find", 10, 5)
    count("other", 90)
    assert fires(alert("tool", tool=tool))
    assert fires(alert("connection", connection=upstream))
    assert not fires(alert("another tool", tool=other))
    assert not fires(alert("all", limit=6))
    assert fires(alert("all of it", limit=5))
    assert not fires(alert("rare", tool=tool, least_calls=11))
    assert not fires(alert("earlier", tool=tool), clock() + timedelta(hours=1))


def test_latency_and_silence_fire_too() -> None:
    tool = McpToolDefinitionFactory(name="slow")
    count("slow", 20, ms=3000)
    slow = alert("slow", measure="slow", limit=2000, tool=tool)
    quiet = alert("quiet", measure="quiet", limit=None, tool=tool, window_minutes=60)
    assert fires(slow)
    assert not fires(quiet)
    assert fires(quiet, clock() + timedelta(hours=3))
    McpToolInvocationFactory(tool_name="slow", started_at=clock() + timedelta(hours=2, minutes=59))
    assert not fires(quiet, clock() + timedelta(hours=3)), "recorded, though not counted yet"


def test_it_fires_once_to_who_asked_for_it_and_ends_once() -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.groups.add(Group.objects.get(name="Viewer"))
    wanted = Subscription(person=viewer, name="team", way="slack", kinds=["alert.errors"])
    wanted.set_address("https://hooks.example/team")
    wanted.full_clean()
    wanted.save()
    tool = McpToolDefinitionFactory(name="fails")
    row = alert("Fails", tool=tool)
    count("fails", 10, 9)
    for _ in range(3):
        look()
    notice = Notice.objects.get(kind="alert.errors")
    assert notice.words == "Fails: 90 % of 10 calls (fails) failed within 15 minutes; the threshold is 20 %."
    assert (notice.ended_at, Delivery.objects.count()) == (None, 1)
    count("fails", 90)
    for _ in range(3):
        look()
    assert Notice.objects.get().ended_at is not None
    assert Alert.objects.get(pk=row.pk).fires_since is None


def test_a_disabled_or_deleted_alert_ends_its_notice() -> None:
    tool = McpToolDefinitionFactory(name="fails")
    count("fails", 10, 9)
    alert("one", tool=tool)
    alert("two", tool=tool)
    look()
    assert Notice.objects.filter(ended_at=None).count() == 2
    Alert.objects.get(name="one").delete()
    Alert.objects.filter(name="two").update(enabled=False)
    look()
    assert not Notice.objects.filter(ended_at=None).exists()


def test_an_alert_is_judged_twice_a_minute_and_no_oftener() -> None:
    row = alert("quiet", measure="quiet", limit=None)
    assert list(watching.quiet()) == [str(row.pk)]
    count("any", 1)
    assert list(watching.quiet()) == [str(row.pk)]
    Alert.objects.update(checked_at=datetime.now(UTC) - watching.EVERY)
    assert list(watching.quiet()) == []


def test_the_trial_finds_the_failures_of_the_last_week() -> None:
    tool = McpToolDefinitionFactory(name="fails")
    row = alert("hourly", tool=tool, window_minutes=60)
    for ago in (timedelta(days=6), timedelta(days=4), timedelta(hours=30), timedelta(hours=3)):
        count("fails", 10, 9, ago=ago)
    found = last_week(row, clock())
    assert found.fired == 4
    assert 0 < found.slots_fired < found.slots / 10


@pytest.mark.parametrize("window", [5, 60, 1440])
def test_a_week_of_silence_is_one_firing(window: int) -> None:
    found = last_week(Alert(measure="quiet", window_minutes=window), clock())
    assert (found.fired, found.slots_fired) == (1, found.slots)


@pytest.mark.parametrize(
    ("fields", "member"),
    [
        ({"limit": None}, "limit"),
        ({"limit": 101}, "limit"),
        ({"limit": 86_400_001, "measure": "slow"}, "limit"),
        ({"least_calls": 0}, "least_calls"),
        ({"window_minutes": 7}, "window_minutes"),
        ({"measure": "magic"}, "measure"),
    ],
)
def test_what_cannot_work_is_refused_with_the_field(fields: dict[str, Any], member: str) -> None:
    with pytest.raises(ValidationError) as refused:
        alert(**fields)
    assert member in refused.value.message_dict


def test_it_watches_one_thing_and_a_hub_has_a_bounded_number() -> None:
    upstream = McpConnectionFactory(slug="shop")
    with pytest.raises(ValidationError, match="Choose one"):
        alert(tool=McpToolDefinitionFactory(name="x"), connection=upstream)
    Alert.objects.bulk_create(Alert(name=f"{number}", limit=1) for number in range(MOST_ALERTS))
    with pytest.raises(ValidationError, match="at most 200 alerts"):
        alert()


def test_programs_add_change_try_and_delete_one() -> None:
    key = ApiKey.issue("ops", scopes=["catalog:write"])[1]
    client, head = Client(), {"authorization": f"Bearer {key}"}
    McpToolDefinitionFactory(name="fails")
    count("fails", 10, 9, ago=timedelta(hours=3))
    given = {"name": "Fails", "measure": "errors", "limit": 50, "window_minutes": 60, "least_calls": 5, "tool": "fails"}
    made = client.post("/api/alerts/", given, content_type=JSON, headers=head)
    assert made.status_code == 201, made.content
    one = f"/api/alerts/{made.json()['id']}/"
    tried = client.get(f"{one}preview/", headers=head).json()
    assert tried["fired"] == 1
    assert 0 < tried["share"] < 1
    for wrong, status in (({"limit": 500}, 409), ({"tool": "no such"}, 409), ({"measure": "x"}, 400)):
        refused = client.patch(one, wrong, content_type=JSON, headers=head)
        assert refused.status_code == status, wrong
    assert client.patch(one, {"enabled": False}, content_type=JSON, headers=head).json()["enabled"] is False
    assert client.delete(one, headers=head).status_code == 204
    assert client.get(one, headers=head).status_code == 404


def test_the_form_shows_last_week_while_it_is_filled_in(log_in: Callable[..., Any]) -> None:
    operator = log_in("Operator")
    tool = McpToolDefinitionFactory(name="fails")
    count("fails", 10, 9, ago=timedelta(hours=3))
    given = {
        "name": "Fails",
        "enabled": "on",
        "measure": "errors",
        "limit": "50",
        "window_minutes": "60",
        "least_calls": "5",
        "tool": str(tool.pk),
        "connection": "",
        "workspace": "",
    }
    told = operator.post("/admin/alerts/alert/add/check/", given).json()
    assert "would have fired 1 time in the last 7 days" in told["preview"]
    told = operator.post("/admin/alerts/alert/add/check/", {**given, "limit": "500"}).json()
    assert told["errors"]["limit"] == ["Enter a percentage from 1 to 100."]
    page = operator.post("/admin/alerts/alert/add/", given, follow=True)
    assert page.status_code == 200
    row = Alert.objects.get()
    page = operator.get(f"/admin/alerts/alert/{row.pk}/change/").content.decode()
    assert "would have fired 1 time in the last 7 days" in page
    assert "50 % errors or more within 1 hour" in operator.get("/admin/alerts/alert/").content.decode()
