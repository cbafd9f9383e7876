"""The database's connections of sync tools: as around a request of Django, none outlives its call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from django.db import connection

from tools_catalog.backends.threads import ToolThreads

Answer = TypeVar("Answer")


@pytest.fixture
def threads() -> Iterator[ToolThreads]:
    made = ToolThreads(1, name="test-tool")
    yield made
    made.close()


def run(threads: ToolThreads, work: Callable[[], Answer]) -> Answer:
    return asyncio.run(threads.run(work, caller="key:1"))


def ask(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


@pytest.mark.django_db
def test_a_thread_keeps_no_connection_after_a_call(threads: ToolThreads) -> None:
    assert run(threads, lambda: ask("SELECT 7")) == 7
    assert run(threads, lambda: connection.connection) is None


@pytest.mark.django_db
def test_a_failed_call_gives_its_connection_back(threads: ToolThreads) -> None:
    with pytest.raises(ZeroDivisionError):
        run(threads, lambda: ask("SELECT 7") // 0)
    assert run(threads, lambda: connection.connection) is None


@pytest.mark.postgresql
@pytest.mark.django_db
def test_a_call_after_the_end_of_its_connection_works(threads: ToolThreads) -> None:
    backend = run(threads, lambda: ask("SELECT pg_backend_pid()"))
    assert ask(f"SELECT pg_terminate_backend({backend}, 10000)::int") == 1
    assert run(threads, lambda: ask("SELECT 7")) == 7


@pytest.mark.postgresql
@pytest.mark.django_db
def test_more_threads_than_the_pool_has_connections_take_turns() -> None:
    """Each call of a further thread finds a connection that those before it gave back."""
    threads = ToolThreads(20, name="test-tool")

    async def go() -> list[int]:
        return [await threads.run(lambda: ask("SELECT 7"), caller="key:1") for _ in range(20)]

    try:
        assert asyncio.run(go()) == [7] * 20
    finally:
        threads.close()
