"""Lists of tools and connections sort by calls, errors, latency and last call; their rows stand as close as wanted."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from invocations.figures.tallies import HOUR, QUARTER, Tally, class_of, slot_of
from invocations.models import CallTally
from tests.factories import McpSessionFactory, McpToolDefinitionFactory, McpToolInvocationFactory, ServerProcessFactory
from tests.rest import by_person
from tests.tools_catalog.proposals import proposal
from tools_catalog.discovery import reconcile
from tools_catalog.models import McpToolDefinition

pytestmark = pytest.mark.django_db
TOOLS = reverse("admin:tools_catalog_mcptooldefinition_changelist")
CONNECTIONS = reverse("admin:tools_catalog_mcpconnection_changelist")
MANY = 5000


def tally(name: str, calls: int, errors: int, *durations_ms: int) -> None:
    """Keep what sealing keeps of calls of three hours ago."""
    durations = Tally(durations=Counter(class_of(each) for each in durations_ms)).dump()
    for span in (HOUR, QUARTER):
        slot = slot_of(timezone.now() - timedelta(hours=3), span)
        CallTally.objects.create(
            subject="tool", name=name, span=span, slot=slot, calls=calls, errors=errors, durations=durations
        )


def order(client: Any, address: str, column: str, *, highest: bool = False) -> list[str]:
    """Return the names of the list's first page, sorted by a column as its heading's link does."""
    listed = client.get(address).context["cl"]
    number = list(listed.list_display).index(column)
    rows = client.get(address, {"o": f"{'-' if highest else ''}{number}"}).context["cl"].result_list
    return [getattr(row, "name", None) or row.slug for row in rows]


@pytest.fixture
def used() -> None:
    """Four tools: often and fast, seldom and slow, failing, and never called; the names sort in another order."""
    for name in ("c.often", "a.slow", "d.failing", "b.unused"):
        McpToolDefinitionFactory(name=name)
    tally("c.often", 100, 1, *[10] * 100)
    tally("a.slow", 4, 0, 4000, 4000, 4000, 4000)
    tally("d.failing", 10, 5, *[100] * 10)


def test_tools_sort_by_each_figure_and_those_without_come_last(log_in: Any, used: None) -> None:
    client = log_in("Viewer")
    assert order(client, TOOLS, "calls", highest=True) == ["c.often", "d.failing", "a.slow", "b.unused"]
    assert order(client, TOOLS, "calls") == ["b.unused", "a.slow", "d.failing", "c.often"]
    assert order(client, TOOLS, "failures", highest=True) == ["d.failing", "c.often", "a.slow", "b.unused"]
    assert order(client, TOOLS, "latency", highest=True) == ["a.slow", "d.failing", "c.often", "b.unused"]
    assert order(client, TOOLS, "latency") == ["c.often", "d.failing", "a.slow", "b.unused"]


def test_tools_sort_by_their_last_call(log_in: Any, used: None) -> None:
    session, process = McpSessionFactory(), ServerProcessFactory()
    for name, hours in (("c.often", 40), ("a.slow", 1), ("d.failing", 5)):
        begun = timezone.now() - timedelta(hours=hours)
        McpToolInvocationFactory(session=session, process=process, tool_name=name, received_at=begun)
    names = order(log_in("Viewer"), TOOLS, "last_called", highest=True)
    assert names[-1] == "b.unused"
    assert set(names[:3]) == {"c.often", "a.slow", "d.failing"}


def test_the_p95_is_shown_and_filters_and_search_hold_where_a_figure_sorts(log_in: Any, used: None) -> None:
    client = log_in("Viewer")
    page = client.get(TOOLS)
    assert "4096 ms" in page.content.decode().replace("\xa0", " ").replace(",", "")
    number = list(page.context["cl"].list_display).index("latency")
    found = client.get(TOOLS, {"o": f"-{number}", "q": "a.slow"}).context["cl"]
    assert [row.name for row in found.result_list] == ["a.slow"]
    assert found.result_count == 1


def test_who_sees_no_calls_has_no_columns_of_them(used: None) -> None:
    person = by_person("tools_catalog.view_mcptooldefinition", is_staff=True)
    shown = person.get(TOOLS, {"o": "-7"})
    assert not {"calls", "failures", "latency", "last_called"} & set(shown.context["cl"].list_display)


def test_connections_sort_by_what_their_tools_do(log_in: Any) -> None:
    slow, idle = proposal(), proposal()
    reconcile.approve(slow, author="somebody")
    tool = McpToolDefinition.objects.get()
    tally(tool.name, 7, 7, *[2000] * 7)
    client = log_in("Operator")
    names = [slow.connection.slug, idle.connection.slug]
    for column in ("calls", "failures", "latency"):
        assert order(client, CONNECTIONS, column, highest=True) == names
    (row, other) = client.get(CONNECTIONS, {"o": "-7"}).context["cl"].result_list
    assert {row.recent.calls, other.recent.calls} == {7, 0}


@pytest.mark.slow
def test_five_thousand_tools_cost_no_more_statements_and_no_walk_through_the_tallies(log_in: Any, used: None) -> None:
    client = log_in("Viewer")

    def asked() -> list[str]:
        order(client, TOOLS, "latency", highest=True)
        with CaptureQueriesContext(connection) as seen:
            assert order(client, TOOLS, "latency", highest=True)[0] == "a.slow"
        return [each["sql"] for each in seen.captured_queries]

    few = asked()
    one = McpToolDefinitionFactory.build
    McpToolDefinition.objects.bulk_create(
        [one(name=f"tool.{number}", backend="python") for number in range(MANY)], batch_size=500
    )
    many = asked()
    assert len(many) == len(few)
    if connection.vendor != "sqlite":
        return
    for statement in many:
        if "calltally" in statement:
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN QUERY PLAN " + statement)
                plan = [str(row[-1]) for row in cursor.fetchall()]
            assert not any(line.startswith("SCAN invocations_calltally") for line in plan), plan


def test_the_density_is_kept_by_the_browser_for_every_list(log_in: Any, used: None) -> None:
    client = log_in("Operator")
    assert "hub-compact" in client.get(TOOLS).content.decode()
    kept = client.get(TOOLS, {"density": "comfortable", "o": "-1", "q": "slow"})
    assert kept.status_code == 302
    assert kept["Location"] == f"{TOOLS}?o=-1&q=slow"
    cookie = kept.cookies[settings.HUB_DENSITY_COOKIE_NAME]
    assert (cookie.value, cookie["httponly"], cookie["samesite"]) == ("comfortable", True, "Lax")
    for address in (TOOLS, CONNECTIONS):
        page = client.get(address).content.decode()
        assert "hub-compact" not in page
        assert "density=compact" in page
    client.get(TOOLS, {"density": "compact"})
    assert "hub-compact" in client.get(TOOLS).content.decode()


def test_an_unknown_density_changes_nothing(log_in: Any) -> None:
    answer = log_in("Viewer").get(TOOLS, {"density": "<b>"})
    assert answer["Location"] == TOOLS
    assert settings.HUB_DENSITY_COOKIE_NAME not in answer.cookies
