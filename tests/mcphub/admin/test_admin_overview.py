"""The overview: whether all is well, against the time before, and who calls what."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from mcphub.features.quotas.models import McpQuota, QuotaCount
from mcphub.features.quotas.quota import Charge
from sessions_app.models import ApiKey
from tests.factories import GroupFactory, McpConnectionFactory, McpToolInvocationFactory
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.discovery import reconcile as discovery

pytestmark = pytest.mark.django_db


def shown(client: Any, chosen: str = "1h") -> dict[str, Any]:
    return client.get(reverse("admin:index"), {"range": chosen}).context


def calls(count: int, *, ago: timedelta = timedelta(), **fields: Any) -> None:
    for _ in range(count):
        McpToolInvocationFactory(started_at=timezone.now() - ago, **fields)


def test_all_is_well_while_nothing_is_worse_than_before(log_in):
    calls(30, ago=timedelta(minutes=90))
    calls(30)
    page = log_in("superuser").get(reverse("admin:index"), {"range": "1h"})
    assert page.context["findings"] == []
    assert "All systems normal" in page.content.decode()


def test_more_failures_than_before_are_said_with_the_way_to_them(log_in):
    calls(30, ago=timedelta(minutes=90))
    calls(20)
    calls(10, failed=True)
    client = log_in("superuser")
    (finding,) = shown(client)["findings"]
    assert (
        finding.words
        == "33.3\N{NO-BREAK SPACE}% of calls failed, compared with 0.0\N{NO-BREAK SPACE}% in the previous period."
    )
    assert len(client.get(finding.link).context["cl"].result_list) == 10


def test_figures_say_how_they_moved_against_the_same_time_before(log_in):
    calls(10, ago=timedelta(minutes=90), duration_ms=100)
    calls(20, duration_ms=400)
    tiles = {tile["title"]: tile for tile in shown(log_in("superuser"))["tiles"]}
    assert tiles["Calls"]["words"] == "20"
    assert tiles["Calls"]["beside"].partition(" · ")[2].startswith("+")
    assert tiles["Duration, p50"]["beside"].startswith("+")
    assert {"Duration, p95", "Duration, p99"} <= tiles.keys()


def test_the_map_leads_from_callers_by_name_to_connections_with_their_state(log_in):
    key, _text = ApiKey.issue("desk of ada", scopes=["tools:call"])
    connection = McpConnectionFactory(slug="library")
    connection.links.create(process_id="1" * 32, status="error")
    tool = discovery.approve(offer(connection, definition("find"))["find"], author="somebody")
    calls(3, tool_name=tool.name, principal=key.principal)
    calls(1, tool_name="own_tool", principal="user:999999")
    context = shown(log_in("superuser"))
    traffic = context["traffic"]
    assert [(str(end.name).replace("<wbr>", ""), end.calls) for end in traffic.callers] == [
        ("desk of ada", "3"),
        ("user:999999", "1"),
    ]
    (upstream,) = traffic.upstreams
    assert (str(upstream.name), upstream.calls, upstream.is_bad, upstream.share) == ("library", "3", True, 100)
    assert traffic.own.calls == "1"
    assert [finding.words for finding in context["findings"]] == ["1 connection has an error: library."]


def test_who_may_not_see_connections_finds_none_on_the_map(log_in):
    McpConnectionFactory(slug="library")
    calls(1)
    client = log_in("Viewer")
    client.user.groups.clear()
    from django.contrib.auth.models import Permission

    client.user.user_permissions.add(Permission.objects.get(codename="view_mcptoolinvocation"))
    page = client.get(reverse("admin:index"))
    assert page.context["traffic"].upstreams == []
    assert "library" not in page.content.decode()


def test_before_the_first_call_it_says_what_to_do_instead_of_zeros(log_in):
    context = shown(log_in("superuser"))
    assert next(words for words, _purpose, _link in context["steps"]) == "Add a connection to an MCP server"
    assert not {"Calls", "Errors", "Active sessions"} & {tile["title"] for tile in context["tiles"]}


def used_of(quota: McpQuota, subject: str, used: int) -> None:
    charge = Charge(quota.compiled(), subject, 0)
    window = charge.window(time.time())
    fields = {"unit": quota.unit, "begins": window.begins, "ends": window.ends}
    QuotaCount.objects.create(key=charge.key(window), quota=quota, subject=subject, used=used, **fields)


def test_the_five_nearest_to_a_quota_lead_to_it(log_in):
    calls(1)
    key, _text = ApiKey.issue("desk of ada", scopes=["tools:call"])
    quota = McpQuota.objects.create(name="daily", soft_limit=8, hard_limit=10)
    used_of(quota, f"key:{key.pk}", 9)
    for number in range(6):
        used_of(quota, f"user:{900_000 + number}", number)
    soft = McpQuota.objects.create(name="traffic", per="all", unit="bytes", soft_limit=1000)
    used_of(soft, "all", 2000)
    page = log_in("superuser").get(reverse("admin:index"), {"range": "1h"})
    budgets = page.context["panels"][0]["budgets"]
    assert [(row["quota"], row["share"]) for row in budgets] == [
        ("traffic", 200),
        ("daily", 90),
        ("daily", 50),
        ("daily", 40),
        ("daily", 30),
    ]
    words = page.content.decode()
    assert "desk of ada" in words
    assert "warning only" in words
    assert budgets[1]["link"] == reverse("admin:invocations_mcpquota_change", args=[quota.pk])
    assert budgets[1]["link"] in words


def test_without_quotas_or_the_right_to_see_them_the_overview_says_nothing_of_them(log_in):
    from django.contrib.auth.models import Permission

    calls(1)
    assert "hub-budgets" not in log_in("superuser").get(reverse("admin:index")).content.decode()
    used_of(McpQuota.objects.create(name="daily", hard_limit=10), "user:1", 9)
    client = log_in("Viewer")
    client.user.groups.clear()
    client.user.user_permissions.add(Permission.objects.get(codename="view_mcptoolinvocation"))
    assert "hub-budgets" not in client.get(reverse("admin:index")).content.decode()


def test_quotas_cost_the_overview_no_further_statement_when_there_are_some(log_in):
    key, _text = ApiKey.issue("desk of ada", scopes=["tools:call"])
    calls(1, principal=key.principal)
    client = log_in("superuser")
    shown(client)  # what is cached after the first time is not counted
    with CaptureQueriesContext(connection) as before:
        shown(client)
    quota = McpQuota.objects.create(name="daily", hard_limit=10)
    for subject in (key.principal, f"user:{client.user.pk}", f"group:{GroupFactory().pk}"):
        used_of(quota, subject, 9)
    with CaptureQueriesContext(connection) as after:
        assert len(shown(client)["panels"][0]["budgets"]) == 3
    assert len(after) == len(before)
