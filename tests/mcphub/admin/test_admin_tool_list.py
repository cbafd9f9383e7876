"""The list of tools says how much each is called, and switches each by a button of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from invocations.models import CallTally, McpToolInvocation
from sessions_app.history.reading import history_of
from tests.factories import McpSessionFactory, McpToolDefinitionFactory, McpToolInvocationFactory, ServerProcessFactory
from tests.tools_catalog.proposals import definition, offer, proposal
from tools_catalog.discovery import reconcile as discovery
from tools_catalog.models import McpToolDefinition

pytestmark = pytest.mark.django_db
LIST = "admin:tools_catalog_mcptooldefinition_changelist"


@pytest.fixture
def call() -> Any:
    session, process = McpSessionFactory(), ServerProcessFactory()

    def call(name: str, hours: float = 0, **more: Any) -> Any:
        begun = timezone.now() - timedelta(hours=hours)
        return McpToolInvocationFactory(session=session, process=process, tool_name=name, received_at=begun, **more)

    return call


def switch(tool: Any) -> str:
    return reverse("admin:tools_catalog_mcptooldefinition_switch", args=[tool.pk])


def _tally(name: str, span: int, hours: float, calls: int, errors: int = 0) -> None:
    at = timezone.now() - timedelta(hours=hours)
    slot = at.replace(second=0, microsecond=0, **({"minute": 0} if span == 3600 else {}))
    row, _ = CallTally.objects.get_or_create(
        subject="tool", name=name, span=span, slot=slot, defaults={"calls": 0, "errors": 0, "durations": "{}"}
    )
    row.calls, row.errors = row.calls + calls, row.errors + errors
    row.save()


def rows_of(client: Any) -> dict[str, Any]:
    return {row.name: row.recent for row in client.get(reverse(LIST)).context["cl"].result_list}


def test_the_calls_of_24_hours_are_those_that_are_sealed_and_those_that_are_not_yet(log_in, echo, call):
    _tally("echo", 3600, 3, calls=5, errors=1)
    _tally("echo", 60, 3, calls=5, errors=1)  # the same calls, by the minute
    _tally("echo", 3600, 30, calls=100)
    call("echo", hours=48)
    call("echo")
    newest = call("echo", failed=True)
    recent = rows_of(log_in("Viewer"))["echo"]
    assert (recent.calls, recent.errors, recent.last_called) == (7, 2, newest.started_at)


def test_the_first_hour_is_counted_by_the_minute(log_in, echo):
    for span in (60, 3600):  # as sealing counts; in the last minute of an hour the call is in the first whole one
        _tally("echo", span, 23.95, calls=2)  # three minutes: so long the page may take to come
        _tally("echo", span, 24.1, calls=50)
    assert rows_of(log_in("Viewer"))["echo"].calls == 2


def test_more_tools_do_not_take_more_statements(log_in, echo, call):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = log_in("Operator")

    def statements() -> int:
        client.get(reverse(LIST))  # what a process reads once is read
        with CaptureQueriesContext(connection) as seen:
            assert client.get(reverse(LIST)).status_code == 200
        return len(seen)

    call("echo")
    before = statements()
    for number in range(20):
        McpToolDefinitionFactory(name=f"tool{number}")
        call(f"tool{number}")
    assert statements() == before


def test_the_approval_of_upstream_tools_is_shown(log_in):
    row = proposal()
    discovery.approve(row, author="somebody")
    page = log_in("Viewer").get(reverse(LIST))
    (tool,) = page.context["cl"].result_list
    assert tool.approval_state == "approved"
    offer(row.connection, definition(description="Changed."))
    page = log_in("Viewer").get(reverse(LIST))
    assert "Change pending" in page.content.decode()


def test_who_may_not_change_tools_gets_no_button(log_in, echo):
    client = log_in("Viewer")
    page = client.get(reverse(LIST)).content.decode()
    assert 'role="switch"' not in page
    assert client.post(switch(echo), {"enabled": ""}).status_code == 403
    assert 'role="switch"' in log_in("Operator").get(reverse(LIST)).content.decode()


def test_a_tool_is_switched_on_at_once_and_off_after_a_question(log_in, echo, call):
    for _ in range(3):
        call("echo", principal="key:7", caller_label="laptop")
    call("echo", hours=24 * 8, principal="key:8", caller_label="long ago")
    call("other", principal="key:9")
    client = log_in("Operator")
    back = reverse(LIST) + "?q=ec"
    asked = client.post(switch(echo), {"enabled": "", "back": back})
    words = asked.content.decode()
    assert "Called in the last 7 days by laptop (key:7): 3." in words
    assert "long ago" not in words
    assert McpToolDefinition.objects.get(pk=echo.pk).enabled
    done = client.post(switch(echo), {"enabled": "", "back": back, "confirmed": "yes", "reason": "Friday"})
    assert done.headers["Location"] == f"{back}#switch-{echo.pk}"
    assert not McpToolDefinition.objects.get(pk=echo.pk).enabled
    record = history_of(echo).first()
    assert (record.actor, record.reason) == (f"user:{client.user.pk}", "Friday")
    client.post(switch(echo), {"enabled": "1", "back": "https://evil.example/"})
    assert McpToolDefinition.objects.get(pk=echo.pk).enabled
    assert history_of(echo).first().actor == f"user:{client.user.pk}"


def test_the_way_back_leads_to_this_hub_only(log_in, echo):
    done = log_in("Operator").post(switch(echo), {"enabled": "1", "back": "https://evil.example/"})
    assert done.headers["Location"].startswith(reverse(LIST))


def test_disabling_several_says_of_each_who_called_it_and_what_became_of_it(log_in, echo, call):
    add = McpToolDefinitionFactory(name="add")
    off = McpToolDefinitionFactory(name="off", enabled=False)
    call("echo", principal="key:7", caller_label="laptop")
    data = {"action": "disable_selected", "_selected_action": [echo.pk, add.pk, off.pk]}
    client = log_in("Operator")
    asked = dict(client.post(reverse(LIST), data).context["items"])
    assert asked == {"echo": "Called in the last 7 days by laptop (key:7): 1.", "add": "Not called in the last 7 days."}
    done = client.post(reverse(LIST), {**data, "confirmed": "yes", "reason": "tidy"})
    assert {name: remark for name, _mark, remark in done.context["rows"]} == {"echo": "", "add": "", "off": "unchanged"}
    assert McpToolInvocation.objects.count() == 1
