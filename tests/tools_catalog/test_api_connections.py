"""/api/connections: read and written; those that run a program by people who may start programs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sessions_app import bus
from sessions_app.models import BusEvent
from tests.factories import LaunchProfileFactory, McpConnectionFactory
from tests.rest import by_key, by_person, error_of
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.models import McpConnection

pytestmark = pytest.mark.django_db

WORDS = {"slug": "tickets", "transport": "streamable-http", "url": "https://mcp.example.org/mcp"}


@pytest.fixture
def api():
    return by_key("catalog:write")


def test_a_connection_is_added_and_read(api):
    made = api.post(
        "/api/connections/", {**WORDS, "headers": {"X-Key": "{secret:TICKETS}"}}, content_type="application/json"
    )
    assert made.status_code == 201, made.content
    shown = api.get("/api/connections/tickets/").json()
    assert (shown["status"], shown["policy"], shown["prefix"]) == ("disconnected", "hold_all", "tickets_")
    assert shown["headers"] == {"X-Key": "{secret:TICKETS}"}


def test_what_is_served_of_it_is_named(api):
    offer(McpConnectionFactory(slug="tickets", policy="trust"), definition("find"))
    assert api.get("/api/connections/tickets/").json()["available_tools"] == ["find"]


def test_since_when_it_stands_and_when_it_was_used_is_told_of_all_processes(api):
    row = McpConnectionFactory(slug="tickets")
    shown = api.get("/api/connections/tickets/").json()
    assert (shown["connected_at"], shown["last_used"]) == (None, None)
    moment = datetime(2026, 11, 1, 12, tzinfo=UTC)
    first, second = moment + timedelta(minutes=1), moment + timedelta(minutes=2)
    row.links.create(process_id="a", status="connected", connected_at=first, last_used_at=second)
    row.links.create(
        process_id="b", status="connected", connected_at=second, last_used_at=None, restarts=2, reconnected_at=second
    )
    row.links.create(process_id="c", status="disconnected", connected_at=moment, last_used_at=first)
    shown = api.get("/api/connections/tickets/").json()
    assert (shown["connected_at"], shown["last_used"]) == ("2026-11-01T12:01:00Z", "2026-11-01T12:02:00Z")
    assert (shown["reconnects"], shown["reconnected_at"]) == (2, "2026-11-01T12:02:00Z")


def test_the_last_error_stays_while_the_hub_tries_again(api):
    row = McpConnectionFactory(slug="tickets")
    for status, error in (("error", "Nobody is there."), ("connecting", "Nobody is there."), ("connected", "")):
        row.links.all().delete()
        row.links.create(process_id="a", status=status, error_message=error)
        shown = api.get("/api/connections/tickets/").json()
        assert (shown["status"], shown["error_message"]) == (status, error)


def test_the_era_of_a_server_may_be_named(api):
    made = api.post("/api/connections/", {**WORDS, "era": "handshake"}, content_type="application/json")
    assert (made.status_code, made.json()["era"]) == (201, "handshake")
    over_sse = {"transport": "sse", "slug": "events", "era": "stateless"}
    refused = api.post("/api/connections/", {**WORDS, **over_sse}, content_type="application/json")
    assert "HTTP+SSE" in str(error_of(refused, 409, "conflict"))


def test_what_was_learned_of_a_server_counts_for_the_same_address_only():
    row = McpConnectionFactory(slug="tickets")
    McpConnection.objects.note_unprobed(row.spec(), "old 1.0 beta")
    row.refresh_from_db()
    assert row.spec().unprobed == "old 1.0 beta"
    row.url += "/other"
    assert row.spec().unprobed == ""
    row.refresh_from_db()
    McpConnection.objects.note_unprobed(row.spec(), "")
    row.refresh_from_db()
    assert row.spec().unprobed == ""


def test_no_key_makes_a_connection_that_runs_a_program(api):
    profile = LaunchProfileFactory()
    asked = (({}, 403), ({"profile": profile.name}, 403), ({"command": "/bin/sh", "args": ["-c", "true"]}, 400))
    for more, status in asked:
        answer = api.post(
            "/api/connections/", {"slug": "sh", "transport": "stdio", **more}, content_type="application/json"
        )
        assert answer.status_code == status, more
    assert not McpConnection.objects.exists()


def test_a_transport_is_not_switched_by_editing_a_field(api):
    McpConnectionFactory(slug="tickets")
    for words, status in (({"transport": "stdio"}, 403), ({"transport": "sse"}, 409), ({"slug": "other"}, 409)):
        answer = api.patch("/api/connections/tickets/", words, content_type="application/json")
        assert answer.status_code == status, words
    assert McpConnection.objects.get().transport == "streamable-http"


def test_a_connection_that_runs_a_program_is_changed_by_no_key(api):
    McpConnectionFactory(slug="sh", transport="stdio", url="", profile=LaunchProfileFactory())
    for words in ({"enabled": False}, {"title": "x"}):
        error_of(api.patch("/api/connections/sh/", words, content_type="application/json"), 403, "forbidden")
    assert McpConnection.objects.get().enabled


def test_people_who_may_start_programs_write_connections_that_run_one():
    LaunchProfileFactory(name="git")
    words = {"slug": "git", "transport": "stdio", "profile": "git"}
    rights = [f"tools_catalog.{deed}_mcpconnection" for deed in ("view", "add", "change")]
    without = by_person(*rights, is_staff=True)
    error_of(without.post("/api/connections/", words, content_type="application/json"), 403, "forbidden")
    manager = by_person(*rights, "tools_catalog.launch_mcpconnection", username="manager", is_staff=True)
    made = manager.post("/api/connections/", words, content_type="application/json")
    assert (made.status_code, made.json()["profile"]) == (201, "git"), made.content
    off = {"enabled": False}
    error_of(without.patch("/api/connections/git/", off, content_type="application/json"), 403, "forbidden")
    assert manager.patch("/api/connections/git/", off, content_type="application/json").status_code == 200
    assert not McpConnection.objects.get().enabled


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "http://10.0.0.1/"),
        ("url", "https://user:pass@example.org/"),
        ("headers", {"Host": "x"}),
        ("headers", {"X": "{argument}"}),
        ("headers", {"X": "a\nb"}),
        ("slug", "Ä"),
        ("policy", "all"),
    ],
)
def test_what_is_not_safe_is_refused_with_its_field(field, value, api):
    answer = api.post("/api/connections/", {**WORDS, field: value}, content_type="application/json")
    assert answer.status_code == (400 if field in ("slug", "policy") else 409)
    assert field in answer.content.decode()


def test_nothing_is_deleted(api):
    McpConnectionFactory(slug="tickets")
    error_of(api.delete("/api/connections/tickets/"), 405, "method_not_allowed")


def test_a_key_without_the_scope_reads_nothing():
    error_of(by_key("tools:list").get("/api/connections/"), 403, "forbidden")


# Tried and listed again -----------------------------------------------------------------------------------


def test_a_connection_is_tried_step_by_step(api):
    McpConnectionFactory(slug="away", url="https://mcp.invalid/mcp")
    told = api.post("/api/connections/away/test/").json()
    assert told["is_good"] is False
    assert [(step["kind"], step["is_good"]) for step in told["steps"]][-1][1] is False
    assert told["steps"][-1]["outcome"]


def test_a_connection_is_asked_anew_what_it_offers(api):
    McpConnectionFactory(slug="tickets")
    answer = api.post("/api/connections/tickets/refresh/")
    assert (answer.status_code, answer.json()["slug"]) == (202, "tickets")
    assert BusEvent.objects.filter(subject=bus.UPSTREAM_REFRESH, payload="tickets").exists()


@pytest.mark.parametrize("deed", ["test", "refresh"])
def test_no_key_reaches_what_runs_a_program(api, deed):
    McpConnectionFactory(slug="here", transport="stdio", url="", profile=LaunchProfileFactory())
    error_of(api.post(f"/api/connections/here/{deed}/"), 403, "forbidden")
    error_of(by_key("tools:list").post(f"/api/connections/here/{deed}/"), 403, "forbidden")
    assert not BusEvent.objects.filter(subject=bus.UPSTREAM_REFRESH).exists()


@pytest.mark.parametrize(
    "names",
    [
        ["io.modelcontextprotocol/ui"],
        ["mcphub/x"],
        ["com.example/a b"],
        ["com.example/a/b"],
        ["com.example/ä"],
        [f"com.example/{number}" for number in range(21)],
    ],
)
def test_extensions_that_cannot_pass_are_refused(api, names):
    refused = api.post("/api/connections/", {**WORDS, "extensions": names}, content_type="application/json")
    assert "extensions" in error_of(refused, 409, "conflict")["details"]["fields"]


@pytest.mark.parametrize("names", [[""], [None], [1], [["a"]], {"com.example/a": {}}, "com.example/a"])
def test_extensions_are_a_list_of_names(api, names):
    refused = api.post("/api/connections/", {**WORDS, "extensions": names}, content_type="application/json")
    (field,) = error_of(refused, 400, "invalid_params")["details"]["fields"]
    assert field.startswith("extensions")


def test_extensions_of_vendors_are_kept_as_named(api):
    names = ["com.example/search", "openai/visibility", "plain"]
    row = McpConnectionFactory(slug="tickets", extensions=names)
    assert api.get("/api/connections/tickets/").json()["extensions"] == names
    McpConnection.objects.note_declared(row.spec(), {"extensions": {"plain": {"a": 1}, "com.example/gone": {}}})
    row.refresh_from_db()
    assert [each.name for each in row.spec().declares] == ["plain"]
