"""The context of Python tools, and the threads of the sync ones."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from backend_peers import ScriptedContext, reference_of, run_tool, schema_of

from sessions_app.protocol import errors
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.backends.python import Context, PythonBackend, tool
from tools_catalog.backends.threads import WAITING_PER_THREAD, SyncContext, ToolThreads
from tools_catalog.call.base import ToolResult

whose = contextvars.ContextVar("whose", default="nobody")


def test_async_tool_talks_through_its_context() -> None:
    @tool
    async def f(context: Context) -> str:
        """Talk."""
        await context.progress(1, 2, "half")
        await context.log("info", {"a": 1}, "me")
        return context.caller_label

    context = ScriptedContext()
    assert run_tool(f, context=context).content[0]["text"] == "tester"
    assert context.sent == [("progress", 1, 2, "half"), ("log", "info", {"a": 1}, "me")]
    assert schema_of(f) == {"type": "object", "additionalProperties": False}


def test_sync_tool_runs_in_a_named_thread_with_context_and_variables() -> None:
    @tool
    def f(n: int, context: Context) -> dict[str, Any]:
        """Talk."""
        context.progress(1)  # type: ignore[unused-coroutine]
        context.log("info", "said")  # type: ignore[unused-coroutine]
        return {
            "thread": threading.current_thread().name,
            "whose": whose.get(),
            "left": context.remaining_seconds() > 5,
            "ids": [context.invocation_id, context.tool_name, context.caller_label],
            "capabilities": dict(context.client_capabilities),
        }

    async def go() -> tuple[ToolResult, ScriptedContext]:
        threads = ToolThreads(1, name="test-tool")
        whose.set("mine")
        context = ScriptedContext(client_capabilities={"roots": {}}, seconds=float("inf"))
        try:
            return await PythonBackend(reference_of(f), threads=threads).call({"n": 1}, context), context
        finally:
            threads.close()

    given, context = asyncio.run(go())
    assert given.structured == {
        "thread": "test-tool_0",
        "whose": "mine",
        "left": True,
        "ids": ["0199-test", "test", "tester"],
        "capabilities": {"roots": {}},
    }
    assert context.sent == [("progress", 1, None, None), ("log", "info", "said", None)]


def test_sync_tools_run_at_most_as_many_as_there_are_threads_and_excess_is_refused() -> None:
    release = threading.Event()
    entered = threading.Semaphore(0)
    running: list[int] = []
    most: list[int] = []

    @tool
    def holds() -> None:
        """Hold a thread."""
        running.append(1)
        most.append(len(running))
        entered.release()
        release.wait(PATIENCE_SECONDS)
        running.pop()

    async def go() -> int:
        threads = ToolThreads(2)
        backend = PythonBackend(reference_of(holds), threads=threads)
        limit = 2 * (1 + WAITING_PER_THREAD)
        tasks = [asyncio.create_task(backend.call({}, ScriptedContext())) for _ in range(limit)]
        for _ in range(2):
            assert await asyncio.to_thread(entered.acquire, timeout=PATIENCE_SECONDS)
        with pytest.raises(errors.ServerBusy):
            await backend.call({}, ScriptedContext())
        release.set()
        await asyncio.gather(*tasks)
        await backend.call({}, ScriptedContext())
        threads.close()
        return max(most)

    assert asyncio.run(go()) <= 2


def test_abandoned_sync_tool_learns_that_nobody_waits() -> None:
    started, cancelled, learned = threading.Event(), threading.Event(), threading.Event()

    @tool
    def stays(context: SyncContext) -> None:
        """Stay after the call."""
        started.set()
        cancelled.wait(PATIENCE_SECONDS)
        assert context.is_cancelled
        try:
            context.progress(1)
        except errors.Cancelled:
            learned.set()

    async def go() -> None:
        threads = ToolThreads(1)
        backend = PythonBackend(reference_of(stays), threads=threads)
        task = asyncio.create_task(backend.call({}, ScriptedContext()))
        assert await asyncio.to_thread(started.wait, PATIENCE_SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cancelled.set()
        threads.close()

    asyncio.run(go())
    assert learned.wait(PATIENCE_SECONDS)


def test_shared_threads_are_made_once_from_the_settings() -> None:
    from tools_catalog.backends.threads import shared_threads

    assert shared_threads() is shared_threads()


def test_a_caller_who_fills_the_threads_and_the_queue_keeps_nobody_else_waiting() -> None:
    release, entered = threading.Event(), threading.Semaphore(0)

    @tool
    def fills() -> None:
        """Hold a thread."""
        entered.release()
        release.wait(PATIENCE_SECONDS)

    @tool
    def passes() -> str:
        """Be quick."""
        return "passed"

    async def go() -> None:
        threads = ToolThreads(4)
        greedy = PythonBackend(reference_of(fills), threads=threads)
        other = PythonBackend(reference_of(passes), threads=threads)
        tasks = [
            asyncio.create_task(greedy.call({}, ScriptedContext(caller_principal="key:1")))
            for _ in range(4 * (1 + WAITING_PER_THREAD))
        ]
        try:
            for _ in range(3):
                assert await asyncio.to_thread(entered.acquire, timeout=PATIENCE_SECONDS)
            for _ in range(5):
                answer = await asyncio.wait_for(
                    other.call({}, ScriptedContext(caller_principal="key:2")), PATIENCE_SECONDS
                )
                assert answer.content[0]["text"] == "passed"
            assert not entered.acquire(blocking=False)
        finally:
            release.set()
            told = await asyncio.gather(*tasks, return_exceptions=True)
            threads.close()
        # One more than the queue holds, as the fourth thread was never the greedy one's.
        assert [type(each) for each in told if isinstance(each, BaseException)] == [errors.ServerBusy]

    asyncio.run(go())
