"""Error mappings in the admin: refused in words, previewed, kept in history."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from invocations.admin.mapping import example
from invocations.mapping.error_map import ErrorMap
from invocations.models import McpErrorMapping
from sessions_app.history.reading import history_of
from sessions_app.protocol import errors


@pytest.fixture
def rule(db):
    return McpErrorMapping.objects.get(internal_code="timeout")


def address(rule):
    return reverse("admin:invocations_mcperrormapping_change", args=[rule.pk])


def data(**changes):
    return {"json_rpc_code": "-31012", "message_template": "{message}", "data_schema": "{}", **changes}


def test_an_edit_is_saved_previewed_and_on_record(rule, log_in):
    client = log_in("Operator")
    sent = data(message_template="Slow: {timeout_seconds} s on {tool}", retryable="on", internal_code="forbidden")
    assert client.post(address(rule), sent).status_code == 302
    rule.refresh_from_db()
    assert rule.internal_code == "timeout"  # read-only once made
    assert rule.retryable
    assert history_of(rule).first().actor == f"user:{client.user.pk}"
    assert "Slow: 30 s on echo" in client.get(address(rule)).content.decode()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"json_rpc_code": "-32000"}, "json_rpc_code"),
        ({"json_rpc_code": "many"}, "json_rpc_code"),
        ({"message_template": "{unknown}"}, "message_template"),
        ({"message_template": ""}, "message_template"),
        ({"data_schema": '{"type": 7}'}, "data_schema"),
        ({"data_schema": "{"}, "data_schema"),
    ],
)
def test_a_bad_rule_is_refused_with_its_reason(changes, field, rule, log_in):
    response = log_in("Operator").post(address(rule), data(**changes))
    assert response.status_code == 200
    form = response.context["adminform"].form
    assert field in form.errors or form.non_field_errors()
    rule.refresh_from_db()
    assert rule.json_rpc_code == -31012


@pytest.mark.parametrize("code", sorted(errors.INTERNAL_CODES))
def test_every_code_has_an_example_for_its_preview(code):
    made = example(code)
    assert made.code == code
    assert made.message
    json.dumps(ErrorMap().render(made))


def test_every_mapping_opens(log_in):
    client = log_in("superuser")
    for rule in McpErrorMapping.objects.all():
        assert client.get(address(rule)).status_code == 200, rule


def test_one_is_added_only_where_one_is_missing(rule, log_in):
    client = log_in("superuser")
    add = reverse("admin:invocations_mcperrormapping_add")
    missing = client.get(add).status_code
    rule.delete()
    response = client.get(add)
    assert response.status_code == 200
    assert missing == 403
    choices = [code for code, _word in response.context["adminform"].form.fields["internal_code"].choices]
    assert "timeout" in choices
    assert client.post(add, data(internal_code="timeout")).status_code == 302
    assert McpErrorMapping.objects.filter(internal_code="timeout").exists()


def test_a_form_is_judged_while_it_is_filled_in_and_nothing_is_saved(rule, log_in):
    client = log_in("Operator")
    check = reverse("admin:invocations_mcperrormapping_check", args=[rule.pk])
    told = client.post(check, data(message_template="Slow: {timeout_seconds} s", retryable="on")).json()
    assert told["errors"] == {"json_rpc_code": [], "message_template": [], "data_schema": []}
    assert "Slow: 30 s" in told["preview"]
    assert "&quot;retryable&quot;: true" in told["preview"]
    told = client.post(check, data(message_template="{unknown}", data_schema="{")).json()
    assert "{timeout_seconds}" in told["errors"]["message_template"][0]
    assert "line 1" in told["errors"]["data_schema"][0]
    assert "Correct the errors above" in told["preview"]
    rule.refresh_from_db()
    assert rule.message_template == "{message}"
    assert history_of(rule).count() == 0
    assert log_in("Viewer").post(check, data()).status_code == 403


def test_the_form_of_a_tool_is_judged_by_the_metaschema(echo, log_in):
    client = log_in("Operator")
    check = reverse("admin:tools_catalog_mcptooldefinition_check", args=[echo.pk])
    told = client.post(check, {"input_schema": '{"type": "object", "properties": {"a": {"type": "nonsense"}}}'}).json()
    assert "nonsense" in told["errors"]["input_schema"][0]
    fresh = client.post(reverse("admin:tools_catalog_mcptooldefinition_check_new"), {"input_schema": "{"}).json()
    assert "line 1" in fresh["errors"]["input_schema"][0]
