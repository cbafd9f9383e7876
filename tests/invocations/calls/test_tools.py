"""The starter pack's tools over the hub's own audit: names and figures, never bodies."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from django.utils import timezone

from invocations.call.context import CallContext
from invocations.call.running import UnrecordedWork
from invocations.call_source import CallSource
from invocations.configuration import Configuration
from invocations.exchange import CallExchange
from invocations.tools import recent_invocations, tool_statistics
from sessions_app.caller import Caller
from tests.factories import McpToolInvocationFactory
from tools_catalog.backends.threads import SyncContext

pytestmark = pytest.mark.usefixtures("transactional_db")


def context(*scopes, principal="key:1"):
    caller = Caller(principal=principal, label="laptop", scopes=frozenset(scopes))
    source = CallSource(caller=caller, session_id="s", transport="sse")
    loop = asyncio.new_event_loop()
    loop.close()
    return SyncContext(
        CallContext(
            CallExchange(source=source, configuration=Configuration()),
            "tool",
            "id",
            UnrecordedWork(source, "1", None, 10),
        ),
        loop,
    )


def test_caller_sees_its_own_calls_and_a_reader_of_the_audit_all():
    McpToolInvocationFactory(principal="key:1")
    McpToolInvocationFactory(principal="key:2", tool_name="add")
    own, foreign, reader = context("tools:call"), context(principal="anonymous"), context("audit:read")
    assert [[call.tool for call in recent_invocations(seen).invocations] for seen in (own, foreign, reader)] == [
        ["echo"],
        [],
        ["add", "echo"],
    ]
    assert [[figures.tool for figures in tool_statistics(seen).tools] for seen in (own, foreign, reader)] == [
        ["echo"],
        [],
        ["add", "echo"],
    ]
    assert recent_invocations(own, tool="add").invocations == []


def test_newest_calls_come_first_and_show_no_bodies():
    McpToolInvocationFactory(tool_name="echo", arguments={"secret": "hush"})
    McpToolInvocationFactory(tool_name="add", failed=True)
    told = recent_invocations(context("audit:read"))
    assert [(call.tool, call.status, call.error_code) for call in told.invocations] == [
        ("add", "error", "execution_error"),
        ("echo", "ok", ""),
    ]
    assert "hush" not in told.model_dump_json()


def test_calls_can_be_narrowed_by_tool_status_and_number():
    for failed in (False, True, False):
        McpToolInvocationFactory(tool_name="echo", failed=failed)
    McpToolInvocationFactory(tool_name="add")
    assert len(recent_invocations(context("audit:read"), tool="echo").invocations) == 3
    assert len(recent_invocations(context("audit:read"), tool="echo", status="error").invocations) == 1
    assert len(recent_invocations(context("audit:read"), limit=2).invocations) == 2


def test_figures_count_the_calls_of_the_last_hours():
    for duration in (10, 20):
        McpToolInvocationFactory(tool_name="echo", duration_ms=duration)
    McpToolInvocationFactory(tool_name="echo", failed=True, duration_ms=60)
    McpToolInvocationFactory(tool_name="old", received_at=timezone.now() - timedelta(hours=3))
    McpToolInvocationFactory(tool_name="", failed=True)
    told = tool_statistics(context("audit:read"), hours=2)
    assert [figures.model_dump() for figures in told.tools] == [
        {"tool": "echo", "calls": 3, "errors": 1, "average_ms": 30.0, "slowest_ms": 60}
    ]
