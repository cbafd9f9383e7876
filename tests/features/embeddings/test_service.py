"""Searches by meaning: what is sent, what is kept, and what happens where the provider is late, down or not asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync

from mcphub.features.chat.models import ChatModelPrice, ChatProvider
from mcphub.features.embeddings.models import CachedVector, EmbeddingSource, EmbeddingUse
from mcphub.features.embeddings.service import EmbeddingService
from sessions_app.caller import Caller
from sessions_app.workspaces.belonging import Workspace
from tests.features.chat.embedding import FAILS, STALLS
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.tools import tool
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


def service(*toolsets: Toolset) -> EmbeddingService:
    catalog = SimpleNamespace(toolsets={each.slug: each for each in toolsets})
    return EmbeddingService(cast(Any, SimpleNamespace(configuration=SimpleNamespace(catalog=catalog))))


def in_a_loop(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        try:
            await scenario()
        finally:
            await egress.close_shared_client()

    async_to_sync(whole)()


async def closest(embeds: EmbeddingService, searched: Toolset, query: str) -> list[str]:
    return list(await embeds.closest(query, searched, searched.offered(CALLER)))


def test_other_words_for_a_thing_find_its_tool(source: EmbeddingSource, peer: ScriptedProvider) -> None:
    async def scenario() -> None:
        peer.forget()
        searched = toolset(*TOOLS)
        embeds = service(searched)
        await embeds.refresh()
        assert (await closest(embeds, searched, "the zorp"))[0] == "park_car"
        assert searched.search("zorp", 5, CALLER)["tools"] == []
        assert searched.search("zorp", 5, CALLER, [["park_car"]])["tools"][0]["name"] == "park_car"
        await embeds.refresh()
        use = await EmbeddingUse.objects.aget(source=source)
        assert (use.tokens > 0, use.cost_millionths, use.failure) == (True, 2 * use.tokens, "")
        # Another process asks for nothing again: not for tools, not for the question.
        asked = len(peer.about("words"))
        other = service(searched)
        await other.refresh()
        assert (await closest(other, searched, "the zorp"))[0] == "park_car"
        assert (len(peer.about("words")), await CachedVector.objects.acount()) == (asked, len(TOOLS) + 1)

    in_a_loop(scenario)


def test_nothing_is_sent_of_workspaces_or_while_it_is_off(source: EmbeddingSource, peer: ScriptedProvider) -> None:
    async def scenario() -> None:
        peer.forget()
        hidden = replace(tool("classified_thing"), workspace=TEAM)
        shared, own = toolset(*TOOLS, hidden), toolset(*TOOLS, slug="own", workspace=TEAM)
        embeds = service(shared, own)
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
        embeds = service(searched)
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
        embeds = service(searched)
        await embeds.refresh()
        assert await closest(embeds, searched, "x") == []
        assert (await EmbeddingUse.objects.aget(source=source)).failure == "The provider answered with HTTP status 500."

    in_a_loop(scenario)
