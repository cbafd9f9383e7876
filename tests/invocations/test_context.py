"""What a running tool may say, and when nobody hears it."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

from invocations.call.context import CallContext
from invocations.call.running import UnrecordedWork
from invocations.call_source import NULL_CHANNEL, CallSource, clip
from invocations.configuration import Configuration
from invocations.exchange import CallExchange
from invocations.ledger.rows import Rows
from sessions_app.caller import ANONYMOUS
from sessions_app.protocol import json
from sessions_app.protocol.errors import MissingClientCapability
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.backends.context import Context


class Channel:
    def __init__(self):
        self.heard = []

    async def notify(self, method, params):
        self.heard.append((method, params))


def context(channel=None, token=None, level=None, **facts):
    source = CallSource(caller=ANONYMOUS, session_id="s", transport="sse", **facts)
    exchange = CallExchange(
        source=source,
        configuration=Configuration(),
        channel=channel or NULL_CHANNEL,
        progress_token=token,
        log_level=level,
    )
    return CallContext(exchange, "tool", "id", UnrecordedWork(source, "1", None, math.inf))


def said(act, **facts):
    channel = Channel()
    asyncio.run(act(context(channel, **facts).notifier))
    return channel.heard


def test_progress_goes_to_the_token_of_the_client_and_only_upwards():
    async def act(tool):
        await tool.progress(1, 3, "one")
        for step in (1, 0.5, math.nan):
            await tool.progress(step)
        await tool.progress(2)

    assert said(act, token=0) == [
        ("notifications/progress", {"progressToken": 0, "progress": 1, "total": 3, "message": "one"}),
        ("notifications/progress", {"progressToken": 0, "progress": 2}),
    ]


def test_progress_is_not_said_to_who_gave_no_token():
    assert said(lambda tool: tool.progress(1)) == []
    asyncio.run(context(None, "t").notifier.progress(1))


def test_log_is_said_from_the_level_that_the_client_asked_for():
    async def act(tool):
        await tool.log("info", {"a": 1})
        await tool.log("warning", "careful", "disk")
        await tool.log("emergency", None)

    assert said(act, level="warning") == [
        ("notifications/message", {"level": "warning", "data": "careful", "logger": "disk"}),
        ("notifications/message", {"level": "emergency", "data": None}),
    ]


@pytest.mark.parametrize("level", [None, "loud"])
def test_log_is_not_said_to_who_asked_for_none(level):
    assert said(lambda tool: tool.log("emergency", "x"), level=level) == []


def test_level_that_mcp_has_not_is_refused():
    with pytest.raises(ValueError, match="loud"):
        said(lambda tool: tool.log("loud", "x"), level="debug")


def test_time_that_remains_is_never_negative():
    work = context().deadline
    assert work.remaining_seconds() == math.inf
    work.deadline = 0.0
    assert work.remaining_seconds() == 0


def test_capability_is_demanded_by_name():
    tool = Context(context(client_capabilities={"sampling": {}}))
    tool.require_capability("sampling")
    with pytest.raises(MissingClientCapability) as caught:
        tool.require_capability("roots")
    assert caught.value.spec_data == {"requiredCapabilities": {"roots": {}}}


@pytest.mark.parametrize(
    ("text", "column"), [("abc", "abc"), ("abcdef", "abcd"), ("a\x00b", "a�b"), ("a\ud800b", "a?b"), ("é🦊", "é🦊")]
)
def test_text_is_fitted_to_its_column(text, column):
    assert clip(text, 4) == column


def test_facts_for_recovery_are_made_once():
    source = CallSource(caller=ANONYMOUS, session_id="s", transport="sse", client_name="c" * 500)
    assert json.loads(source.recovery_facts.encode())["client_name"] == "c" * 200
    assert source.recovery_facts is source.recovery_facts


@pytest.mark.parametrize(("is_sqlite", "zone"), [(True, ""), (False, "+00")])
def test_moments_are_written_as_the_database_reads_them(is_sqlite, zone):
    rows = Rows(is_sqlite, "p")
    assert rows.moment(0) == f"1970-01-01 00:00:00.000000{zone}"
    assert rows.moment(3599.5) == f"1970-01-01 00:59:59.500000{zone}"
    assert rows.moment(1_600_000_000.25) == f"2020-09-13 12:26:40.250000{zone}"


def test_the_clock_stands_still_while_the_client_is_waited_for():
    work = context().deadline
    work.deadline = time.monotonic() + 1000
    with work.waiting_for_client():
        assert work.remaining_seconds() == math.inf
        with work.waiting_for_client():
            pass
        assert work.remaining_seconds() == math.inf  # another question is open still
    assert 1000 - PATIENCE_SECONDS < work.remaining_seconds() <= 1000
