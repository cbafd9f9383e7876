"""Calls that a dead process left open become interrupted, once, whoever notices; those of the living are left alone."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from datetime import timedelta

import pytest
from django.utils import timezone

from invocations.mapping.error_map import ErrorMap
from invocations.models import McpToolInvocation
from invocations.recovery import interrupted
from mcphub.process import membership
from sessions_app.models import ServerProcess
from tests.factories import McpRequestEnvelopeFactory, McpToolInvocationFactory, ServerProcessFactory
from tests.invocations.calls.call_path import CallPath, Held, invocations, run, source, tool

pytestmark = pytest.mark.usefixtures("transactional_db")

CONTEXT = {"transport": "sse", "client_name": "client", "caller_label": "tester"}


def recover(host="host"):
    return interrupted.recover(host, "own", ErrorMap())


def left_open(**process):
    values = {"last_seen_at": timezone.now() - timedelta(hours=1), **process}
    return McpRequestEnvelopeFactory(
        process=ServerProcessFactory(**values), context=CONTEXT, params={"name": "echo", "arguments": {"a": 1}}
    )


def test_open_call_of_a_silent_process_is_recorded_once_with_all_its_facts():
    envelope = left_open()
    assert recover() == 1
    assert recover() == 0
    row = McpToolInvocation.objects.get()
    assert (row.status, row.error_code, row.result) == ("error", "interrupted", None)
    assert row.error["data"] == {
        "errorCode": "interrupted",
        "details": {},
        "retryable": False,
        "invocationId": envelope.invocation_id,
        "correlationId": envelope.invocation_id,
    }
    assert (row.arguments, row.transport, row.client_name) == ({"a": 1}, "sse", "client")
    assert (row.session_id, row.process_id, row.request_id) == (envelope.session_id, envelope.process_id, 1)
    process = ServerProcess.objects.get(pk=envelope.process_id)
    assert (process.status, process.stopped_at is not None) == ("error", True)


def test_call_that_the_table_refuses_is_told_of_and_keeps_no_other_from_its_record(caplog):
    envelope = left_open()
    refused = McpRequestEnvelopeFactory(process=envelope.process, context={**CONTEXT, "transport": ""})
    assert recover() == 1
    assert recover() == 0
    assert McpToolInvocation.objects.get().invocation_id == envelope.invocation_id != refused.invocation_id
    assert "1 calls of processes that are gone cannot be recorded" in caplog.text


def test_call_whose_outcome_is_there_is_left_alone():
    envelope = left_open()
    McpToolInvocationFactory(invocation_id=envelope.invocation_id, process=envelope.process)
    assert recover() == 0
    assert McpToolInvocation.objects.get().status == "ok"


def test_process_seen_a_moment_ago_is_alive_where_its_number_tells_nothing():
    left_open(last_seen_at=timezone.now())
    assert recover() == 0


def test_process_of_this_machine_is_known_to_be_gone_at_once():
    mark = interrupted.boot_mark(os.getpid())
    left_open(last_seen_at=timezone.now(), pid=os.getpid(), boot_mark=mark[:-1] + ("1" if mark[-1] != "1" else "2"))
    assert recover() == 1


def test_process_of_this_machine_that_runs_is_alive_however_silent():
    left_open(pid=os.getpid(), boot_mark=interrupted.boot_mark(os.getpid()))
    assert recover() == 0


def test_process_of_another_container_with_the_same_host_name_is_judged_by_its_silence():
    left_open(last_seen_at=timezone.now(), pid=os.getpid(), boot_mark="anotherboot:4026531836:12345")
    assert recover() == 0


def test_process_of_this_machine_that_cannot_be_looked_up_is_not_taken_for_dead():
    process = ServerProcessFactory.build(host="host", pid=os.getpid(), boot_mark=interrupted.boot_mark(os.getpid()))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))  # no further file opens
    try:
        assert interrupted.boot_mark(os.getpid()) == ""
        assert not interrupted.is_gone(process, "host")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.program
def test_stopped_process_of_this_machine_lives():
    """SIGSTOP, as a debugger or a frozen container does: it goes on where it was."""
    child = subprocess.Popen(["sleep", "1000"])
    try:
        process = ServerProcessFactory.build(
            host="host",
            pid=child.pid,
            boot_mark=interrupted.boot_mark(child.pid),
            last_seen_at=timezone.now() - timedelta(hours=1),
        )
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        assert not interrupted.is_gone(process, "host")
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and its parent has not asked for it
        assert interrupted.is_gone(process, "host")
    finally:
        child.kill()
        child.wait()


def test_process_that_woke_up_after_it_was_taken_for_dead_serves_again():
    row = left_open().process
    recover()
    row.refresh_from_db()
    assert interrupted.has_ended(row, "host")
    ServerProcess.objects.filter(pk=row.pk).update(last_seen_at=timezone.now())
    row.refresh_from_db()
    assert not interrupted.has_ended(row, "host")
    assert membership.living().filter(pk=row.pk).exists()


@pytest.mark.parametrize("status", ["stopped"])
def test_process_that_stopped_is_not_looked_at(status):
    left_open(status=status, stopped_at=timezone.now())
    assert recover() == 0


def test_own_process_is_never_dead():
    McpRequestEnvelopeFactory(
        process=ServerProcessFactory(process_id="own", last_seen_at=timezone.now() - timedelta(1))
    )
    assert recover() == 0


def test_process_that_woke_up_after_it_was_taken_for_dead_is_recovered_again():
    envelope = left_open()
    recover()
    long_ago = timezone.now() - timedelta(hours=1)
    ServerProcess.objects.update(stopped_at=long_ago, last_seen_at=long_ago + timedelta(minutes=1))
    McpRequestEnvelopeFactory(process=envelope.process, context=CONTEXT)
    assert recover() == 1
    assert recover() == 0


def test_commit_that_arrives_after_the_death_was_noticed_is_recovered():
    envelope = left_open()
    recover()
    McpRequestEnvelopeFactory(process=envelope.process, context=CONTEXT)
    assert recover() == 1
    ServerProcess.objects.update(stopped_at=timezone.now() - timedelta(hours=1))
    assert recover() == 0


def test_number_that_no_process_has_gives_no_mark():
    assert interrupted.boot_mark(2**22 + 1) == ""


def test_process_taken_for_dead_while_a_call_ran_gives_no_answer_for_it():
    from asgiref.sync import sync_to_async

    from sessions_app.protocol.errors import AuditUnavailable

    async def scenario():
        held = Held()
        async with CallPath(tool(held)) as call_path:
            await sync_to_async(ServerProcessFactory)(
                process_id=call_path.process_id, last_seen_at=timezone.now() - timedelta(hours=1)
            )
            call = call_path.start(session=None)
            await held.entered.wait()
            assert await sync_to_async(recover)() == 1
            held.release.set()
            with pytest.raises(AuditUnavailable):
                await call
        (row,) = await invocations()
        assert row.error_code == "interrupted"
        assert row.transport == source().transport

    run(scenario)
