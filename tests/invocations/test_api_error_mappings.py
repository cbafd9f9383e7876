"""/api/error-mappings/: operators change how failures are said, within the rules that the admin has."""

from __future__ import annotations

import pytest
from django.test import Client

from invocations.models import McpErrorMapping
from sessions_app.history.reading import history_of
from sessions_app.protocol.errors import MAPPED_CODES
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.django_db

LIST = "/api/error-mappings/"
ONE = f"{LIST}timeout/"
VIEW = "invocations.view_mcperrormapping"
CHANGE = "invocations.change_mcperrormapping"


@pytest.fixture
def operator():
    return by_key("catalog:write", "audit:read")


def patch(client, **body):
    return client.patch(ONE, body, content_type="application/json")


def test_every_internal_code_is_listed(operator):
    page = operator.get(f"{LIST}?limit=500").json()
    assert {row["internal_code"] for row in page["results"]} == MAPPED_CODES
    assert page["next"] is None


def test_a_change_is_kept_with_who_and_why(operator):
    response = patch(operator, message_template="Too slow: {tool}", retryable=True, reason="asked for")
    assert response.status_code == 200, response.content
    assert response.json()["message_template"] == "Too slow: {tool}"
    assert "reason" not in response.json()
    row = McpErrorMapping.objects.get(internal_code="timeout")
    assert row.retryable is True
    kept = history_of(row).first()
    assert kept.actor.startswith("key:")
    assert "auditor" in kept.reason
    assert kept.reason.endswith("asked for")


def test_a_person_is_named_in_the_history():
    client = by_person(VIEW, CHANGE, username="olga")
    client.handler.enforce_csrf_checks = False
    assert patch(client, retryable=True).status_code == 200
    assert history_of(McpErrorMapping.objects.get(internal_code="timeout")).first().actor_label == "olga"


@pytest.mark.parametrize(
    ("body", "field", "status"),
    [
        ({"json_rpc_code": 5}, "json_rpc_code", 400),
        ({"json_rpc_code": "many"}, "json_rpc_code", 400),
        ({"message_template": "{nothing}"}, "message_template", 409),
        ({"message_template": ""}, "message_template", 400),
        ({"data_schema": {"type": "nonsense"}}, "data_schema", 409),
        ({"data_schema": []}, "data_schema", 400),
        ({"internal_code": "other"}, "internal_code", 400),
        ({"surprise": 1}, "surprise", 400),
        ({"reason": "x" * 101}, "reason", 400),
    ],
)
def test_a_bad_change_is_refused_by_its_field(operator, body, field, status):
    error = error_of(patch(operator, **body), status, "conflict" if status == 409 else "invalid_params")
    assert list(error["details"]["fields"]) == [field]
    assert all(error["details"]["fields"][field])


def test_what_was_read_can_be_put_back(operator):
    body = operator.get(ONE).json()
    assert operator.put(ONE, body, content_type="application/json").json() == {
        **body,
        "updated_at": McpErrorMapping.objects.get(internal_code="timeout")
        .updated_at.isoformat()
        .replace("+00:00", "Z"),
    }


def test_who_changes_mappings():
    error_of(patch(Client(), retryable=True), 401, "unauthorized")
    error_of(patch(by_key("audit:read"), retryable=True), 403, "forbidden")
    error_of(patch(by_person(VIEW), retryable=True), 403, "forbidden")
    assert patch(by_key("catalog:write"), retryable=True).status_code == 200
    assert patch(by_person(CHANGE), retryable=True).status_code == 200
    assert patch(by_person(is_superuser=True), retryable=True).status_code == 200


@pytest.mark.parametrize(("method", "path"), [("post", LIST), ("delete", ONE)])
def test_mappings_are_neither_added_nor_removed(operator, method, path):
    response = getattr(operator, method)(path, {}, content_type="application/json")
    error_of(response, 405, "method_not_allowed")


def test_an_unknown_code_is_told_in_json(operator):
    error_of(operator.get(f"{LIST}nothing/"), 404, "not_found")
