"""Both official clients and a strict reader judge turns of every kind, over two kinds of provider."""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
import pytest

from tests.chat.nodes import NodeClient
from tests.chat.playing import Player, can_judge
from tests.chat.running import ScriptedProvider
from tests.chat.scenarios import ALL, PASSING, Scenario
from tests.chat.script import error, script
from tests.servers import Hub

JUDGES = ["raw", "python", "helper", "node"]


@pytest.fixture(scope="module")
def player(
    hub: Hub, chat_key: str, raw: httpx2.Client, client: openai.OpenAI, providers: dict[str, ScriptedProvider]
) -> Iterator[Player]:
    with NodeClient(f"{hub.url}/v1", chat_key) as node:
        yield Player(raw, client, node, providers, chat_key)


def test_a_turn_of_every_kind_keeps_the_rules_of_the_wire(player: Player) -> None:
    """Each kind of turn once, by each third with one of the official clients, too."""
    wrong = []
    for number, scenario in enumerate(each for each in ALL if each not in PASSING):
        for judge in ("raw", JUDGES[1 + number % 3]):
            stream = judge == "helper" or scenario.only[number // 3 % len(scenario.only)]
            provider = scenario.providers[number // 2 % len(scenario.providers)]
            if can_judge(judge, scenario, stream):
                wrong += found(player, scenario, judge, provider, stream)
    assert wrong == []


def test_a_fault_that_passes_is_not_heard_of(player: Player) -> None:
    """The pauses between attempts are real, so all kinds at once."""
    with ThreadPoolExecutor(len(PASSING)) as pool:
        asked = [
            pool.submit(found, player, scenario, "raw", scenario.providers[-1], scenario.only[-1])
            for scenario in PASSING
        ]
        assert [each for answer in asked for each in answer.result()] == []


@pytest.mark.rig
@pytest.mark.parametrize("judge", JUDGES)
def test_every_turn_in_every_form(player: Player, judge: str) -> None:
    wrong = []
    for scenario in ALL:
        for provider, stream in itertools.product(scenario.providers, (False, True)):
            if can_judge(judge, scenario, stream):
                wrong += found(player, scenario, judge, provider, stream)
    assert wrong == []


@pytest.mark.rig
def test_a_thousand_turns_break_no_rule(player: Player) -> None:
    chance = random.Random(6)
    wrong: list[object] = []
    played = 0
    while played < 1000:
        scenario, judge = chance.choice(ALL), chance.choice(JUDGES)
        provider, stream = chance.choice(scenario.providers), chance.choice((False, True))
        if can_judge(judge, scenario, stream):
            wrong += found(player, scenario, judge, provider, stream)
            played += 1
    assert wrong == []


def found(player: Player, scenario: Scenario, judge: str, provider: str, stream: bool) -> list[object]:
    wrong = player.play(scenario, judge, provider, stream)
    return [(scenario.name, judge, provider, stream, wrong)] if wrong else []


@pytest.mark.parametrize(("fault", "attempts"), [("server_error", 2), ("insufficient_quota", 1)])
def test_a_client_tries_again_only_where_it_is_told_to(
    client: openai.OpenAI, providers: dict[str, ScriptedProvider], fault: str, attempts: int
) -> None:
    mark = uuid.uuid4().hex
    messages: list[Any] = [{"role": "user", "content": script(error(fault), prompt=mark)}]
    with pytest.raises(openai.APIStatusError) as raised:
        client.with_options(max_retries=1).chat.completions.create(model="openai/scripted-large", messages=messages)
    assert raised.value.request_id
    assert len(providers["openai"].about(mark)) == attempts
