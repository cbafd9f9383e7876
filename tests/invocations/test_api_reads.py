"""Who reads bodies of calls over REST is on record, and without a record reads none."""

from __future__ import annotations

import pytest
from django.db import connection

from sessions_app.history.models import AuditEvent
from sessions_app.models import ApiKey
from tests.factories import McpTaskFactory, McpToolInvocationFactory
from tests.rest import by_key, by_person, by_token, error_of

pytestmark = pytest.mark.django_db

LIST = "/api/invocations/"
VIEW = "invocations.view_mcptoolinvocation"
BODIES = "invocations.read_bodies"


@pytest.fixture
def call():
    return McpToolInvocationFactory(invocation_id="call")


def reads():
    return AuditEvent.objects.filter(kind="bodies.read")


def test_a_list_with_bodies_is_an_event_that_names_reader_rows_and_question(call):
    other = McpToolInvocationFactory()
    key, token = ApiKey.issue("night watch", scopes=["audit:read"])
    by_token(token).get(LIST, {"tool": "echo", "limit": "10"})
    event = reads().get()
    assert (event.actor, event.actor_label) == (f"key:{key.pk}", "night watch")
    assert event.subject_label == LIST
    assert event.after == {
        "bodies": ["arguments", "result", "error"],
        "searched": [],
        "rows": [other.pk, call.pk],
        "query": {"tool": "echo", "limit": "10"},
    }


def test_a_call_that_a_person_reads_is_an_event_with_its_id(call):
    client = by_person(VIEW, BODIES, username="ada")
    client.get(f"{LIST}call/")
    event = reads().get()
    assert event.actor.startswith("user:")
    assert event.actor_label == "ada"
    assert (event.subject_id, event.after["rows"]) == ("call", [call.pk])


def test_only_bodies_that_are_answered_count(call):
    auditor = by_key("audit:read")
    auditor.get(LIST, {"fields": "sequence,status"})
    auditor.get(LIST, {"tool": "nothing"})
    auditor.get(f"{LIST}nothing/")
    by_person(VIEW).get(f"{LIST}call/")
    assert not reads().exists()
    auditor.get(LIST, {"fields": "sequence,error"})
    assert reads().get().after["bodies"] == ["error"]


def test_a_search_in_bodies_counts_even_where_it_finds_nothing(call):
    by_key("audit:read").get(LIST, {"fields": "sequence", "started_after": "2026-01-01", "arguments": "$.a=1"})
    assert reads().get().after["searched"] == ["arguments"]


def test_bodies_of_tasks_count_too():
    task = McpTaskFactory(task_id="long", over=True)
    by_key("audit:read").get("/api/tasks/long/")
    event = reads().get()
    assert (event.subject_id, event.after["rows"]) == ("long", [task.pk])
    assert "result" in event.after["bodies"]


def test_without_a_record_no_bodies_are_shown(call):
    auditor = by_key("audit:read")
    auditor.get(LIST, {"fields": "sequence"})
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE sessions_app_auditevent RENAME TO invocations_elsewhere")
    error = error_of(auditor.get(LIST), 503, "audit_unavailable")
    assert error["retryable"] is True
    assert "fields" in error["message"]
    assert auditor.get(LIST, {"fields": "sequence,status"}).status_code == 200
