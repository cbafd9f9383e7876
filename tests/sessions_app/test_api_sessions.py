"""/api/sessions/: who is connected, and how a session is closed."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from sessions_app import bus
from sessions_app.history.models import AuditEvent
from sessions_app.models import BusEvent, McpSession
from tests.factories import McpSessionFactory
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.django_db

LIST = "/api/sessions/"
VIEW = "sessions_app.view_mcpsession"
CHANGE = "sessions_app.change_mcpsession"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def auditor():
    return by_key("audit:read")


@pytest.fixture
def session():
    return McpSessionFactory(session_id="one")


def names(response):
    assert response.status_code == 200, response.content
    return [row["session_id"] for row in response.json()["results"]]


def close(client, name="one", **body):
    return client.patch(f"{LIST}{name}/", body or {"state": "closed"}, content_type="application/json")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["b", "a"]),
        ({"state": "initialized"}, ["a"]),
        ({"state": "created"}, ["b"]),
        ({"transport": "sse"}, ["b"]),
        ({"principal": "key:1"}, ["a"]),
        ({"client": "two"}, ["b"]),
        ({"implicit": "true"}, ["b"]),
        ({"implicit": "false"}, ["a"]),
        ({"implicit": "false", "client": "two"}, []),
    ],
)
def test_each_filter_finds_its_sessions(auditor, query, found):
    McpSessionFactory(session_id="a", client_name="one", principal="key:1", created_at=NOON)
    McpSessionFactory(
        session_id="b",
        client_name="two",
        principal="key:2",
        transport="sse",
        state="created",
        is_implicit=True,
        implicit_key="k",
        created_at=NOON + timedelta(hours=1),
    )
    assert names(auditor.get(LIST, query)) == found


@pytest.mark.parametrize(("name", "value"), [("state", "gone"), ("transport", "x"), ("implicit", "maybe")])
def test_a_bad_value_is_refused_by_its_field(auditor, name, value):
    error = error_of(auditor.get(LIST, {name: value}), 400, "invalid_params")
    assert list(error["details"]["fields"]) == [name]


def test_sessions_of_one_moment_are_paged_whole(auditor):
    for number in range(7):
        McpSessionFactory(session_id=f"s{number}", created_at=NOON)
    seen, url = [], f"{LIST}?limit=2"
    while url:
        page = auditor.get(url).json()
        seen += [row["session_id"] for row in page["results"]]
        McpSessionFactory()  # newer than the page
        url = page["next"]
    assert seen == [f"s{number}" for number in reversed(range(7))]


@pytest.mark.parametrize("moment", ["2026-03-01T12:00:00", "0001-01-01T00:00:00+23:59", "noon", ""])
def test_a_forged_cursor_is_refused(auditor, moment):
    cursor = base64.urlsafe_b64encode(json.dumps(["n", moment, "a"]).encode()).decode()
    error_of(auditor.get(LIST, {"cursor": cursor}), 404, "not_found")


def test_a_session_is_told_without_its_inner_key(auditor, session):
    body = auditor.get(f"{LIST}one").json()
    assert body["state"] == "initialized"
    assert "implicit_key" not in body


def test_closing_a_session_is_kept_and_told_to_every_process(session):
    response = close(by_key("catalog:write"))
    assert response.status_code == 204
    assert response.content == b""
    session.refresh_from_db()
    assert session.state == McpSession.State.CLOSED
    assert session.ended_at is not None
    assert "auditor" in session.end_reason
    assert BusEvent.objects.filter(subject=bus.SESSION_ENDED, payload="one").count() == 1
    event = AuditEvent.objects.get(kind="session.ended")
    assert (event.actor_label, event.subject_id, event.after) == ("auditor", "one", {"sessions": ["one"], "count": 1})


def test_closing_twice_changes_nothing_more(session):
    client = by_key("catalog:write")
    close(client)
    session.refresh_from_db()
    ended = session.ended_at
    assert close(client).status_code == 204
    session.refresh_from_db()
    assert session.ended_at == ended


@pytest.mark.parametrize("client_name", ["anonymous", "reader", "viewer"])
def test_reading_is_not_enough_to_close(session, client_name):
    client = {
        "anonymous": Client,
        "reader": lambda: by_key("audit:read", "tools:call"),
        "viewer": lambda: by_person(VIEW),
    }[client_name]()
    error_of(close(client), *((401, "unauthorized") if client_name == "anonymous" else (403, "forbidden")))
    session.refresh_from_db()
    assert session.state == McpSession.State.INITIALIZED


def test_a_person_with_the_permission_closes(session):
    assert close(by_person(CHANGE)).status_code == 204


def test_who_reads_sessions(session):
    error_of(Client().get(LIST), 401, "unauthorized")
    error_of(by_key("tools:list").get(LIST), 403, "forbidden")
    error_of(by_person().get(LIST), 403, "forbidden")
    assert by_person(VIEW).get(LIST).status_code == 200
    assert by_person(is_superuser=True).get(f"{LIST}one/").status_code == 200


def test_an_unknown_session_is_told_in_json(auditor):
    error_of(auditor.get(f"{LIST}nothing/"), 404, "not_found")
    error_of(close(by_key("catalog:write"), "nothing"), 404, "not_found")


@pytest.mark.parametrize("body", [{"state": "initialized"}, {"state": None}, {"state": "closed", "colour": "red"}])
def test_nothing_but_closing_is_taken(session, body):
    error_of(close(by_key("catalog:write"), **body), 400, "invalid_params")
    session.refresh_from_db()
    assert session.state == McpSession.State.INITIALIZED


def test_a_session_is_not_deleted_and_the_way_to_close_it_is_told(session):
    error = error_of(by_key("catalog:write").delete(f"{LIST}one/"), 405, "method_not_allowed")
    assert "PATCH" in error["message"]
    assert error["details"]["allowed"] == ["GET", "PATCH"]


def test_sessions_are_not_made_here():
    error_of(by_key("catalog:write").post(LIST, {}, content_type="application/json"), 405, "method_not_allowed")


def test_a_session_that_is_due_reads_expired_before_the_sweeper_comes(auditor):
    past = datetime.now(UTC) - timedelta(seconds=1)
    McpSessionFactory(session_id="due", expires_at=past, created_at=NOON, last_activity_at=NOON)
    McpSessionFactory(session_id="live", expires_at=past + timedelta(hours=1))
    shown = auditor.get(f"{LIST}due/").json()
    assert (shown["state"], shown["end_reason"]) == ("expired", "idle")
    assert names(auditor.get(LIST, {"state": "expired"})) == ["due"]
    assert names(auditor.get(LIST, {"state": "initialized"})) == ["live"]


def test_the_list_expires_what_is_due_for_all_processes(auditor):
    McpSessionFactory(session_id="due", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert auditor.get(LIST).json()["results"][0]["state"] == "expired"
    assert BusEvent.objects.filter(subject=bus.SESSION_ENDED, payload="due").exists()
