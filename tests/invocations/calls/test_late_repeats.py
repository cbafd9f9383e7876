"""A repeat that comes after retention took the first answer: told so at once, and never made again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.utils import timezone

from invocations.chain import service
from invocations.chain.models import AuditHold
from invocations.chain.sealer import Sealer
from invocations.models import McpToolInvocation
from invocations.recovery.open_calls import OpenCalls
from sessions_app.protocol.errors import DuplicateRequest, ExecutionError
from tests.invocations.calls.call_path import CallPath, Held, Script, gives, invocations, live_session, run, tool
from tests.invocations.chain.rows import retain
from tools_catalog.call.base import ToolResult

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture(autouse=True)
def _folder(settings, tmp_path, transactional_db):
    settings.MCPHUB_AUDIT_DIR = tmp_path / "audit"


def called_again(script, policy, *, read_only=False, by_key=True, before=None):
    """Call, let retention work, call again from another process; give the refusal and the first row as it was."""
    session = None if by_key else live_session()
    same = {"idempotency_key": "k"} if by_key else {"session": session, "request_id": 1}

    async def scenario():
        async with (
            CallPath(tool(script, read_only=read_only)) as one,
            CallPath(tool(script, read_only=read_only)) as other,
        ):
            await one.call(arguments={"a": 1}, **same)
            (row,) = await invocations()
            if before is not None:
                await sync_to_async(before)()
            await sync_to_async(retain)(**policy)
            with pytest.raises(DuplicateRequest) as refused:
                await other.call(arguments={"a": 1}, **same)
        made = [row async for row in McpToolInvocation.objects.filter(duplicate_of=row.invocation_id)]
        assert [each.error_code for each in made] == ["duplicate_request"]
        return refused.value, row

    return run(scenario)


@pytest.mark.parametrize("by_key", [True, False], ids=["key of the caller", "request id of a session"])
@pytest.mark.parametrize("read_only", [False, True])
def test_repeat_whose_first_answer_was_erased_is_told_how_the_first_ended(read_only, by_key):
    script = Script()
    refused, row = called_again(script, {"bodies_days": 30}, read_only=read_only, by_key=by_key)
    finished = row.finished_at.isoformat(timespec="milliseconds")
    assert refused.details == {"first": row.invocation_id, "status": "ok", "finished_at": finished}
    assert "succeeded, and is not made again" in refused.message
    assert len(script.effects) == (2 if read_only else 1)


def test_repeat_of_a_failure_that_was_erased_names_its_code():
    refused, row = called_again(gives(ExecutionError("no")), {"bodies_days": 30})
    assert (refused.details["status"], refused.details["error_code"]) == ("error", "execution_error")
    assert refused.details["first"] == row.invocation_id


@pytest.mark.parametrize("read_only", [False, True])
def test_repeat_whose_first_rows_were_removed_does_not_wait_for_them(read_only):
    script = Script()
    refused, row = called_again(script, {"rows_days": 30}, read_only=read_only)
    assert refused.details == {"first": row.invocation_id}
    assert "has ended, and is not made again" in refused.message
    assert len(script.effects) == (2 if read_only else 1)


def test_repeat_whose_first_outcome_alone_was_removed_does_not_wait_either():
    """A hold of blocks may keep an envelope longer than its outcome."""

    def seal_the_envelope_apart():
        log, keys = service.log_on(connection), service.keys()
        Sealer(log, keys, now=lambda: timezone.now() - timedelta(days=40)).seal()
        AuditHold.objects.create(name="case", reason="court", first_block=0, last_block=0)
        OpenCalls().look()

    async def scenario():
        held = Held()
        async with CallPath(tool(held)) as call_path, CallPath(tool(held)) as other:
            first = call_path.start(idempotency_key="k")
            await held.entered.wait()
            await sync_to_async(seal_the_envelope_apart)()
            held.release.set()
            made = await first
            await sync_to_async(OpenCalls().look)()
            await sync_to_async(retain)(rows_days=30)
            assert await invocations() == []
            with pytest.raises(DuplicateRequest) as refused:
                await other.call(idempotency_key="k")
        assert refused.value.details == {"first": made.invocation_id}
        assert len(held.effects) == 1

    run(scenario)


def test_repeat_of_a_failure_that_was_too_long_to_keep_is_told_its_words(settings):
    settings.MCPHUB_AUDIT_BODY_CHARACTERS = 2000
    long = ToolResult(content=[{"type": "text", "text": "x" * 5000}], is_error=True)

    async def scenario():
        async with CallPath(tool(gives(long))) as call_path:
            await call_path.call(idempotency_key="k")
            again = await call_path.call(idempotency_key="k")
        assert again.is_error
        assert again.wire["content"][0]["text"].startswith("xxx")

    run(scenario)
