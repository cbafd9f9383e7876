"""Listings on their way into the catalogue, while the hub is busy with those of others."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError

from tests.upstreams.conftest import PEERS
from tools_catalog.call.context import CallInfo, ToolContextParts
from tools_catalog.discovery.storing import ListingStorage
from tools_catalog.upstream.connection import Connection
from tools_catalog.upstream.keeping import OfferKeeper
from tools_catalog.upstream.link import Approval, ConnectionEnvironment, Offer
from tools_catalog.upstream.listing import TOOL, Listed, Offers, read
from tools_catalog.upstream.spec import ConnectionSpec, LaunchSpec
from tools_catalog.upstream.states import LinkState

SPEC = ConnectionSpec(id=1, slug="busy", transport="streamable-http", url="http://127.0.0.1/mcp")


def listing(*names: str) -> dict[str, dict[str, Listed]]:
    return {TOOL: dict(read([{"name": name, "inputSchema": {"type": "object"}} for name in names], TOOL))}


class Storage:
    """Stores nothing before `free` is set."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.begun = asyncio.Event()
        self.stored: list[tuple[str, list[str]]] = []

    async def for_all(self, connection_id: int, offers: Offers) -> None:
        await self.for_one(connection_id, "", offers)

    async def for_one(self, connection_id: int, principal: str, offers: Offers) -> None:
        self.begun.set()
        await self.free.wait()
        self.stored.append((principal, sorted(offers[TOOL])))


def test_of_the_lists_that_wait_to_be_stored_only_the_newest_is() -> None:
    async def listed() -> list[tuple[str, list[str]]]:
        storage = Storage()
        keeper = OfferKeeper(SPEC, storage.for_all, storage.for_one)
        keeper.take(listing("a"))
        await storage.begun.wait()
        for name in "bcd":
            keeper.take(listing(name))
            keeper.take(listing(name), "user:7")
        storage.free.set()
        assert keeper._storing is not None
        await keeper._storing
        return storage.stored

    assert asyncio.run(listed()) == [("", ["a"]), ("", ["d"]), ("user:7", ["d"])]


def test_a_list_that_cannot_be_stored_does_not_stop_the_next() -> None:
    stored: list[Offers] = []

    async def second_time(connection_id: int, offers: Offers) -> None:
        stored.append(offers)
        if len(stored) == 1:
            raise ValueError("a row that nobody expected")

    async def listed() -> None:
        keeper = OfferKeeper(SPEC, second_time, None)
        for name in "ab":
            keeper.take(listing(name))
            assert keeper._storing is not None
            await keeper._storing

    asyncio.run(listed())
    assert [list(offers[TOOL]) for offers in stored] == [["a"], ["b"]]


def run(store: Callable[[], None], goes_on: bool = True) -> None:
    async def stored() -> None:
        await ListingStorage(lambda: goes_on).done(store, again_seconds=0)

    asyncio.run(stored())


def failing(*failures: Exception) -> tuple[list[int], Callable[[], None]]:
    """Return the attempts, and what fails so the first times."""
    attempts: list[int] = []

    def store() -> None:
        attempts.append(len(attempts))
        if len(attempts) <= len(failures):
            raise failures[len(attempts) - 1]

    return attempts, store


@pytest.mark.django_db
def test_a_list_is_stored_once_the_database_is_back() -> None:
    attempts, store = failing(OperationalError("database is locked"), OperationalError("database is locked"))
    run(store)
    assert len(attempts) == 3


@pytest.mark.django_db
@pytest.mark.parametrize(("error", "goes_on"), [(ValueError("wrong"), True), (OperationalError("locked"), False)])
def test_what_cannot_be_mended_by_another_try_is_not_tried_again(error: Exception, goes_on: bool) -> None:
    attempts, store = failing(error)
    with pytest.raises(type(error)):
        run(store, goes_on)
    assert len(attempts) == 1


@pytest.mark.program
def test_a_server_is_called_although_its_list_is_not_stored_yet() -> None:
    """The time for which an upstream is waited for ends none of the hub's own work."""

    async def called() -> tuple[LinkState, dict[str, Any], list[Any]]:
        storage = Storage()
        words = (str(PEERS / "chaos.py"), "stdio")
        launch = LaunchSpec(name="busy", command=sys.executable, arguments=words, is_unconfined=True)
        spec = dataclasses.replace(SPEC, transport="stdio", url="", launch=launch, refresh_seconds=0)
        upstream = Connection(
            spec, ConnectionEnvironment(secret=lambda name, host: "", discovered=storage.for_all, lasts_seconds=0)
        )
        context = ToolContextParts(
            call=CallInfo(
                invocation_id="1", tool_name="echo", caller_label="", caller_principal="key:1", client_capabilities={}
            )
        )
        upstream.start()
        params = {"name": "echo", "arguments": {"text": "here"}}
        offer = Offer("tool", "echo", Approval("", "", trusts=True))
        answer = await upstream.request("tools/call", params, context, offer)  # lists before it, as each call does
        status = upstream.link.status
        await upstream.stop()
        return status, answer, storage.stored

    status, answer, stored = asyncio.run(called())
    assert (status, stored) == (LinkState.CONNECTED, [])
    assert '"text": "here"' in answer["content"][0]["text"]
