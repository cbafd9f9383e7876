"""What comes from an upstream: kept once, in bounds, and approved on the page, over REST and by the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mcphub.cli import main
from mcphub.features.events import arguments, doctor, offers, sweeping, taking
from mcphub.features.events.arguments import ArgumentsMisfit
from mcphub.features.events.models import EventSource, Occurrence, UpstreamEvent
from mcphub.features.events.taking import LeaseLost, Taken
from mcphub.features.notifications import noticing
from sessions_app.history.events import on_the_machine
from sessions_app.history.models import AuditEvent
from tests.features.events.upstream import CITIES, event, event_type
from tests.rest import by_key, by_person, error_of
from tools_catalog.models import McpConnection

pytestmark = pytest.mark.django_db
LIST = "/api/upstream-events/"


@pytest.fixture
def row() -> UpstreamEvent:
    connection = McpConnection(slug="shop", prefix="shop.", transport="streamable-http", url="https://shop.example/mcp")
    connection.save()
    EventSource.objects.create(connection=connection)
    offers.reconcile(connection.pk, offers.read([event_type("paid", "webhook", "poll")]))
    return UpstreamEvent.objects.get()


@pytest.fixture
def approved(row: UpstreamEvent) -> UpstreamEvent:
    UpstreamEvent.objects.update(approved=row.offered)
    EventSource.objects.update(leased_by="me", leased_until=timezone.now() + timedelta(hours=1))
    row.refresh_from_db()
    return row


def test_types_that_cannot_be_received_are_no_offers() -> None:
    entries = [
        event_type("good", "push", "poll"),
        event_type("letters", "post"),
        event_type("shop/of another", "poll"),
        event_type("asks", "poll", inputSchema={"type": "string"}),
        event_type("odd", "poll", payloadSchema={"type": "no type"}),
        "none",
    ]
    for entry in entries[1:]:
        assert offers.read([entry]).definitions == {}
        assert offers.read([entry]).problem
    found = offers.read(entries * 2)
    assert list(found.definitions) == ["good"]
    many = offers.read([event_type(f"e{number}", "poll") for number in range(offers.MOST_TYPES + 1)])
    assert (len(many.definitions), many.problem) == (100, "The hub takes 100 types of events.")


@pytest.mark.parametrize(
    ("schema", "is_kept"),
    [
        ({"type": "object"}, False),
        ({"type": "object", "properties": {}, "required": [], "additionalProperties": False}, False),
        ({"type": "object", "properties": {"city": {"type": "string"}}}, True),
        ({"type": "object", "additionalProperties": {"type": "string"}}, True),
        (CITIES, True),
    ],
)
def test_a_definition_has_the_schema_of_its_arguments_where_it_takes_some(schema: Any, is_kept: bool) -> None:
    definition = offers.read([event_type("near", "poll", inputSchema=schema)]).definitions["near"]
    assert definition.get("inputSchema") == (schema if is_kept else None)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "city"),
        ({"city": 7}, "city"),
        ({"city": "x"}, "city"),
        (["Berlin"], "JSON object"),
        ({"city": "x" * 9000}, "8192 bytes"),
        ({"city": "Berlin"}, ""),
    ],
)
def test_arguments_that_do_not_fit_name_the_field(given: Any, named: str) -> None:
    definition = offers.read([event_type("near", "poll", inputSchema=CITIES)]).definitions["near"]
    found = arguments.problem(definition, given)
    assert (named in found) if named else not found
    none = offers.read([event_type("paid", "poll")]).definitions["paid"]
    assert arguments.problem(none, {}) == ""
    assert arguments.problem(none, {"city": "Berlin"}) == "paid takes no arguments."


def test_the_page_of_a_type_approves_and_stops_it(row: UpstreamEvent, log_in: Callable[..., Any]) -> None:
    offers.reconcile(row.connection_id, offers.read([event_type("near", "poll", inputSchema=CITIES)]))
    near = UpstreamEvent.objects.get()
    page, place = log_in("Operator"), f"/admin/events/upstreamevent/{near.pk}/"
    shown = page.get(f"{place}change/").content.decode()
    assert (f"{place}approve-it/" in shown, f"{place}stop-it/" in shown) == (True, True)
    asked = page.get(f"{place}approve-it/").content.decode()
    assert ('name="given"' in asked, "Approve 1 upstream event?" in asked) == (True, True)
    page.post(f"{place}approve-it/", {"confirmed": "yes", "given": '{"city": "Berlin"}'}, follow=True)
    assert UpstreamEvent.objects.get().state == "on"
    page.post(f"{place}stop-it/", {"confirmed": "yes"}, follow=True)
    assert UpstreamEvent.objects.get().state == "waits"
    auditor = log_in("Auditor")
    assert f"{place}approve-it/" not in auditor.get(f"{place}change/").content.decode()
    assert auditor.post(f"{place}approve-it/", {"confirmed": "yes"}).status_code == 403


def test_arguments_are_given_on_the_page_over_rest_and_by_the_command(
    row: UpstreamEvent, log_in: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    offers.reconcile(row.connection_id, offers.read([event_type("near", "poll", inputSchema=CITIES)]))
    near, berlin, paris = UpstreamEvent.objects.get(), {"city": "Berlin"}, {"city": "Paris"}

    def now() -> tuple[str, Any]:
        found = UpstreamEvent.objects.get()
        return found.state, found.arguments

    page, address = log_in("Operator"), "/admin/events/upstreamevent/"
    chosen = {"_selected_action": near.pk, "action": "approve_selected"}
    asked = page.post(address, chosen).content.decode()
    assert 'name="given"' in asked
    assert "minLength" in asked
    refused = page.post(address, {**chosen, "confirmed": "yes", "given": '{"city": 7}'}).content.decode()
    assert "The arguments do not fit. `city` must be" in refused
    assert now() == ("waits", {})
    page.post(address, {**chosen, "confirmed": "yes", "given": json.dumps(berlin)}, follow=True)
    assert now() == ("on", berlin)
    person = by_person("events.view_upstreamevent", "tools_catalog.approve_mcpupstreamtool")
    approve = f"{LIST}{near.pk}/approve/"
    wrong = person.post(approve, {"arguments": {"town": "Paris"}}, content_type="application/json")
    assert "city" in json.dumps(error_of(wrong, 400, "invalid_params"))
    UpstreamEvent.objects.update(cursor='"c5"')
    answer = person.post(approve, {"arguments": paris}, content_type="application/json").json()
    assert (answer["arguments"], answer["state"]) == (paris, "on")
    assert UpstreamEvent.objects.get().cursor == ""
    error_of(person.post(approve, {}, content_type="application/json"), 409, "conflict")
    for wrong_words in ("{", "[]", '{"city": 7}'):
        assert main(["event", "approve", "shop/near", "--arguments", wrong_words]) != 0
        assert "rguments" in capsys.readouterr().err
    assert main(["event", "approve", "shop/near", "--arguments", json.dumps(berlin)]) == 0
    assert now() == ("on", berlin)
    kept = AuditEvent.objects.filter(kind="upstream_event.approved").order_by("-pk").first()
    assert kept is not None
    assert (kept.before["arguments"], kept.after["arguments"]) == (paris, berlin)


def test_a_schema_that_the_arguments_do_not_fit_any_more_waits_with_the_reason(row: UpstreamEvent) -> None:
    wider = {**CITIES, "properties": {"city": {"type": "string"}, "zone": {"type": "integer"}}}
    narrower = {**CITIES, "required": ["city", "zone"]}

    def listed(schema: Any) -> UpstreamEvent:
        offers.reconcile(row.connection_id, offers.read([event_type("near", "poll", inputSchema=schema)]))
        return UpstreamEvent.objects.get()

    with pytest.raises(ArgumentsMisfit, match="city"):
        offers.approve(listed(CITIES), on_the_machine(), "")
    assert offers.approve(listed(CITIES), on_the_machine(), "", {"city": "Berlin"})
    assert (listed(wider).state, listed(wider).trouble) == ("changed", "")
    changed = listed(narrower)
    assert changed.state == "changed"
    assert "zone" in changed.trouble
    assert [finding.level for finding in doctor.check()] == ["wrong"]
    with pytest.raises(ArgumentsMisfit, match="zone"):
        offers.approve(changed, on_the_machine(), "")
    assert offers.approve(changed, on_the_machine(), "", {"city": "Berlin", "zone": 3})
    assert (UpstreamEvent.objects.get().state, list(doctor.check())) == ("on", [])
    without = listed({"type": "object"})
    assert (without.state, without.trouble) == ("changed", "near takes no arguments.")
    assert offers.approve(without, on_the_machine(), "")
    assert (UpstreamEvent.objects.get().state, UpstreamEvent.objects.get().arguments) == ("on", {})


def test_an_answer_to_a_request_with_former_arguments_is_not_stored(approved: UpstreamEvent) -> None:
    UpstreamEvent.objects.update(arguments={"city": "Paris"})
    with pytest.raises(LeaseLost):
        taking.take("me", approved.pk, [event("paid", 1)], "c1", asked_with={"city": "Berlin"})
    assert taking.take("me", approved.pk, [event("paid", 1)], "c1", asked_with={"city": "Paris"}).stored == 1


def test_a_flood_is_cut_by_the_hour_with_a_notice_and_read_on_from_where_it_stood(approved: UpstreamEvent) -> None:
    EventSource.objects.update(hour_count=taking.MOST_AN_HOUR - 2)
    came: list[Any] = [event("paid", number) for number in range(5)]
    assert taking.take("me", approved.pk, came, "c5") == Taken(2, 0, 0, is_paused=True)
    approved.refresh_from_db()
    assert (approved.cursor, approved.gaps) == ("", 0)
    ((subject, facts),) = taking.flooding().items()
    assert (subject, facts["count"]) == ("shop", "5000")
    EventSource.objects.update(hour_began_at=timezone.now() - timedelta(hours=2))
    assert taking.take("me", approved.pk, came, "c5") == Taken(3, 2, 0)
    approved.refresh_from_db()
    assert json.loads(approved.cursor) == "c5"
    assert (Occurrence.objects.count(), taking.flooding()) == (5, {})


def test_a_worker_without_the_lease_stores_nothing(approved: UpstreamEvent) -> None:
    with pytest.raises(LeaseLost):
        taking.take("other", approved.pk, [event("paid", 1)], "c1")
    declaring = [approved.connection_id]
    assert taking.claim("other", declaring, declaring) == set()
    assert taking.claim("other", declaring, declaring, lambda process_id: process_id == "me") == set(declaring)
    with pytest.raises(LeaseLost):
        taking.take("me", approved.pk, [event("paid", 1)], "c1")
    assert taking.take("other", approved.pk, [event("paid", 1)], "c1").stored == 1
    assert Occurrence.objects.count() == 1


def test_events_of_an_upstream_push_out_none_of_the_hub(approved: UpstreamEvent) -> None:
    noticing.note("connection.changed", "shop", {"connection": "shop"})
    taking.take("me", approved.pk, [event("paid", number) for number in range(20)], "c")
    assert sweeping.purge(most=1) == 0
    noticing.note("connection.changed", "other", {"connection": "shop"})
    assert sweeping.purge(most=1) == 1
    assert Occurrence.objects.filter(name="connection.changed").count() == 1


def test_a_changed_definition_waits_and_one_that_is_gone_is_served_no_longer(approved: UpstreamEvent) -> None:
    changed = event_type("paid", "poll", payloadSchema={"type": "object"})
    offers.reconcile(approved.connection_id, offers.read([changed]))
    row = UpstreamEvent.objects.get()
    assert (row.state, row.approved) == ("changed", approved.approved)
    assert taking.take("me", row.pk, [event("paid", 1, data={})], "c").refused == 1
    offers.reconcile(approved.connection_id, offers.read([]))
    assert UpstreamEvent.objects.get().state == "gone"


def test_people_approve_and_stop_on_the_page_over_rest_and_by_the_command(
    row: UpstreamEvent, log_in: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    page = log_in("Operator")
    assert "shop/paid" in page.get("/admin/events/upstreamevent/").content.decode().replace("<wbr>", "")
    chosen = {"_selected_action": row.pk, "confirmed": "yes", "reason": "Ours."}
    page.post("/admin/events/upstreamevent/", {**chosen, "action": "approve_selected"}, follow=True)
    assert UpstreamEvent.objects.get().state == "on"
    assert page.get(f"/admin/events/upstreamevent/{row.pk}/change/").status_code == 200
    person = by_person("events.view_upstreamevent", "tools_catalog.approve_mcpupstreamtool")
    assert person.post(f"{LIST}{row.pk}/stop/", {}, content_type="application/json").json()["state"] == "waits"
    error_of(person.post(f"{LIST}{row.pk}/stop/", {}, content_type="application/json"), 409, "conflict")
    key = by_key("catalog:write")
    error_of(key.post(f"{LIST}{row.pk}/approve/", {}, content_type="application/json"), 403, "forbidden")
    assert key.get(LIST).json()["results"][0]["name"] == "shop/paid"
    assert main(["event", "approve", "shop/paid"]) == 0
    assert "is received from now on" in capsys.readouterr().out
    kinds = AuditEvent.objects.filter(kind__startswith="upstream_event.").order_by("pk").values_list("kind", "reason")
    assert list(kinds) == [
        ("upstream_event.approved", "Ours."),
        ("upstream_event.stopped", ""),
        ("upstream_event.approved", ""),
    ]
