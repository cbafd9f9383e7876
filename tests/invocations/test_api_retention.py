"""How long the audit is kept, and legal holds, over REST: programs read, people decide, each decision is on record."""

from __future__ import annotations

from typing import Any

import pytest

from invocations.chain.models import AuditHold, AuditPolicy
from sessions_app.history.models import AuditEvent
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.django_db

HOLDS, RETENTION = "/api/audit/holds/", "/api/audit/retention/"
HOLD = {"name": "case-7", "reason": "A dispute.", "tool_name": "pay"}
AUDITOR = ("invocations.view_audithold", "invocations.add_audithold", "invocations.change_audithold")


def send(client: Any, method: str, where: str, **body: Any) -> Any:
    return getattr(client, method)(where, body, content_type="application/json")


def kinds(prefix: str) -> list[str]:
    return list(AuditEvent.objects.filter(kind__startswith=prefix).order_by("id").values_list("kind", flat=True))


def test_a_person_holds_a_part_of_the_audit_and_releases_it_once() -> None:
    person = by_person(*AUDITOR)
    made = send(person, "post", HOLDS, **HOLD)
    assert (made.status_code, made.json()["released_at"]) == (201, None)
    answer = send(person, "post", f"{HOLDS}case-7/release/", reason="It is settled.")
    assert (answer.status_code, answer.json()["released_at"] is not None) == (200, True)
    error_of(send(person, "post", f"{HOLDS}case-7/release/"), 409, "conflict")
    assert kinds("legal_hold") == ["legal_hold.created", "legal_hold.changed"]
    assert AuditEvent.objects.latest("id").reason == "It is settled."


def test_a_program_reads_holds_and_retention_and_decides_nothing() -> None:
    AuditHold.objects.create(**HOLD)
    program = by_key("audit:read")
    assert [row["name"] for row in program.get(HOLDS).json()["results"]] == ["case-7"]
    assert program.get(RETENTION).json() == {"rows_days": None, "bodies_days": None}
    error_of(send(program, "post", HOLDS, **HOLD), 403, "forbidden")
    error_of(send(program, "post", f"{HOLDS}case-7/release/"), 403, "forbidden")
    error_of(send(program, "patch", RETENTION, rows_days=10), 403, "forbidden")


@pytest.mark.parametrize(
    ("body", "member"),
    [
        ({**HOLD, "received_from": "yesterday"}, "received_from"),
        ({**HOLD, "released_at": "2026-01-01T00:00:00Z"}, "released_at"),
        ({**HOLD, "until": "2026-01-01"}, "until"),
    ],
)
def test_what_is_wrong_about_a_hold_is_named(body: dict[str, Any], member: str) -> None:
    error = error_of(send(by_person(*AUDITOR), "post", HOLDS, **body), 400, "invalid_params")
    assert member in error["details"]["fields"]
    assert not AuditHold.objects.exists()


def test_a_hold_that_covers_nothing_is_refused() -> None:
    error = error_of(send(by_person(*AUDITOR), "post", HOLDS, name="all", reason="x"), 409, "conflict")
    assert "Enter what the hold covers" in error["details"]["fields"]["*"][0]


def test_a_superuser_says_how_long_the_audit_is_kept_and_why() -> None:
    person = by_person(is_superuser=True)
    answer = send(person, "patch", RETENTION, rows_days=400, bodies_days=30, reason="As the law wants it.")
    assert (answer.status_code, answer.json()) == (200, {"rows_days": 400, "bodies_days": 30})
    assert AuditPolicy.current().rows_days == 400
    assert AuditEvent.objects.latest("id").reason == "As the law wants it."
    error = error_of(send(person, "patch", RETENTION, bodies_days=500), 409, "conflict")
    assert "bodies_days" in error["details"]["fields"]
    error_of(send(by_person("invocations.view_auditpolicy"), "patch", RETENTION, rows_days=1), 403, "forbidden")
