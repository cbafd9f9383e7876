"""Quotas as rows: what is refused, events, the second person, REST, bundles, the command line, the console."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import translation

from mcphub.cli import main
from mcphub.features.notifications import noticing, sources
from mcphub.features.notifications.catalogue import words_of
from mcphub.features.notifications.models import Notice
from mcphub.features.quotas import usage
from mcphub.features.quotas.load import load_quotas
from mcphub.features.quotas.models import McpQuota, QuotaCount
from mcphub.features.quotas.quota import Charge, quotas_of
from mcphub.features.quotas.rules import SUBJECT
from mcphub.process import loading
from sessions_app import bus
from sessions_app.history.models import WaitingChange
from sessions_app.keys.naming import names_of
from sessions_app.models import ApiKey, AuditEvent
from tests.factories import ApiKeyFactory, GroupFactory, McpToolDefinitionFactory, UserFactory
from tests.rest import by_key, by_person, error_of
from tools_catalog.bundles import bundle

pytestmark = pytest.mark.django_db
LIST = "/api/quotas/"
PERMISSIONS = [f"invocations.{what}_mcpquota" for what in ("view", "add", "change", "delete")]


def a_quota(**fields: Any) -> McpQuota:
    row: McpQuota = McpQuota.objects.create(**{"name": "daily", "hard_limit": 10, **fields})
    return row


def count(row: McpQuota, subject: str, used: int, *, ago: int = 0) -> None:
    charge = Charge(row.compiled(), subject, 1)
    window = charge.window(time.time() - ago)
    QuotaCount.objects.create(
        key=charge.key(window),
        quota=row,
        unit=row.unit,
        subject=subject,
        begins=window.begins,
        ends=window.ends,
        used=used,
    )


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"hard_limit": None}, "hard_limit"),
        ({"soft_limit": 11}, "soft_limit"),
        ({"hard_limit": 0}, "hard_limit"),
        ({"hard_limit": -1}, "hard_limit"),
        ({"soft_limit": 10**16, "hard_limit": None}, "soft_limit"),
        ({"per": "tool"}, "per"),
        ({"unit": "seconds"}, "unit"),
        ({"period": "year"}, "period"),
        ({"name": "Not so"}, "name"),
        ({"name": "usage"}, "name"),
        ({"applies_to": "tool"}, "target"),
        ({"target": "x"}, "target"),
        ({"applies_to": "toolset", "target": "nowhere"}, "target"),
        ({"provider": "openai"}, "provider"),
        ({"unit": "money", "provider": "Not so"}, "provider"),
        ({"unit": "tokens", "applies_to": "tool", "target": "pay"}, "applies_to"),
        ({"unit": "money", "applies_to": "connection", "target": "crm"}, "applies_to"),
    ],
)
def test_a_quota_that_cannot_be_is_refused_at_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        McpQuota(**{"name": "daily", "hard_limit": 10, **fields}).full_clean()
    assert field in refused.value.message_dict


def test_a_quota_is_about_one_person_or_key_or_group() -> None:
    with pytest.raises(ValidationError, match="covers one person") as refused:
        McpQuota(name="both", hard_limit=1, person=UserFactory(), group=GroupFactory()).full_clean()
    assert list(refused.value.message_dict) == ["group"]


@pytest.mark.parametrize(
    "fields",
    [
        {"hard_limit": None},
        {"soft_limit": 11},
        {"unit": "second"},
        {"per": "tool"},
        {"period": "year"},
        {"unit": "bytes", "provider": "openai"},
        {"unit": "money", "applies_to": "tool", "target": "pay"},
    ],
)
def test_the_database_takes_none_either(fields: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        a_quota(**fields)


def test_each_edit_is_an_event_and_wakes_the_processes() -> None:
    row = a_quota()
    row.hard_limit = 5
    row.save()
    row.delete()
    kinds = list(AuditEvent.objects.filter(kind__startswith="quota.").order_by("pk").values_list("kind", flat=True))
    assert kinds == ["quota.created", "quota.changed", "quota.deleted"]
    changed = AuditEvent.objects.get(kind="quota.changed")
    assert (changed.before, changed.after) == ({"hard_limit": 10}, {"hard_limit": 5})


def test_a_changed_quota_is_read_into_the_configuration() -> None:
    a_quota(person=UserFactory())
    known = loading.first_configuration()
    assert [rule.name for rule in quotas_of(known).rules] == ["daily"]
    McpQuota.objects.get().delete()
    a_quota(name="off", enabled=False)
    assert not loading.changes(known, {SUBJECT})["additions"][SUBJECT]
    assert SUBJECT in bus.followed()


def test_toolsets_are_known_to_quotas() -> None:
    a_quota(applies_to="connection", target="desk")
    (rule,) = load_quotas(loading.first_configuration().catalog).rules
    assert (rule.applies_to, rule.target) == ("connection", "desk")


# The second person ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "is_held"),
    [
        ({"hard_limit": 11}, True),
        ({"hard_limit": None, "soft_limit": 5}, True),
        ({"enabled": False}, True),
        ({"per": "key"}, True),
        ({"period": "minute"}, True),
        ({"unit": "bytes"}, True),
        ({"unit": "tokens", "provider": "openai"}, True),
        ({"applies_to": "tool", "target": "pay"}, True),
        ({"hard_limit": 9}, False),
        ({"soft_limit": 3}, False),
        ({"words": "Ask Ann."}, False),
    ],
)
def test_a_quota_in_force_is_loosened_by_two_persons(change: dict[str, Any], is_held: bool) -> None:
    a_quota()
    answer = by_person(*PERMISSIONS).patch(f"{LIST}daily/", change, "application/json")
    assert answer.status_code == (202 if is_held else 200), answer.json()
    assert WaitingChange.objects.exists() == is_held
    row = McpQuota.objects.get()
    held = [name for name, value in change.items() if getattr(row, name) != value and name != "soft_limit"]
    assert bool(held) == is_held


def test_one_that_is_off_is_anybodys() -> None:
    a_quota(enabled=False)
    answer = by_person(*PERMISSIONS).patch(f"{LIST}daily/", {"hard_limit": 100}, "application/json")
    assert answer.status_code == 200
    assert answer.json()["hard_limit"] == 100


# REST ----------------------------------------------------------------------------------------------


def test_quotas_are_made_changed_and_removed_over_rest() -> None:
    client = by_key("catalog:write", "tools:list")
    UserFactory(username="ann")
    given = {"name": "anns", "person": "ann", "unit": "bytes", "period": "month", "soft_limit": 5, "hard_limit": 9}
    made = client.post(LIST, {**given, "reason": "agreed"}, "application/json")
    assert made.status_code == 201, made.json()
    assert {name: made.json()[name] for name in given} == given
    assert made.json()["key"] is None
    assert "agreed" in AuditEvent.objects.get(kind="quota.created").reason
    assert [row["name"] for row in client.get(LIST).json()["results"]] == ["anns"]
    assert client.get(f"{LIST}?period=day").json()["results"] == []
    changed = client.patch(f"{LIST}anns/", {"hard_limit": 8}, "application/json")
    assert changed.json()["hard_limit"] == 8
    McpQuota.objects.update(enabled=False)
    assert client.delete(f"{LIST}anns/").status_code == 204
    assert client.get(f"{LIST}anns/").status_code == 404


@pytest.mark.parametrize(
    ("given", "status", "field"),
    [
        ({"name": "x"}, 409, "hard_limit"),
        ({"name": "x", "hard_limit": "5"}, 400, "hard_limit"),
        ({"name": "x", "hard_limit": 0}, 400, "hard_limit"),
        ({"name": "x", "hard_limit": 1.5}, 400, "hard_limit"),
        ({"name": "x", "hard_limit": True}, 400, "hard_limit"),
        ({"name": "x", "hard_limit": 10**16}, 400, "hard_limit"),
        ({"name": "x", "hard_limit": 5, "person": "nobody"}, 409, "person"),
        ({"name": "x", "hard_limit": 5, "per": "planet"}, 400, "per"),
        ({"name": "x", "hard_limit": 5, "colour": "red"}, 400, "colour"),
        ({"name": "x\x00", "hard_limit": 5}, 400, "name"),
        ({"name": "x", "hard_limit": 5, "applies_to": "tool"}, 409, "target"),
    ],
)
def test_bad_input_is_refused_at_its_field(given: dict[str, Any], status: int, field: str) -> None:
    answer = by_key("catalog:write").post(LIST, given, "application/json")
    code = "invalid_params" if status == 400 else "conflict"
    assert field in error_of(answer, status, code)["details"]["fields"]


def test_one_in_force_is_not_removed_by_one_person() -> None:
    a_quota()
    error_of(by_person(*PERMISSIONS).delete(f"{LIST}daily/"), 409, "conflict")
    assert McpQuota.objects.exists()


def test_who_may_not_write_the_catalogue_reads_none() -> None:
    assert by_key("tools:list").get(LIST).status_code == 403
    assert by_key("tools:list").get(f"{LIST}usage/").status_code == 403


def test_usage_names_who_is_near_what_the_fullest_first() -> None:
    daily, minute = a_quota(soft_limit=5), a_quota(name="size", unit="bytes", period="month", hard_limit=1000)
    person, key = UserFactory(username="ann"), ApiKeyFactory(name="bot")
    count(daily, f"user:{person.pk}", 6)
    count(daily, f"key:{key.pk}", 2)
    count(daily, "user:999", 9, ago=2 * 86400)
    count(minute, "all", 1000)
    found = by_key("catalog:write").get(f"{LIST}usage/").json()["uses"]
    told = [(use["quota"], use["name"], use["used"], use["state"]) for use in found]
    assert told == [("size", "", 1000, "refuses"), ("daily", "ann", 6, "warns"), ("daily", "bot", 2, "open")]
    assert [use["quota"] for use in by_key("catalog:write").get(f"{LIST}usage/?quota=size").json()["uses"]] == ["size"]
    for wrong in ("quota=a%00b", "quota=", "quota=a&quota=b", "nothing=1"):
        assert by_key("catalog:write").get(f"{LIST}usage/?{wrong}").status_code == 400, wrong
    McpQuota.objects.filter(name="daily").update(period="hour")
    assert [use.quota for use in usage.uses()] == ["size"]


def test_old_sums_are_removed() -> None:
    row = a_quota()
    count(row, "user:1", 3)
    count(row, "user:1", 3, ago=40 * 86400)
    assert usage.purge() == 1
    assert QuotaCount.objects.count() == 1


# Notices -------------------------------------------------------------------------------------------


def test_from_the_soft_limit_on_one_notice_tells_of_a_subject_and_window() -> None:
    row, person = a_quota(soft_limit=5), UserFactory(username="ann")
    count(row, f"user:{person.pk}", 4)
    sources.reconcile(sources.states(), sources.STATES)
    assert not Notice.objects.filter(kind="budget.near").exists()
    for used in (5, 7, 10):
        QuotaCount.objects.update(used=used)
        sources.reconcile(sources.states(), sources.STATES)
    notice = Notice.objects.get(kind="budget.near")
    assert (notice.facts["caller"], notice.facts["quota"], notice.ended_at) == ("ann", "daily", None)
    QuotaCount.objects.update(begins=0, ends=1)  # the window is over
    sources.reconcile(sources.states(), sources.STATES)
    assert Notice.objects.get(kind="budget.near").ended_at is not None


def test_a_sum_that_refuses_is_told_as_used_up_with_and_without_a_soft_limit() -> None:
    for name, soft in (("hard", None), ("both", 5)):
        count(a_quota(name=name, soft_limit=soft), "user:1", 10)
    sources.reconcile(sources.states(), sources.STATES)
    found = Notice.objects.order_by("kind", "pk").values_list("kind", "facts")
    assert sorted((kind, facts["quota"]) for kind, facts in found) == [
        ("budget.near", "both"),
        ("budget.spent", "both"),
        ("budget.spent", "hard"),
    ]
    told = words_of("budget.spent", found.filter(kind="budget.spent")[0][1])
    assert "10 of 10" in told


def test_the_person_whom_a_quota_stops_reads_of_it_without_a_right_and_nobody_else_does() -> None:
    ann, bob = UserFactory(username="ann"), UserFactory(username="bob")
    key, _text = ApiKey.issue("of ann", owner=ann)
    for name, per, subject in (
        ("person", "person", f"user:{ann.pk}"),
        ("key", "key", f"key:{key.pk}"),
        ("all", "all", "all"),
    ):
        count(a_quota(name=name, per=per), subject, 10)
    sources.reconcile(sources.states(), sources.STATES)
    told = noticing.visible_to(ann).filter(kind="budget.spent")
    assert sorted(notice.facts["quota"] for notice in told) == ["key", "person"]
    assert not noticing.visible_to(bob).exists()


# What people see of their own ----------------------------------------------------------------------


def own(person: User) -> list[tuple[str, str, int, str]]:
    return [(use.quota, use.label or use.subject, use.used, use.state) for use in usage.of_person(person)]


def test_a_person_sees_what_counts_them_their_keys_and_their_groups() -> None:
    ann, bob, staff = UserFactory(username="ann"), UserFactory(username="bob"), GroupFactory(name="staff")
    ann.groups.add(staff)
    key, _text = ApiKey.issue("of ann", owner=ann)
    ApiKey.issue("of bob", owner=bob)
    each = a_quota(name="each", soft_limit=5)
    count(each, f"user:{ann.pk}", 6)
    count(each, f"user:{bob.pk}", 10)
    count(a_quota(name="keys", per="key"), f"key:{key.pk}", 10)
    count(a_quota(name="groups", per="group"), f"group:{staff.pk}", 1)
    a_quota(name="others", person=bob)
    a_quota(name="off", enabled=False)
    assert own(ann) == [
        ("keys", "of ann", 10, "refuses"),
        ("each", "ann", 6, "warns"),
        ("groups", "staff", 1, "open"),
        ("keys", "ann", 0, "open"),
    ]
    assert ("others", "bob", 0, "open") in own(bob)


def test_without_quotas_nothing_more_is_asked_for_a_person(django_assert_num_queries: Any) -> None:
    person = UserFactory()
    with django_assert_num_queries(1):
        assert usage.of_person(person) == []


def test_names_of_subjects_are_one_statement(django_assert_num_queries: Any) -> None:
    person, key, group = UserFactory(username="ann"), ApiKeyFactory(name="bot"), GroupFactory(name="staff")
    subjects = [f"user:{person.pk}", f"key:{key.pk}", f"group:{group.pk}", "all", "user:x", "user:999999"]
    with django_assert_num_queries(1):
        assert names_of(subjects) == dict(zip(subjects, ["ann", "bot", "staff"], strict=False))
    with django_assert_num_queries(0):
        assert names_of(["all"]) == {}


# Bundles -------------------------------------------------------------------------------------------


def test_quotas_come_and_go_in_bundles() -> None:
    a_quota(
        group=GroupFactory(name="staff"),
        applies_to="tool",
        target="pay.*",
        soft_limit=5,
        words="Ask Ann.",
        period="month",
    )
    a_quota(name="keys", key=ApiKeyFactory(), per="all", unit="bytes", enabled=False)
    dumped = bundle.dump()
    assert dumped["quotas"][0]["group"] == "staff"
    McpQuota.objects.all().delete()
    report = bundle.load({"format": bundle.FORMAT, "quotas": dumped["quotas"]}, reason="from a file")
    assert report.created == ["daily", "keys"], report.refused
    assert bundle.dump()["quotas"] == dumped["quotas"]
    again = bundle.load({"format": bundle.FORMAT, "quotas": dumped["quotas"]}, reason="from a file")
    assert (again.created, again.changed, again.unchanged) == ([], [], ["daily", "keys"])


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"hard_limit": 1}, "name: it is missing."),
        ({"name": "x", "hard_limit": True}, "hard_limit: it must be a number."),
        ({"name": "x", "hard_limit": 1, "person": "nobody"}, "person: there is no 'nobody' here."),
        ({"name": "x", "hard_limit": 1, "colour": "red"}, "colour: a quota has no such member."),
        ({"name": "x"}, "Enter a warning threshold"),
        (["x"], "it must be an object."),
    ],
)
def test_a_wrong_entry_of_a_bundle_says_what_is_wrong(entry: Any, words: str) -> None:
    report = bundle.load({"format": bundle.FORMAT, "quotas": [entry]}, reason="r")
    assert words in report.refused[0][1]
    assert not McpQuota.objects.exists()


# The command line ----------------------------------------------------------------------------------


def test_the_command_lists_and_tells_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quota", "list"]) == 0
    assert "There are no quotas." in capsys.readouterr().out
    row = a_quota(group=Group.objects.create(name="staff"))
    count(row, "user:1", 4)
    assert main(["quota", "list"]) == 0
    assert "refuses from 10 calls a day" in capsys.readouterr().out
    assert main(["quota", "usage"]) == 0
    assert "40 %  daily  user:1" in capsys.readouterr().out
    assert main(["quota", "usage", "nothing"]) == 1
    assert main(["quota", "usage", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["uses"][0]["used"] == 4


def test_the_command_says_whether_a_call_would_be_refused(capsys: pytest.CaptureFixture[str]) -> None:
    McpToolDefinitionFactory(name="pay")
    person: User = UserFactory(username="ann")
    key: ApiKey = ApiKeyFactory(owner=person)
    row = a_quota(applies_to="tool", target="p*")
    count(row, f"user:{person.pk}", 10)
    assert main(["quota", "test", "pay", "--person", "ann"]) == 1
    assert "would be refused now" in capsys.readouterr().out
    assert main(["quota", "test", "pay", "--key", key.prefix]) == 1
    assert main(["quota", "test", "pay", "--json"]) == 0
    assert '"used": 0' in capsys.readouterr().out
    for words in (["nothing"], ["pay", "--person", "nobody"], ["pay", "--key", "nobody"]):
        assert main(["quota", "test", *words]) == 1


# The console ---------------------------------------------------------------------------------------


def test_a_sum_of_money_says_its_currency_what_was_estimated_and_what_had_no_price(
    admin_client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    row = a_quota(unit="money", hard_limit=20_000_000, provider="openai")
    count(row, "user:1", 12_345_678)
    QuotaCount.objects.update(estimated=345_678, unpriced=2)
    page = admin_client.get("/admin/invocations/mcpquota/usage/").content.decode()
    for words in ("12.35 USD", "20.00 USD", "0.35 USD of it estimated", "no price for 2 model requests"):
        assert words in page
    (told,) = by_key("catalog:write").get(f"{LIST}usage/").json()["uses"]
    assert (told["used"], told["currency"], told["estimated"], told["unpriced"]) == (12_345_678, "USD", 345_678, 2)
    assert main(["quota", "usage"]) == 0
    assert "12.35 USD of 20.00 USD" in capsys.readouterr().out
    assert main(["quota", "list"]) == 0
    assert "refuses from 20.00 USD a day, per person, provider: openai" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("language", "words"), [("en", "has used 1,200 tokens of 1,500 tokens"), ("ru", "1 200 токенов")]
)
def test_a_notice_says_amounts_with_their_units_in_its_readers_language(language: str, words: str) -> None:
    facts = {"quota": "daily", "caller": "ann", "used": 1200, "limit": 1500, "unit": "tokens", "ends": "soon"}
    with translation.override(language):
        assert words in words_of("budget.near", facts).replace("\xa0", " ")


def test_the_console_shows_how_full_quotas_are_and_who_is_near_what(admin_client: Client) -> None:
    row, person = a_quota(soft_limit=5), UserFactory(username="<b>ann")
    count(row, f"user:{person.pk}", 6)
    page = admin_client.get("/admin/invocations/mcpquota/").content.decode()
    assert "60 % &lt;b&gt;ann" in page
    assert '<meter class="hub-share"' in page
    near = admin_client.get("/admin/invocations/mcpquota/usage/").content.decode()
    assert "&lt;b&gt;ann" in near
    assert "Near the limit" in near


def test_a_quota_is_made_in_the_console(admin_client: Client) -> None:
    given = {"name": "hourly", "unit": "calls", "period": "hour", "per": "person", "applies_to": "all", "enabled": "on"}
    page = admin_client.post("/admin/invocations/mcpquota/add/", given)
    assert page.context["adminform"].form.errors == {"hard_limit": ["Enter a warning threshold, a limit, or both."]}
    late = admin_client.post("/admin/invocations/mcpquota/add/", {**given, "soft_limit": "5", "hard_limit": "3"})
    assert late.context["adminform"].form.errors == {"soft_limit": ["The warning threshold must be below the limit."]}
    answer = admin_client.post("/admin/invocations/mcpquota/add/", {**given, "hard_limit": "100"})
    assert answer.status_code == 302, answer.content.decode()
    assert McpQuota.objects.get().hard_limit == 100


def test_limits_of_money_are_written_with_their_decimals(admin_client: Client) -> None:
    given = {"name": "monthly", "unit": "money", "period": "month", "per": "person", "applies_to": "all"}
    add = "/admin/invocations/mcpquota/add/"
    answer = admin_client.post(add, {**given, "soft_limit": "0.01", "hard_limit": "25.5"})
    assert answer.status_code == 302, answer.content.decode()
    row = McpQuota.objects.get()
    assert (row.soft_limit, row.hard_limit) == (10_000, 25_500_000)
    page = admin_client.get(f"/admin/invocations/mcpquota/{row.pk}/change/")
    assert str(page.context["adminform"].form["hard_limit"].value()) == "25.5"
    part = admin_client.post(add, {**given, "name": "tokens", "unit": "tokens", "hard_limit": "25.5"})
    assert part.context["adminform"].form.errors == {"hard_limit": ["Enter a whole number. Only money has decimals."]}
    of_tool = admin_client.post(
        add, {**given, "name": "x", "unit": "tokens", "hard_limit": "5", "applies_to": "tool", "target": "pay"}
    )
    assert "not by tools" in of_tool.context["adminform"].form.errors["applies_to"][0]


def test_an_operator_removes_a_quota_that_is_off_and_none_in_force() -> None:
    row = a_quota()
    person = UserFactory(is_staff=True)
    person.groups.add(Group.objects.get(name="Operator"))
    client = Client()
    client.force_login(person)
    address = f"/admin/invocations/mcpquota/{row.pk}"
    assert client.get(f"{address}/delete/").status_code == 403
    assert 'name="hard_limit"' in client.get(f"{address}/change/").content.decode()
    McpQuota.objects.update(enabled=False)
    assert client.get(f"{address}/delete/").status_code == 200
    assert client.post(f"{address}/delete/", {"post": "yes"}).status_code == 302
    assert not McpQuota.objects.exists()
