"""Redaction rules over REST: programs read them, people with the right decide, each decision is on record."""

from __future__ import annotations

from typing import Any

import pytest

from invocations.redaction.models import McpRedactionRule
from sessions_app.history.models import AuditEvent
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.django_db

RULES = "/api/redaction-rules/"
RULE = {"kind": "path", "place": "$.password", "part": "arguments", "tool_name": "login"}
RIGHTS = [f"invocations.{deed}_mcpredactionrule" for deed in ("view", "add", "change", "delete")]


def send(client: Any, method: str, where: str, **body: Any) -> Any:
    return getattr(client, method)(where, body, content_type="application/json")


def test_a_person_makes_changes_and_removes_a_rule_and_says_why() -> None:
    person = by_person(is_staff=True, is_superuser=True)  # others need a second person to switch it off
    made = send(person, "post", RULES, **RULE, reason="passwords")
    assert made.status_code == 201, made.content
    one = f"{RULES}{made.json()['id']}/"
    assert send(person, "patch", one, enabled=False, reason="for an hour").json()["enabled"] is False
    assert send(person, "put", one, **RULE, note="back").json()["note"] == "back"
    assert person.delete(one).status_code == 204
    events = AuditEvent.objects.filter(kind__startswith="redaction_rule").order_by("id")
    assert [(event.kind, event.reason) for event in events] == [
        ("redaction_rule.created", "passwords"),
        ("redaction_rule.changed", "for an hour"),
        ("redaction_rule.changed", ""),
        ("redaction_rule.deleted", ""),
    ]


def test_a_program_reads_rules_and_decides_nothing() -> None:
    row = McpRedactionRule.objects.create(**RULE)
    McpRedactionRule.objects.create(kind="header", place="X-Token", part="both", enabled=False)
    program = by_key("audit:read")
    assert [each["place"] for each in program.get(RULES).json()["results"]][-2:] == ["$.password", "X-Token"]
    found = program.get(RULES, {"kind": "path", "tool": "login", "enabled": "true"}).json()["results"]
    assert [each["id"] for each in found] == [row.pk]
    for method, where in (("post", RULES), ("patch", f"{RULES}{row.pk}/"), ("delete", f"{RULES}{row.pk}/")):
        error_of(send(program, method, where, enabled=False), 403, "forbidden")
    error_of(by_key("catalog:write").get(RULES), 403, "forbidden")
    error_of(send(by_person(RIGHTS[0]), "post", RULES, **RULE), 403, "forbidden")


@pytest.mark.parametrize(
    ("body", "status", "member"),
    [
        ({**RULE, "place": "password"}, 409, "place"),
        ({**RULE, "kind": "form", "place": "nonsense"}, 409, "place"),
        ({**RULE, "tool_name": "a b"}, 409, "tool_name"),
        ({**RULE, "kind": "other"}, 400, "kind"),
        ({**RULE, "created_at": "2026-01-01T00:00:00Z"}, 400, "created_at"),
    ],
)
def test_what_is_wrong_about_a_rule_is_named(body: dict[str, Any], status: int, member: str) -> None:
    code = "conflict" if status == 409 else "invalid_params"
    error = error_of(send(by_person(*RIGHTS), "post", RULES, **body), status, code)
    assert member in error["details"]["fields"]


def test_a_rule_is_made_once() -> None:
    person = by_person(*RIGHTS)
    assert send(person, "post", RULES, **RULE).status_code == 201
    error_of(send(person, "post", RULES, **RULE), 409, "conflict")


def test_a_list_of_rules_takes_one_query_beside_who_asks(django_assert_num_queries: Any) -> None:
    for number in range(20):
        McpRedactionRule.objects.create(place=f"$.secret{number}")
    client = by_person(is_superuser=True)
    with django_assert_num_queries(4):  # session, person, workspaces, rows
        client.get(RULES)
