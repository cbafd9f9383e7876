"""Quotas in the call path: what is counted and when, what is refused, and that it is exact between processes."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from invocations.ledger.records import Use
from invocations.models import McpRequestEnvelope, McpToolInvocation
from mcphub.features.quotas.counting import QUOTA_SUMS
from mcphub.features.quotas.models import QuotaCount
from mcphub.features.quotas.quota import QuotaRule, Quotas, charges_of_round
from mcphub.features.quotas.rules import SUBJECT
from mcphub.features.quotas.spending import Spending
from mcphub.features.quotas.windows import DAY, MONTH
from sessions_app.caller import Caller
from sessions_app.models import McpSession
from sessions_app.protocol import json
from sessions_app.protocol.errors import AuditUnavailable, QuotaReached, SessionNotFound
from tests.invocations.calls.call_path import CALLER, CallPath, gives, invocations, live_session, run, tool
from tests.invocations.calls.flaky import Plan
from tests.waiting import until_let
from tools_catalog.call.base import ToolResult

pytestmark = pytest.mark.usefixtures("transactional_db")

OTHER = Caller(principal="key:2", label="", scopes=CALLER.scopes)


def quota(**changes: Any) -> QuotaRule:
    values = {"key": 1, "name": "daily", "per": "person", "unit": "calls", "period": DAY, "hard": 2}
    return QuotaRule(**{**values, **changes})


async def sums() -> dict[str, int]:
    rows = await sync_to_async(lambda: list(QuotaCount.objects.values_list("subject", "used")))()
    return dict(rows)


async def refused(call_path: CallPath, **more: Any) -> QuotaReached:
    with pytest.raises(QuotaReached) as found:
        await call_path.call(**more)
    return found.value


def test_calls_up_to_the_limit_are_made_and_the_next_is_refused_until_the_window_ends() -> None:
    async def scenario() -> None:
        script = gives(ToolResult(content=[]))
        async with CallPath(tool(script), quotas=Quotas([quota(words="Ask Ann.")])) as call_path:
            await call_path.call()
            await call_path.call()
            before = datetime.now(UTC)
            error = await refused(call_path)
            after = datetime.now(UTC)
            again = await refused(call_path)
            await call_path.call(caller=OTHER)
        assert len(script.effects) == 3
        assert await sums() == {"key:1": 2, "key:2": 1}
        assert error.code == again.code == "quota_reached"
        assert (error.details["quota"], error.details["limit"], error.details["used"]) == ("daily", 2, 2)
        ends = datetime.fromisoformat(str(error.details["resetsAt"]))
        least, most = ((ends - moment).total_seconds() for moment in (after, before))
        assert least <= error.details["retryAfterSeconds"] <= most + 1  # whole seconds, rounded up
        assert error.retry_after_seconds == error.details["retryAfterSeconds"]
        assert "The quota daily of 2 calls a day is used up. Ask Ann." in str(error)

    run(scenario)


def test_a_refusal_is_on_record_with_the_name_of_the_quota() -> None:
    async def scenario() -> None:
        async with CallPath(tool(gives(ToolResult(content=[]))), quotas=Quotas([quota(hard=1)])) as call_path:
            await call_path.call()
            error = await refused(call_path)
            assert call_path.calls.stages.one(Spending).refusals == {"daily": 1}
        row = (await invocations())[-1]
        assert (row.error_code, row.invocation_id) == ("quota_reached", error.invocation_id)
        assert row.error["data"]["details"]["quota"] == "daily"
        assert row.error["data"]["retryAfterSeconds"] == row.error["data"]["details"]["retryAfterSeconds"]
        assert row.tool_name == "act"

    run(scenario)


def test_a_refused_call_leaves_no_envelope_and_no_key() -> None:
    async def scenario() -> None:
        async with (
            CallPath(tool(gives(ToolResult(content=[]))), quotas=Quotas([quota(hard=1)])) as one,
            CallPath(tool(gives(ToolResult(content=[])))) as other,
        ):
            await one.call()
            await refused(one, idempotency_key="k")
            assert await sync_to_async(McpRequestEnvelope.objects.count)() == 1
            assert not (await other.call(idempotency_key="k")).duplicate_of

    run(scenario)


def test_a_call_and_its_repeat_at_once_are_both_refused_where_all_is_used_up() -> None:
    async def scenario() -> None:
        script = gives(ToolResult(content=[]))
        quotas = Quotas([quota(hard=1)])
        # The second does not know yet that all is used up: the commit of both intents finds it.
        async with CallPath(tool(script), quotas=quotas) as one, CallPath(tool(script), quotas=quotas) as other:
            await one.call()
            await asyncio.gather(refused(other, idempotency_key="k"), refused(other, idempotency_key="k"))
            assert await sync_to_async(McpRequestEnvelope.objects.count)() == 1
        assert len(script.effects) == 1
        assert await sums() == {"key:1": 1}

    run(scenario)


def test_a_repeat_counts_nothing_and_is_answered_when_all_is_used_up() -> None:
    async def scenario() -> None:
        async with CallPath(tool(gives(ToolResult(content=[]))), quotas=Quotas([quota(hard=1)])) as call_path:
            first = await call_path.call(idempotency_key="k")
            assert (await call_path.call(idempotency_key="k")).duplicate_of == first.invocation_id
            await refused(call_path)
            assert (await call_path.call(idempotency_key="k")).duplicate_of == first.invocation_id
        assert await sums() == {"key:1": 1}

    run(scenario)


def test_tools_that_only_read_are_counted_too() -> None:
    async def scenario() -> None:
        only_reads = tool(gives(ToolResult(content=[])), read_only=True)
        async with CallPath(only_reads, quotas=Quotas([quota(hard=1)])) as call_path:
            await call_path.call()
            await refused(call_path)

    run(scenario)


def test_calls_that_no_quota_is_about_are_not_counted() -> None:
    async def scenario() -> None:
        about = quota(applies_to="tool", target="other*", hard=1)
        async with CallPath(tool(gives(ToolResult(content=[]))), quotas=Quotas([about])) as call_path:
            for _ in range(3):
                await call_path.call()
        assert await sums() == {}

    run(scenario)


def test_of_several_quotas_a_full_one_refuses_and_nothing_is_counted() -> None:
    async def scenario() -> None:
        both = Quotas([quota(hard=1), quota(key=2, name="monthly", period=MONTH, per="all", hard=5)])
        async with CallPath(tool(gives(ToolResult(content=[]))), quotas=both) as call_path:
            await call_path.call()
            assert (await refused(call_path)).details["quota"] == "daily"
        assert await sums() == {"key:1": 1, "all": 1}

    run(scenario)


def test_bytes_of_arguments_and_results_are_counted_and_the_call_beyond_is_refused() -> None:
    async def scenario() -> None:
        answer = ToolResult(content=[{"type": "text", "text": "ü" * 100}])
        async with CallPath(tool(gives(answer)), quotas=Quotas([quota(unit="bytes", hard=300)])) as call_path:
            arguments = {"said": "ä" * 10}
            await call_path.call(arguments=arguments)
            size = len(json.canonical(arguments).encode()) + len(json.canonical(answer.wire()).encode())
            assert await sums() == {"key:1": size}
            assert 200 < size < 300
            await call_path.call()  # it is below the limit, so it is made, however large its result
            assert (await sums())["key:1"] > 300
            await refused(call_path)

    run(scenario)


def test_from_the_soft_limit_on_the_result_warns() -> None:
    async def scenario() -> None:
        async with CallPath(tool(gives(ToolResult(content=[]))), quotas=Quotas([quota(soft=2, hard=3)])) as call_path:
            assert (await call_path.call()).told == {}
            (told,) = (await call_path.call()).told["mcphub/quota"]
        assert {**told, "resetsAt": ""} == {
            "quota": "daily",
            "unit": "calls",
            "used": 2,
            "warnsAt": 2,
            "limit": 3,
            "resetsAt": "",
        }

    run(scenario)


def test_a_higher_limit_holds_at_once_and_an_emptied_sum_within_a_second() -> None:
    async def scenario() -> None:
        async with CallPath(tool(gives(ToolResult(content=[]))), quotas=Quotas([quota(hard=1)])) as call_path:
            await call_path.call()
            await refused(call_path)
            call_path.configuration = replace(call_path.configuration, additions={SUBJECT: Quotas([quota(hard=2)])})
            await call_path.call()
            await refused(call_path)
            await sync_to_async(QuotaCount.objects.all().delete)()
            await until_let(call_path.call, QuotaReached)

    run(scenario)


def test_many_calls_at_once_in_two_processes_are_made_exactly_so_often() -> None:
    async def scenario() -> None:
        script = gives(ToolResult(content=[]))
        quotas = Quotas([quota(hard=25), quota(key=2, name="all", per="all", hard=1000, period=MONTH)])
        async with CallPath(tool(script), quotas=quotas) as one, CallPath(tool(script), quotas=quotas) as other:
            calls = [call_path.call() for _ in range(30) for call_path in (one, other)]
            ended = await asyncio.gather(*calls, return_exceptions=True)
        made = [each for each in ended if not isinstance(each, BaseException)]
        assert len(made) == len(script.effects) == 25
        assert {type(each) for each in ended if isinstance(each, BaseException)} == {QuotaReached}
        assert await sums() == {"key:1": 25, "all": 25}
        assert await sync_to_async(McpToolInvocation.objects.filter(status="ok").count)() == 25

    run(scenario)


def test_a_session_that_ended_counts_nothing() -> None:
    session = live_session()

    async def scenario() -> None:
        async with CallPath(tool(gives(ToolResult(content=[]))), quotas=Quotas([quota()])) as call_path:
            await call_path.call(session=session, request_id=1)
            await sync_to_async(lambda: McpSession.objects.filter(session_id=session).close("over"))()
            with pytest.raises(SessionNotFound):
                await call_path.call(session=session, request_id=2)
        assert await sums() == {"key:1": 1}

    run(scenario)


@pytest.mark.parametrize("after", [False, True])
def test_what_a_broken_connection_leaves_in_doubt_is_counted_once(after: bool) -> None:
    both = Quotas([quota(hard=1000), quota(key=2, name="size", per="all", unit="bytes", hard=10**9)])
    answer = ToolResult(content=[{"type": "text", "text": "x" * 50}])
    size = len(json.canonical(answer.wire()))

    async def scenario(nth: int) -> bool:
        plan = Plan(nth, after=after)
        async with CallPath(tool(gives(answer)), quotas=both, connect=plan.connect) as call_path:
            with contextlib.suppress(AuditUnavailable):
                await call_path.call()
        return plan.failed

    nth = 1
    while run(partial(scenario, nth)):
        nth += 1
        made = McpToolInvocation.objects.filter(status="ok").count()
        intended = McpRequestEnvelope.objects.count()
        found = dict(QuotaCount.objects.values_list("subject", "used"))
        assert (found["key:1"], found["all"]) == (intended, 2 * intended + size * made)
    assert nth > 8


# Rounds of the chat --------------------------------------------------------------------------------


def test_what_rounds_use_in_two_processes_is_counted_to_the_token_and_millionth() -> None:
    rules = [
        quota(unit="tokens", hard=10**9),
        quota(key=2, name="spent", per="all", unit="money", period=MONTH, hard=10**9),
    ]
    rounds = [
        Use(
            {
                QUOTA_SUMS: charges_of_round(
                    rules, CALLER, tokens=number, cost=3 * number if number % 4 else None, is_estimated=True
                )
            }
        )
        for number in range(40)
    ]

    async def scenario() -> None:
        async with CallPath() as one, CallPath() as other:
            ledgers = (one.ledger, other.ledger)
            verdicts = await asyncio.gather(*(ledgers[at % 2].append(use) for at, use in enumerate(rounds)))
        assert max(verdict.said[QUOTA_SUMS][0].used for verdict in verdicts) == sum(range(40))
        rows = await sync_to_async(
            lambda: {row.subject: (row.used, row.estimated, row.unpriced) for row in QuotaCount.objects.all()}
        )()
        money = sum(3 * number for number in range(40) if number % 4)
        assert rows == {"key:1": (sum(range(40)), sum(range(40)), 0), "all": (money, money, 10)}

    run(scenario)


def test_what_a_round_used_is_written_though_nobody_waits_for_it() -> None:
    async def scenario() -> None:
        async with CallPath() as call_path:
            use = Use({QUOTA_SUMS: charges_of_round([quota(unit="tokens")], CALLER, tokens=7)})
            call_path.ledger.append(use).cancel()
        assert await sums() == {"key:1": 7}

    run(scenario)


@pytest.mark.parametrize("after", [False, True])
def test_what_a_round_used_is_never_counted_twice(after: bool) -> None:
    async def scenario(nth: int) -> bool:
        plan = Plan(nth, after=after)
        async with CallPath(connect=plan.connect) as call_path:
            with contextlib.suppress(AuditUnavailable):
                await call_path.ledger.append(
                    Use({QUOTA_SUMS: charges_of_round([quota(unit="tokens")], CALLER, tokens=7)})
                )
        return plan.failed

    nth, counted = 1, []
    while run(partial(scenario, nth)):
        nth += 1
        counted.append(QuotaCount.objects.filter(used=7).exists())
        assert QuotaCount.objects.filter(used__gt=7).count() == 0
        QuotaCount.objects.all().delete()
    assert nth > 3
    assert counted.count(False) <= 1
