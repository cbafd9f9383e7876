"""Many tools at once: named before, each told of afterwards, all of it in the history with its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.history.reading import history_of
from tests.factories import McpToolDefinitionFactory
from tests.tools_catalog.proposals import definition, offer, proposal
from tools_catalog.bundles import bundle
from tools_catalog.discovery import reconcile as discovery
from tools_catalog.models import McpToolDefinition, McpToolset

pytestmark = pytest.mark.django_db
LIST = "admin:tools_catalog_mcptooldefinition_changelist"


def do(client: Any, action: str, tools: list[Any], **more: Any) -> Any:
    return client.post(reverse(LIST), {"action": action, "_selected_action": [tool.pk for tool in tools], **more})


def outcomes(page: Any) -> dict[str, tuple[str, str]]:
    return {
        name: (str(mark).split(">")[-2].removesuffix("</span"), remark) for name, mark, remark in page.context["rows"]
    }


def test_limits_are_set_and_say_what_they_were(log_in, echo):
    same = McpToolDefinitionFactory(name="same", timeout_seconds=7, calls_per_minute=5)
    client = log_in("Operator")
    asked = do(client, "set_limits", [echo, same])
    assert "Set the limits of 2 tools?" in asked.content.decode()
    refused = do(client, "set_limits", [echo, same], confirmed="yes")
    assert "Fill in at least one" in refused.content.decode()
    wrong = do(client, "set_limits", [echo], confirmed="yes", timeout_seconds="0", calls_per_minute="x")
    assert {"timeout_seconds", "calls_per_minute"} <= wrong.context["form"].errors.keys()
    assert echo.versions.count() == 1
    done = do(
        client, "set_limits", [echo, same], confirmed="yes", timeout_seconds="7", calls_per_minute="5", reason="slow"
    )
    assert outcomes(done) == {
        "echo": ("Done", "timeout_seconds: 30.0 → 7.0, calls_per_minute: None → 5"),
        "same": ("Unchanged", "unchanged"),
    }
    version = echo.versions.first()
    assert (version.definition["timeout_seconds"], version.reason, version.author) == (7.0, "slow", client.user)
    record = history_of(echo).first()
    assert record.after == {"version": "2", "timeout_seconds": 7.0, "calls_per_minute": 5}
    assert (record.actor, record.reason) == (f"user:{client.user.pk}", "slow")
    do(client, "set_limits", [echo], confirmed="yes", calls_per_minute="0")
    assert McpToolDefinition.objects.get(pk=echo.pk).calls_per_minute is None


def test_tools_are_added_to_a_toolset_that_is_chosen(log_in, echo):
    toolset, there = McpToolset.objects.create(slug="few"), McpToolDefinitionFactory(name="there")
    toolset.tools.add(there)
    client = log_in("Operator")
    assert "Toolset" in do(client, "add_to_toolset", [echo, there]).content.decode()
    assert do(client, "add_to_toolset", [echo], confirmed="yes").context["form"].errors
    done = do(client, "add_to_toolset", [echo, there], confirmed="yes", toolset=toolset.pk, reason="support")
    assert outcomes(done) == {"echo": ("Done", "/mcp/s/few"), "there": ("Unchanged", "unchanged")}
    assert set(toolset.tools.all()) == {echo, there}
    record = history_of(toolset).first()
    assert (record.reason, record.actor) == ("support", f"user:{client.user.pk}")


def test_what_waits_is_approved_and_a_refusal_of_one_leaves_the_others(log_in, echo):
    row = proposal()
    tool = discovery.approve(row, author="somebody")
    offer(row.connection, definition(description="Says more."))
    other = discovery.approve(proposal(), author="somebody")
    client = log_in("Operator")
    asked = do(client, "approve_selected", [tool, other, echo]).content.decode()
    for words in ("Approve the offer of 1 tool?", "Says more.", "nothing to approve"):
        assert words in asked
    done = do(client, "approve_selected", [tool, other, echo], confirmed="yes", reason="read it")
    assert outcomes(done) == {
        tool.name: ("Done", ""),
        other.name: ("Unchanged", "unchanged"),
        "echo": ("Unchanged", "This tool doesn't come from an upstream."),
    }
    version = tool.versions.first()
    assert (version.definition["description"], version.reason) == ("Says more.", "read it")


def test_what_is_no_longer_offered_is_not_approved(log_in, echo):
    row = proposal()
    tool = discovery.approve(row, author="somebody")
    offer(row.connection)  # it lists nothing any more
    done = do(log_in("Operator"), "approve_selected", [tool], confirmed="yes")
    assert outcomes(done) == {tool.name: ("Refused", "The upstream no longer offers it.")}


def test_the_export_of_a_selection_can_be_imported(log_in, echo):
    McpToolDefinitionFactory(name="not_chosen")
    of_upstream = discovery.approve(proposal(), author="somebody")
    client = log_in("Viewer")
    asked = dict(do(client, "export_selected", [echo, of_upstream]).context["items"])
    assert "skipped" in asked[of_upstream.name]
    done = do(client, "export_selected", [echo, of_upstream], confirmed="yes")
    assert done.headers["Content-Disposition"] == 'attachment; filename="tools.json"'
    document = json.loads(done.content)
    assert [entry["name"] for entry in document["tools"]] == ["echo"]
    McpToolDefinition.objects.filter(pk=echo.pk).update(name="echo_before")
    assert bundle.load(document, reason="test").created == ["echo"]
    assert McpToolDefinition.objects.get(name="echo").configuration == echo.configuration


@pytest.mark.parametrize("action", ["approve_selected", "add_to_toolset", "set_limits"])
def test_who_may_not_change_tools_is_not_offered_to(action, log_in, echo):
    client = log_in("Viewer")
    assert f'value="{action}"' not in client.get(reverse(LIST)).content.decode()
    answer = do(client, action, [echo], confirmed="yes", timeout_seconds="1")
    assert answer.status_code == 302  # the list, with the remark that there is no such action
    assert echo.versions.count() == 1
