"""How much of the audit one caller may fill, and what becomes of calls where the disk is nearly full."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings

from invocations.columns import ENVELOPE, INVOCATION
from invocations.ledger.disk import DiskSpace
from invocations.ledger.quota import BUCKET
from invocations.ledger.records import ROW_BYTES
from invocations.models import McpRequestEnvelope, McpToolInvocation
from sessions_app.caller import Caller, Keys
from sessions_app.models import RateLimitBucket
from sessions_app.protocol import json
from sessions_app.protocol.errors import AuditUnavailable, RateLimited
from tests.invocations.calls.call_path import CALLER, CallPath, gives, run, tool
from tests.waiting import until_let
from tools_catalog.call.base import ToolResult

LARGE = ToolResult(content=[{"type": "text", "text": "x" * 200_000}])
OTHER = Caller(principal="key:2", label="", scopes=CALLER.scopes)
MIB = 1024 * 1024


@pytest.fixture
def one_mib_a_day(transactional_db: None, settings: LazySettings) -> None:
    settings.MCPHUB_RECORDED_MIB_PER_DAY = 1


async def filled(call_path: CallPath, most: int = 50) -> int:
    """Call until that is refused; give how often the tool ran."""
    count = 0

    async def calling() -> None:
        nonlocal count
        while count < most:
            await call_path.call()
            count += 1

    with pytest.raises(RateLimited, match=r"more of the audit than the 1 MiB a day .* Try again in \d+ s\.") as refused:
        await calling()
    assert refused.value.retry_after_seconds is not None
    return count


def stored_sizes() -> list[int]:
    tables = ((INVOCATION, McpToolInvocation), (ENVELOPE, McpRequestEnvelope))
    return [
        ROW_BYTES + sum(len(json.canonical(body).encode()) for body in row if body is not None)
        for table, model in tables
        for row in model.objects.values_list(*table.bodies)
    ]


def tokens(principal: str = "key:1") -> float:
    return RateLimitBucket.objects.get(pk=f"{principal} {BUCKET}").tokens


@pytest.mark.usefixtures("one_mib_a_day")
def test_a_caller_who_has_filled_its_part_of_the_audit_is_refused_and_others_are_not() -> None:
    async def scenario() -> None:
        async with CallPath(tool(gives(LARGE))) as call_path:
            assert 5 <= await filled(call_path) <= 12
            await call_path.call(caller=OTHER)

    run(scenario)


@pytest.mark.usefixtures("one_mib_a_day")
def test_what_two_processes_record_is_drawn_from_one_bucket_to_the_byte() -> None:
    async def scenario() -> None:
        began = time.monotonic()
        async with CallPath(tool(gives(LARGE))) as one, CallPath(tool(gives(LARGE))) as other:
            for call_path in (one, other, one, other):
                await call_path.call()
            await one.call(arguments={"said": "ü" * 1000})
        sizes = await sync_to_async(stored_sizes)()
        assert len(sizes) == 10  # two rows a call, as the tool changes something
        drawn = (1 - await sync_to_async(tokens)()) * MIB
        filled = MIB * (time.monotonic() - began) / 86_400  # meanwhile, at most
        assert sum(sizes) - filled - 1 <= drawn <= sum(sizes) + 1

    run(scenario)


@pytest.mark.usefixtures("one_mib_a_day")
def test_a_filled_bucket_lets_the_caller_go_on() -> None:
    async def scenario() -> None:
        async with CallPath(tool(gives(LARGE))) as call_path:
            await filled(call_path)
            await sync_to_async(RateLimitBucket.objects.update)(tokens=1)
            await until_let(call_path.call, RateLimited)

    run(scenario)


@pytest.mark.usefixtures("one_mib_a_day")
@pytest.mark.parametrize(("own", "refused"), [(0, False), (1000, False), (1, True)])
def test_the_limit_of_the_key_counts_before_that_of_the_hub(own: int, refused: bool) -> None:
    async def scenario() -> None:
        async with CallPath(tool(gives(LARGE))) as call_path:
            caller = Caller(principal="key:1", label="", scopes=CALLER.scopes, recorded_mib_per_day=own)
            keys = Keys({b"": (caller, float("inf"))})
            call_path.configuration = type(call_path.configuration)(
                catalog=call_path.configuration.catalog, keys=keys, redaction=call_path.configuration.redaction
            )
            if refused:
                await filled(call_path)
                return
            for _ in range(12):
                await call_path.call()

    run(scenario)


@pytest.mark.usefixtures("one_mib_a_day")
def test_a_refusal_for_the_quota_is_on_record() -> None:
    async def scenario() -> None:
        async with CallPath(tool(gives(LARGE))) as call_path:
            await filled(call_path)
        assert await sync_to_async(McpToolInvocation.objects.filter(error_code="rate_limited").count)() == 1

    run(scenario)


@pytest.mark.usefixtures("transactional_db")
def test_on_a_disk_that_is_nearly_full_no_call_is_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        script = gives(LARGE)
        async with CallPath(tool(script)) as call_path:
            call_path.ledger.disk = DiskSpace(tmp_path, 2**62)
            call_path.ledger.disk.look()
            with pytest.raises(AuditUnavailable, match="MiB are free on the disk of the database"):
                await call_path.call()
        assert script.effects == []

    run(scenario)


def test_free_space_is_ok_low_or_short(tmp_path: Path) -> None:
    found = []
    for least in (0, 1, 2**62):
        disk = DiskSpace(tmp_path, least)
        disk.look()
        found.append((disk.is_short, disk.words is None))
    assert found == [(False, True), (False, True), (True, False)]
    disk = DiskSpace(tmp_path, 1)
    disk.look()
    assert disk.free_bytes
    low = DiskSpace(tmp_path, disk.free_bytes // 2)
    low.look()
    assert not low.is_short
    assert "below" in (low.words or "")
    gone = DiskSpace(tmp_path / "gone", 1)
    gone.look()
    assert not gone.is_short


def test_a_database_of_a_server_has_no_disk_to_watch() -> None:
    disk = DiskSpace(None, 2**62)
    disk.look()
    assert (disk.is_short, disk.words) == (False, None)
