"""The right to run the only child of a connection: given back by an end of the connection, and by nothing else."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.factories import McpConnectionFactory
from tools_catalog.discovery.links import LinkKeeper
from tools_catalog.models import McpConnectionLink
from tools_catalog.upstream.link import Link, LinkState

pytestmark = pytest.mark.usefixtures("transactional_db")


def held() -> list[str]:
    return list(McpConnectionLink.objects.filter(holds_lease=True).values_list("process_id", flat=True))


@pytest.mark.parametrize("before", [[], [LinkState.DISCONNECTED], [LinkState.CONNECTED, LinkState.DISCONNECTED]])
def test_figures_that_are_reported_before_the_child_starts_leave_the_right(before: list[LinkState]) -> None:
    async def taken() -> None:
        keeper = LinkKeeper("here", str)
        link = Link(pk)
        for status in before:
            link.status = status
            keeper.report(link)
        assert await keeper.lease(pk)
        link.failures, link.is_dirty = 1, True
        keeper.flush([link])  # by the housekeeping, while the child of a killed process is removed
        await keeper._waiting.join()
        assert await keeper.holder(pk) == "here"
        assert await keeper.lost() == set()

    pk = McpConnectionFactory().pk
    asyncio.run(taken())
    assert held() == ["here"]


@pytest.mark.parametrize("end", [LinkState.ERROR, LinkState.DISCONNECTED])
def test_the_end_of_a_connection_gives_the_right_back(end: LinkState) -> None:
    async def ended() -> None:
        keeper = LinkKeeper("here", str)
        link = Link(pk)
        assert await keeper.lease(pk)
        for status in (LinkState.CONNECTING, LinkState.CONNECTED, end):
            link.status = status
            keeper.report(link)
        await keeper._waiting.join()
        assert await LinkKeeper("there", str).lease(pk)

    pk = McpConnectionFactory().pk
    asyncio.run(ended())
    assert held() == ["there"]


def test_the_steps_of_many_connections_are_one_transaction() -> None:
    async def reported() -> None:
        keeper = LinkKeeper("here", str)
        for pk in connections:
            link = Link(pk)
            for status in (LinkState.CONNECTING, LinkState.ERROR, LinkState.CONNECTING, LinkState.CONNECTED):
                link.status = status
                keeper.report(link)
        await keeper._waiting.join()

    connections = [McpConnectionFactory().pk for _ in range(20)]
    with CaptureQueriesContext(connection) as queries:
        async_to_sync(reported)()
    assert sum(query["sql"].startswith("BEGIN") for query in queries) == 1
    assert set(McpConnectionLink.objects.values_list("status", flat=True)) == {"connected"}


def test_a_step_that_cannot_be_written_loses_none_of_the_others() -> None:
    def redacted(text: str) -> str:
        if text == "bad":
            raise ValueError(text)
        return text

    async def reported() -> None:
        keeper = LinkKeeper("here", redacted)
        for pk, words in ((first, ""), (second, "bad"), (third, "")):
            keeper.report(Link(pk, error_message=words))
        await keeper._waiting.join()

    first, second, third = (McpConnectionFactory().pk for _ in range(3))
    async_to_sync(reported)()
    assert set(McpConnectionLink.objects.values_list("connection_id", flat=True)) == {first, third}
