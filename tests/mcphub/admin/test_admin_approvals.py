"""The inbox of calls that wait for a yes: what it shows to whom, and how an operator decides."""

from __future__ import annotations

import datetime
import re

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from mcphub.features.approvals.models import McpApproval
from sessions_app import accountable
from sessions_app.history.models import AuditEvent
from tests.factories import UserFactory

LIST = "admin:invocations_mcpapproval_changelist"


@pytest.fixture
def waiting(db) -> McpApproval:
    accountable.name("key:1", [UserFactory().pk])
    now = timezone.now()
    return McpApproval.objects.create(
        id="mcpr_1",
        principal="key:1",
        caller_label="an app",
        turn_id="t",
        call_id="call_1",
        tool_name="drop_table",
        tool_version="1",
        arguments={"table": "a_secret_table"},
        binding="0" * 64,
        created_at=now,
        expires_at=now + datetime.timedelta(minutes=10),
    )


def test_the_page_of_a_call_shows_its_effects_in_the_readers_language_and_no_sentence_cut(log_in, waiting):
    McpApproval.objects.filter(pk=waiting.pk).update(effects="destroys, reaches outside")
    page = reverse("admin:invocations_mcpapproval_change", args=[quote(waiting.pk)])
    for where in (page, reverse(LIST)):
        html = log_in("Operator").get(where, headers={"accept-language": "ru"}).content.decode()
        assert "уничтожает данные, обращается наружу" in html
        assert "destroys" not in html
    html = log_in("Auditor").get(page).content.decode()
    assert "No call of this tool by this caller has been approved yet." in html


def decide(client, action, *rows, **more):
    return client.post(reverse(LIST), {"action": action, "_selected_action": [row.pk for row in rows], **more})


def listed(client, address):
    return [row.pk for row in client.get(address).context["cl"].result_list]


@pytest.mark.parametrize(("action", "status"), [("approve", "approved"), ("deny", "denied")])
def test_an_operator_decides_after_confirming(log_in, waiting, action, status):
    client = log_in("Operator")
    assert "drop_table" in decide(client, action, waiting).content.decode()
    assert McpApproval.objects.get().status == "pending"
    assert decide(client, action, waiting, confirmed="yes", reason="because").status_code == 302
    found = McpApproval.objects.get()
    assert (found.status, found.decided_by) == (status, str(client.user))
    said = AuditEvent.objects.get(subject_id=waiting.pk)
    assert (said.kind, said.actor, said.reason) == (f"call.{status}", f"user:{client.user.pk}", "because")
    assert (said.subject_label, said.after["principal"], said.after["tool_call_id"]) == (
        "drop_table",
        "key:1",
        "call_1",
    )


@pytest.mark.parametrize(("action", "status"), [("approve", "approved"), ("deny", "denied")])
def test_the_page_of_a_call_decides_it(log_in, waiting, action, status):
    page = reverse("admin:invocations_mcpapproval_change", args=[quote(waiting.pk)])
    client = log_in("Operator")
    address = re.search(rf'href="([^"]*/{action}[^"]*)"', client.get(page).content.decode())[1]
    assert "drop_table" in client.get(address).content.decode()
    assert McpApproval.objects.get().status == "pending"
    assert log_in("Viewer").post(address, {"confirmed": "yes"}).status_code == 403
    assert client.post(address, {"confirmed": "yes", "reason": "because"}).headers["location"] == page
    assert McpApproval.objects.get().status == status
    assert f"/{action}" not in client.get(page).content.decode()


def test_the_overview_leads_who_may_see_them_to_the_calls_that_wait(log_in, waiting):
    def another(id_: str, **fields: object) -> None:
        McpApproval.objects.create(**{**row, "id": id_, **fields})

    row = McpApproval.objects.values().get()
    now = timezone.now()
    long_ago = now - datetime.timedelta(hours=1)
    another("mcpr_expired", created_at=long_ago, expires_at=long_ago + datetime.timedelta(minutes=10))
    another("mcpr_denied", status="denied", decided_at=now)
    client = log_in("Viewer")
    tiles = {tile["title"]: tile for tile in client.get(reverse("admin:index")).context["tiles"]}
    tile = tiles["Calls waiting for approval"]
    assert tile["words"] == "1"
    assert listed(client, tile["link"]) == [waiting.pk]
    late = listed(client, f"{reverse(LIST)}?state=expired")
    McpApproval.objects.update(created_at=long_ago, expires_at=long_ago)  # the page of the tile stayed open
    assert (late, listed(client, tile["link"])) == (["mcpr_expired"], [])
    assert listed(client, f"{reverse(LIST)}?state=denied") == ["mcpr_denied"]


def test_the_overview_keeps_the_calls_that_wait_from_who_may_not_see_them(client, waiting):
    user = UserFactory(is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_mcpupstreamtool"))
    client.force_login(user)
    titles = [tile["title"] for tile in client.get(reverse("admin:index")).context["tiles"]]
    assert titles == ["Offers waiting for approval"]


def test_what_is_too_old_cannot_be_approved(log_in, waiting):
    McpApproval.objects.update(expires_at=timezone.now() - datetime.timedelta(seconds=1))
    client = log_in("Operator")
    decide(client, "approve", waiting, confirmed="yes")
    assert McpApproval.objects.get().status == "pending"
    assert "Expired" in client.get(reverse(LIST)).content.decode()


def test_who_may_not_decide_is_not_offered_it(log_in, waiting):
    client = log_in("Viewer")
    page = client.get(reverse(LIST)).content.decode()
    assert ('value="deny"' in page, "a_secret_table" in page, "drop_table" in page) == (False, False, True)
    one = client.get(reverse("admin:invocations_mcpapproval_change", args=[waiting.pk])).content.decode()
    assert "a_secret_table" not in one
    decide(client, "approve", waiting, confirmed="yes")
    assert McpApproval.objects.get().status == "pending"


def test_arguments_are_for_who_may_read_bodies(log_in, waiting):
    page = reverse("admin:invocations_mcpapproval_change", args=[quote(waiting.pk)])
    for role, is_shown in (("Viewer", False), ("Operator", False), ("Auditor", True)):
        client = log_in(role)
        for address in (reverse(LIST), page):
            words = client.get(address).content.decode()
            assert ("a_secret_table" in words, "read arguments, results and errors" in words) == (
                is_shown,
                not is_shown,
            )
