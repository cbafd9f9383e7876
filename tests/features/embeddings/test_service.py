"""Searches by meaning: what is sent, kept and counted; a provider that is late, down or not asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from django.db import OperationalError

from invocations.ledger.writer import Ledger
from mcphub.features.chat.models import ChatModelPrice, ChatProvider
from mcphub.features.embeddings import spend
from mcphub.features.embeddings.models import CachedVector, EmbeddingSource, EmbeddingUse
from mcphub.features.embeddings.service import EmbeddingService
from mcphub.features.quotas.load import load_quotas
from mcphub.features.quotas.models import McpQuota, QuotaCount
from mcphub.features.quotas.rules import SUBJECT
from mcphub.features.quotas.spending import Spending
from mcphub.parts import SpendQuery
from sessions_app.caller import Caller
from sessions_app.workspaces.belonging import Workspace
from tests.failing import failing
from tests.features.chat.embedding import FAILS, STALLS
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.tools import tool
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.catalog.toolsets import Toolset
from tools_catalog.egress import guard as egress

CALLER = Caller(principal="key:1", label="tester", scopes=frozenset({"tools:call"}))
TOOLS = [tool(name) for name in ("add", "park_car", "greet")]
pytestmark = pytest.mark.program
TEAM = Workspace(7, "team", frozenset())


@pytest.fixture(scope="module")
def peer() -> Iterator[ScriptedProvider]:
    with ScriptedProvider("sk-embeds") as running:
        yield running


@pytest.fixture
def source(transactional_db: None, settings: Any, peer: ScriptedProvider) -> EmbeddingSource:
    settings.MCPHUB_EGRESS_ALLOW = ["127.0.0.1"]
    provider = ChatProvider(slug="near", kind="compatible", base_url=peer.url)
    provider.set_secret("sk-embeds")
    provider.full_clean()
    provider.save()
    ChatModelPrice.objects.create(
        name="near", provider=provider, model="*", input_millionths=2_000_000, output_millionths=0
    )
    row = EmbeddingSource(provider=provider, model="words", timeout_seconds=5, enabled=True)
    row.full_clean()
    row.save()
    return row


def toolset(*tools: Any, **more: Any) -> Toolset:
    return Toolset(more.pop("slug", "all"), tools, groups=frozenset(), searches=True, words="", **more)


@asynccontextmanager
async def service(*toolsets: Toolset) -> AsyncIterator[EmbeddingService]:
    """A process's vectors, with the quotas that are there now, without its work beside calls."""
    catalog = SimpleNamespace(toolsets={each.slug: each for each in toolsets})
    quotas = await database_sync_to_async(lambda: load_quotas(Catalog()))()
    ledger, spending = Ledger(), Spending()
    hub = SimpleNamespace(
        configuration=SimpleNamespace(catalog=catalog, additions={SUBJECT: quotas}),
        ledger=ledger,
        calls=SimpleNamespace(stages=SimpleNamespace(one=lambda _kind: spending)),
    )
    ledger.start()
    try:
        embeds = EmbeddingService(cast(Any, hub))
        yield embeds
        await embeds.stop()
    finally:
        await ledger.stop()


