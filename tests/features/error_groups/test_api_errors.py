"""/api/errors/: groups of errors, read by auditors and decided by people."""

from __future__ import annotations

import pytest

from sessions_app.history.models import AuditEvent
from tests.factories import ErrorGroupFactory
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.django_db

LIST = "/api/errors/"
VIEW, JUDGE, BODIES = ("invocations.view_errorgroup", "invocations.change_errorgroup", "invocations.read_bodies")


def test_a_key_of_the_audit_reads_the_groups_and_that_is_on_record():
    group = ErrorGroupFactory(tool_name="order")
    ErrorGroupFactory(tool_name="echo", state="muted")
    auditor = by_key("audit:read")
    [found] = auditor.get(LIST, {"state": "open"}).json()["results"]
    assert (found["id"], found["tool_name"], found["message"]) == (group.pk, "order", "no row <number>")
    assert found["callers"] == [{"principal": "key:1", "label": "laptop", "calls": 3}]
    assert AuditEvent.objects.filter(kind="bodies.read").exists()
    assert [each["tool_name"] for each in auditor.get(f"{LIST}?not_state=open").json()["results"]] == ["echo"]
    assert auditor.get(f"{LIST}{group.pk}/").json()["calls"] == 3
    error_of(auditor.get(f"{LIST}999/"), 404, "not_found")


def test_who_may_not_read_bodies_reads_no_message():
    group = ErrorGroupFactory()
    assert by_person(VIEW).get(f"{LIST}{group.pk}/").json()["message"] is None
    assert by_person(VIEW, BODIES).get(f"{LIST}{group.pk}/").json()["message"] == "no row <number>"


def test_people_decide_and_keys_do_not():
    group = ErrorGroupFactory()
    person = by_person(VIEW, JUDGE)
    for deed, state in (("mute", "muted"), ("resolve", "resolved"), ("reopen", "open")):
        answer = person.post(f"{LIST}{group.pk}/{deed}/", {"reason": "seen"}, content_type="application/json")
        assert (answer.status_code, answer.json()["state"]) == (200, state)
    assert AuditEvent.objects.filter(kind__startswith="errorgroup.", reason="seen").count() == 3
    error_of(
        by_key("audit:read").post(f"{LIST}{group.pk}/mute/", {}, content_type="application/json"), 403, "forbidden"
    )
    error_of(by_person(VIEW).post(f"{LIST}{group.pk}/mute/", {}, content_type="application/json"), 403, "forbidden")
