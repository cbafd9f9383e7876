"""Redaction rules are edited by auditors, are events of the audit, and can be tried on a call that is not made."""

from __future__ import annotations

import pytest
from django.urls import reverse

from invocations.models import McpRedactionRule, McpToolInvocation
from invocations.redaction import load
from invocations.redaction.bodies import StoredBodies
from sessions_app.history.models import AuditEvent
from sessions_app.kit.secret_forms import FORMS
from sessions_app.models import BusEvent
from sessions_app.protocol import json

pytestmark = pytest.mark.django_db
ADD = "admin:invocations_mcpredactionrule_add"
RULE = {"kind": "path", "place": "$.text", "part": "both", "tool_name": "echo", "enabled": "on"}


def test_auditor_adds_a_rule_and_every_process_hears_of_it(log_in):
    client = log_in("Auditor")
    BusEvent.objects.all().delete()
    assert client.post(reverse(ADD), RULE).status_code == 302
    rule = McpRedactionRule.objects.exclude(kind="form").get()
    assert AuditEvent.objects.first().kind == "redaction_rule.created"
    assert BusEvent.objects.filter(subject="redaction_changed").exists()
    assert "already exists" in client.post(reverse(ADD), RULE).content.decode()
    McpRedactionRule.objects.filter(pk=rule.pk).update(enabled=False)  # as a second person did
    client.post(reverse("admin:invocations_mcpredactionrule_delete", args=[rule.pk]), {"post": "yes"})
    assert AuditEvent.objects.first().kind == "redaction_rule.deleted"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"place": "text"}, "Enter $ followed by steps"),
        ({"kind": "header", "place": "$.text"}, "Enter the name of one HTTP header"),
        ({"tool_name": "a b"}, "Use the characters"),
        ({"kind": "form", "place": "no_such_form"}, "Choose one of: address_password, "),
    ],
)
def test_rule_that_could_not_be_applied_is_refused(log_in, change, words):
    assert words in log_in("Auditor").post(reverse(ADD), {**RULE, **change}).content.decode()
    assert not McpRedactionRule.objects.exclude(kind="form").exists()


def test_every_known_form_ships_in_force_and_is_switched_off_as_a_rule():
    assert set(McpRedactionRule.objects.filter(enabled=True, kind="form").values_list("place", flat=True)) == set(FORMS)
    token = {"note": "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2}

    def kept():
        return StoredBodies(token, json.canonical(token), load.load().of("echo", {})).arguments

    assert "redacted:" in kept()
    McpRedactionRule.objects.filter(place="github_token").update(enabled=False)
    assert kept() == json.canonical(token)


@pytest.mark.parametrize("role", ["Viewer", "Operator"])
def test_others_only_look(log_in, role):
    client = log_in(role)
    assert client.post(reverse(ADD), RULE).status_code == 403
    assert client.get(reverse("admin:redaction_preview")).status_code == 200


def test_preview_shows_what_would_be_stored_and_stores_nothing(log_in, echo):
    McpRedactionRule.objects.create(place="$.text", tool_name="echo")
    client = log_in("Auditor")
    form = {
        "tool": "echo",
        "arguments": '{"text": "s3cret", "n": 1}',
        "result": '{"said": "s3cret!"}',
        "message": "not s3cret",
    }
    page = client.post(reverse("admin:redaction_preview"), form).content.decode()
    stored = page.partition('id="hub-stored"')[2].partition("</section>")[0]
    assert stored.count("redacted:") >= 4
    assert "s3cret" not in stored
    assert "$.text" in stored
    assert not McpToolInvocation.objects.exists()
    assert not AuditEvent.objects.filter(after__contains="s3cret").exists()
    whole = client.post(reverse("admin:redaction_preview"), {"arguments": "[1]"}).content.decode()
    assert "Enter one JSON object." in whole