def in_a_loop(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        try:
            await scenario()
        finally:
            await egress.close_shared_client()

    async_to_sync(whole)()


async def closest(embeds: EmbeddingService, searched: Toolset, query: str, caller: Caller = CALLER) -> list[str]:
    return list(await embeds.closest(query, searched, searched.offered(caller), caller))


def test_other_words_for_a_thing_find_its_tool(source: EmbeddingSource, peer: ScriptedProvider) -> None:
    async def scenario() -> None:
        peer.forget()
        searched = toolset(*TOOLS)
        async with service(searched) as embeds:
            await embeds.refresh()
            assert (await closest(embeds, searched, "the zorp"))[0] == "park_car"
            assert searched.search("zorp", 5, CALLER)["tools"] == []
            assert searched.search("zorp", 5, CALLER, [["park_car"]])["tools"][0]["name"] == "park_car"
            await embeds.refresh()
            use = await EmbeddingUse.objects.aget(source=source)
            assert (use.tokens > 0, use.cost_millionths, use.failure) == (True, 2 * use.tokens, "")
            # Another process asks for nothing again: not for tools, not for the question.
            asked = len(peer.about("words"))
            async with service(searched) as other:
                await other.refresh()
                assert (await closest(other, searched, "the zorp"))[0] == "park_car"
                assert (len(peer.about("words")), await CachedVector.objects.acount()) == (asked, len(TOOLS) + 1)

    in_a_loop(scenario)


def test_nothing_is_sent_of_workspaces_or_while_it_is_off(source: EmbeddingSource, peer: ScriptedProvider) -> None:
    async def scenario() -> None:
        peer.forget()
        hidden = replace(tool("classified_thing"), workspace=TEAM)
        shared, own = toolset(*TOOLS, hidden), toolset(*TOOLS, slug="own", workspace=TEAM)
        async with service(shared, own) as embeds:
            await embeds.refresh()
            assert await closest(embeds, own, "confidential question") == []
            sent = [request["text"] for request in peer.about("words")]
            assert len(sent) == 1
            assert not any("classified" in text or "confidential" in text for text in sent)
            source.enabled = False
            await source.asave()
            await embeds.refresh()
            assert (await closest(embeds, shared, "anything"), len(peer.about("words"))) == ([], 1)

    in_a_loop(scenario)


@pytest.mark.parametrize("what", [STALLS, FAILS])
def test_a_search_waits_no_longer_than_its_bound(what: str, source: EmbeddingSource, peer: ScriptedProvider) -> None:
    async def scenario() -> None:
        source.timeout_seconds = 0.5
        await source.asave()
        searched = toolset(*TOOLS)
        async with service(searched) as embeds:
            await embeds.refresh()
            peer.forget()
            for number in range(5):
                assert await closest(embeds, searched, f"{what} {number}") == []
            assert len(peer.about("words")) <= 3  # then it is left alone for a while
            await embeds.refresh()
            assert (await EmbeddingUse.objects.aget(source=source)).failure

    in_a_loop(scenario)


def test_tools_that_cannot_be_embedded_leave_the_search_to_words(
    source: EmbeddingSource, peer: ScriptedProvider
) -> None:
    async def scenario() -> None:
        searched = toolset(tool(f"x{FAILS}"))
        async with service(searched) as embeds:
            await embeds.refresh()
            assert await closest(embeds, searched, "x") == []
            assert (
                await EmbeddingUse.objects.aget(source=source)
            ).failure == "The provider answered with HTTP status 500."

    in_a_loop(scenario)


# Quotas ------------------------------------------------------------------------------------------


def quota(name: str, **fields: Any) -> McpQuota:
    row = McpQuota(name=name, **{"unit": "tokens", "period": "month", "hard_limit": 3, **fields})
    row.full_clean()
    row.save()
    return row


async def used(name: str) -> list[tuple[str, int, int]]:
    rows = QuotaCount.objects.filter(quota__name=name).order_by("subject")
    return [each async for each in rows.values_list("subject", "used", "estimated")]


async def spent(**narrowed: Any) -> int:
    now = datetime.now(UTC)
    query = SpendQuery(now - timedelta(hours=1), now + timedelta(hours=1), **narrowed)
    return await database_sync_to_async(lambda: sum(cost for _, cost in spend.spent(query)))()


def test_a_search_counts_for_its_caller_and_goes_by_words_once_the_quota_is_full(
    source: EmbeddingSource, peer: ScriptedProvider
) -> None:
    quota("own", per="person", provider="near")
    quota("own-money", per="person", unit="money", hard_limit=1_000_000)
    quota("elsewhere", per="person", provider="far")
    eve = Caller(principal="user:9", label="eve", scopes=CALLER.scopes)

    async def scenario() -> None:
        searched = toolset(*TOOLS)
        async with service(searched) as embeds:
            await embeds.refresh()
            EmbeddingService.running = embeds
            assert (await searched.searched("the zorp", 5, CALLER))["tools"][0]["name"] == "park_car"
            assert (await closest(embeds, searched, "a zorp"))[0] == "park_car"
            assert await used("own") == [("key:1", 4, 0)]  # full: one request may pass the limit
            peer.forget()
            words = await searched.searched("one more zorp", 5, CALLER)
            assert (words["tools"], peer.about("zorp")) == ([], [])
            assert embeds._meter._spending.refusals == {"own": 1}
            assert (await closest(embeds, searched, "the zorp"))[0] == "park_car"  # kept: nobody is asked
            assert (await closest(embeds, searched, "one more zorp", eve))[0] == "park_car"
            assert await used("own") == [("key:1", 4, 0), ("user:9", 3, 0)]
            assert await used("own-money") == [("key:1", 8, 0), ("user:9", 6, 0)]
            assert await used("elsewhere") == []
        assert await spent(principals=frozenset({"key:1"})) == 8
        assert await spent(principals=frozenset({"user:9"}), provider="near") == 6
        assert await spent(provider="far") == 0
        use = await EmbeddingUse.objects.aget(source=source)
        assert (await spent(), use.failure) == (use.cost_millionths, "")

    in_a_loop(scenario)


def test_use_that_the_database_rejects_is_written_later_and_once(
    source: EmbeddingSource, peer: ScriptedProvider
) -> None:
    def fail() -> Any:
        cut = failing("embeddings_embeddingspend")
        cut.__enter__()
        return cut

    async def scenario() -> None:
        searched = toolset(*TOOLS)
        async with service(searched) as embeds:
            await embeds.refresh()
            before = await spent()
            await closest(embeds, searched, "the zorp")
            cut = await database_sync_to_async(fail)()
            with pytest.raises(OperationalError):
                await embeds.refresh()
            await database_sync_to_async(cut.__exit__)(None, None, None)
            use = await EmbeddingUse.objects.aget(source=source)
            assert (await spent(), use.cost_millionths) == (before, before)
        use = await EmbeddingUse.objects.aget(source=source)
        assert (await spent(), use.cost_millionths) == (before + 4, before + 4)  # two words

    in_a_loop(scenario)


def test_tools_count_for_everybody_and_wait_for_a_quota_of_everybody(
    source: EmbeddingSource, peer: ScriptedProvider
) -> None:
    quota("each", per="person")
    limit = quota("whole", per="all", hard_limit=1)

    async def scenario() -> None:
        peer.forget()
        async with service(toolset(*TOOLS)) as embeds:
            await embeds.refresh()
        ((subject, tokens, _),) = await used("whole")
        assert (subject, tokens) == ("all", (await EmbeddingUse.objects.aget(source=source)).tokens)
        assert (await used("each"), await spent(principals=frozenset({""}))) == ([], 2 * tokens)
        peer.forget()
        async with service(toolset(tool("later"))) as embeds:
            await embeds.refresh()
        failure = (await EmbeddingUse.objects.aget(source=source)).failure
        assert "The quota whole of 1 tokens a month is used up. It is released at" in failure
        assert peer.about("later") == []
        await database_sync_to_async(limit.delete)()
        async with service(toolset(tool("later"))) as embeds:
            await embeds.refresh()
        assert len(peer.about("later")) == 1

    in_a_loop(scenario)


def test_a_request_that_the_hub_gives_up_counts_by_its_size(source: EmbeddingSource, peer: ScriptedProvider) -> None:
    quota("own", per="person", hard_limit=1_000)

    async def scenario() -> None:
        source.timeout_seconds = 0.5
        await source.asave()
        searched = toolset(*TOOLS)
        async with service(searched) as embeds:
            await embeds.refresh()
            assert await closest(embeds, searched, STALLS) == []
            estimate = -(-len(STALLS) // 4)
            assert await used("own") == [("key:1", estimate, estimate)]
            assert await closest(embeds, searched, FAILS) == []  # an error costs nothing
            assert await used("own") == [("key:1", estimate, estimate)]

    in_a_loop(scenario)
