"""Alerts on money that the chat records: whose it is, when it was spent, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.test import Client

from mcphub.features.alerts import watching
from mcphub.features.alerts.counting import last_week
from mcphub.features.alerts.models import Alert
from mcphub.features.chat.models.conversations import AIResponse, Query
from mcphub.features.chat.models.providers import ChatProvider
from mcphub.features.notifications import sources
from mcphub.features.notifications.models import Notice
from sessions_app.models import ApiKey, McpWorkspace
from tests.factories import McpToolDefinitionFactory
from tools_catalog.bundles import bundle

pytestmark = pytest.mark.django_db
JSON = "application/json"
MINUTES = timedelta(minutes=1)


def spend(principal: str, *rounds: tuple[str, float], ago: timedelta = MINUTES, took: timedelta = MINUTES / 60) -> None:
    """Record an answered question with what each of its model requests cost."""
    now = datetime.now(UTC)
    asked = Query.objects.create(
        content="?", principal=principal, entry_point="query", state="done", process_id="p", timestamp=now - ago - took
    )
    AIResponse.objects.create(
        query=asked,
        provider_used=rounds[-1][0],
        model="m",
        rounds=[{"provider": name, "cost_millionths": int(cost * 1_000_000)} for name, cost in rounds],
        timestamp=now - ago,
        duration_ms=1,
    )


def alert(name: str = "spend", **fields: Any) -> Alert:
    row = Alert(name=name, **{"measure": "spend", "limit": 10, "window_minutes": 60, **fields})
    row.full_clean()
    row.save()
    return row


def fires(row: Alert) -> bool:
    watching.judge(row, datetime.now(UTC))
    return Alert.objects.get(pk=row.pk).fires_since is not None


@pytest.fixture
def providers() -> None:
    for slug in ("openai", "local"):
        ChatProvider.objects.create(slug=slug, kind="compatible", base_url=f"https://{slug}.example/v1")


@pytest.mark.usefixtures("providers")
def test_it_counts_the_money_of_a_person_a_key_a_workspace_a_provider_or_all() -> None:
    ada, eve = User.objects.create_user("ada"), User.objects.create_user("eve")
    payments = McpWorkspace.objects.create(slug="payments")
    team = Group.objects.create(name="Payments")
    payments.members.add(team)
    ada.groups.add(team)
    robot, _ = ApiKey.issue("robot", scopes=["chat"], workspace=payments)
    spend(f"user:{ada.pk}", ("openai", 4), ("local", 3))
    spend(robot.principal, ("openai", 5))
    spend(f"user:{eve.pk}", ("openai", 20), ago=timedelta(minutes=61))
    assert fires(alert("all", limit=12))
    assert not fires(alert("less", limit=13))
    assert fires(alert("ada", person=ada, limit=7))
    assert not fires(alert("eve", person=eve, limit=1))
    assert fires(alert("robot", key=robot, limit=5))
    assert not fires(alert("robot elsewhere", key=robot, provider="local", limit=1))
    assert fires(alert("payments", workspace=payments, limit=12))
    assert fires(alert("openai", provider="openai", limit=9))
    assert not fires(alert("openai only", provider="openai", limit=10))


def test_a_question_counts_when_it_is_answered_however_long_it_took() -> None:
    spend("user:1", ("openai", 10), took=timedelta(minutes=20))
    assert fires(alert(window_minutes=5))


def test_the_notice_names_the_amount_and_ends() -> None:
    spend("user:1", ("openai", 12.345))
    row = alert("Chat costs")
    sources.reconcile(sources.states(), ("alert.spend",))
    notice = Notice.objects.get(kind="alert.spend")
    assert notice.words == "Chat costs: 12.35 USD spent (*) within 1 hour; the threshold is 10 USD."
    Alert.objects.filter(pk=row.pk).update(enabled=False)
    sources.reconcile(sources.states(), ("alert.spend",))
    assert Notice.objects.get().ended_at is not None


def test_the_trial_finds_the_money_of_the_last_week() -> None:
    for ago in (timedelta(days=6), timedelta(days=4), timedelta(hours=30), timedelta(hours=3)):
        spend("user:1", ("openai", 11), ago=ago)
    found = last_week(alert(), datetime.now(UTC))
    assert found.fired == 4
    assert 0 < found.slots_fired < found.slots / 10


@pytest.mark.usefixtures("providers")
@pytest.mark.parametrize(
    ("fields", "member", "words"),
    [
        ({"limit": None}, "limit", "at least 1"),
        ({"provider": "none"}, "provider", "Choose from: local, openai"),
        ({"measure": "errors", "provider": "openai"}, "provider", "This is for money"),
    ],
)
def test_what_cannot_work_is_refused_with_the_field(fields: dict[str, Any], member: str, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        alert(**fields)
    assert words in refused.value.message_dict[member][0]


def test_it_watches_callers_and_no_tools() -> None:
    ada = User.objects.create_user("ada")
    key, _ = ApiKey.issue("of ada", owner=ada, scopes=["chat"])
    with pytest.raises(ValidationError, match="Choose the person ada"):
        alert(key=key)
    with pytest.raises(ValidationError, match="Tools cost no money"):
        alert(tool=McpToolDefinitionFactory(name="x"))
    with pytest.raises(ValidationError, match="Choose one of workspace, person and key"):
        alert(person=ada, workspace=McpWorkspace.objects.create(slug="w"))


def test_programs_add_and_try_one_and_bundles_carry_it() -> None:
    User.objects.create_user("ada")
    token = ApiKey.issue("ops", scopes=["catalog:write"])[1]
    client, head = Client(), {"authorization": f"Bearer {token}"}
    given = {"name": "Ada", "measure": "spend", "limit": 50, "window_minutes": 1440, "person": "ada"}
    made = client.post("/api/alerts/", given, content_type=JSON, headers=head)
    assert (made.status_code, made.json()["person"]) == (201, "ada"), made.content
    tried = client.get(f"/api/alerts/{made.json()['id']}/preview/", headers=head)
    assert tried.json() == {"fired": 0, "share": 0.0}
    dumped = bundle.dump()["alerts"]
    assert (dumped[0]["name"], dumped[0]["person"], dumped[0]["limit"]) == ("Ada", "ada", 50)
    Alert.objects.all().delete()
    report = bundle.load({"format": bundle.FORMAT, "alerts": dumped}, reason="from a file")
    assert (report.created, report.refused) == (["Ada"], [])
    assert bundle.dump()["alerts"] == dumped
    wrong = bundle.load({"format": bundle.FORMAT, "alerts": [{**dumped[0], "person": "bob"}]}, reason="from a file")
    assert wrong.refused == [("alerts[0]", "person: there is no 'bob' here.")]


def test_the_form_shows_last_week_while_it_is_filled_in(log_in: Callable[..., Any]) -> None:
    operator = log_in("Operator")
    spend("user:1", ("openai", 11), ago=timedelta(hours=3))
    given = {"name": "Chat", "enabled": "on", "measure": "spend", "limit": "10", "window_minutes": "60"}
    empty = dict.fromkeys(("tool", "connection", "workspace", "person", "key", "provider"), "")
    told = operator.post("/admin/alerts/alert/add/check/", {**given, **empty, "least_calls": "20"}).json()
    assert "would have fired 1 time in the last 7 days" in told["preview"]
    operator.post("/admin/alerts/alert/add/", {**given, **empty, "least_calls": "20"})
    assert "10 USD or more spent within 1 hour" in operator.get("/admin/alerts/alert/").content.decode()
