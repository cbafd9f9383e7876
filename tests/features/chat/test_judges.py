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

from tests.features.chat import rows
from tests.features.chat.nodes import NodeClient
from tests.features.chat.playing import Player, can_judge
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.scenarios import ALL, EVER, GIANT, PASSING, STALLS, Scenario
from tests.features.chat.script import error, script
from tests.servers import Hub, until

JUDGES = ["raw", "python", "helper", "node"]


@pytest.fixture(scope="module")
def player(
    hub: Hub, chat_key: str, raw: httpx2.Client, client: openai.OpenAI, providers: dict[str, ScriptedProvider]
) -> Iterator[Player]:
    """With a provider `hasty`, which is the first one and given little time: enough to begin on a busy machine."""
    patient = providers["openai"]
    times = dict.fromkeys(("first_byte_seconds", "connect_seconds", "idle_seconds", "total_seconds"), 4)
    model: dict[str, Any] = {"scripted-large": {}}
    bounds = {"breaker_failures": 10000, "retries": 0, **times}
    hub.operate(rows.provide, "hasty", "openai", patient.url, patient.key, model, **bounds)
    until(lambda: raw.get("/models/hasty/scripted-large").status_code == 200)
    with NodeClient(f"{hub.url}/v1", chat_key) as node:
        yield Player(raw, client, node, {**providers, "hasty": patient}, chat_key)


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


def test_silence_ends_in_time_for_every_judge(player: Player) -> None:
    """The seconds until the hub gives up are real, so several at once; the JavaScript client takes its turn."""
    asked: list[tuple[Scenario, str, bool]] = [
        (scenario, judge, stream)
        for scenario in STALLS
        for judge, stream in (("raw", False), ("raw", True), ("python", True), ("helper", True))
    ]
    with ThreadPoolExecutor(4) as pool:
        played = [pool.submit(found, player, scenario, judge, "hasty", stream) for scenario, judge, stream in asked]
        wrong = found(player, STALLS[1], "node", "hasty", True)
        assert wrong + [each for answer in played for each in answer.result()] == []


@pytest.mark.parametrize("stream", [False, True])
def test_giant_arguments_are_cut_or_refused(player: Player, hub: Hub, stream: bool) -> None:
    for scenario in GIANT[:2]:
        for judge in ("raw", "node"):
            assert found(player, scenario, judge, "openai", stream) == []
    refused, made = hub.rows(tool="echo")[1:3]
    assert (refused["error_code"], made["status"]) == ("invalid_arguments", "ok")


@pytest.mark.rig
@pytest.mark.long
def test_a_thousand_turns_of_every_form_break_no_rule(player: Player) -> None:
    """Every scenario with each judge and provider, streamed and not, in a drawn order; some twice for the thousand."""
    chance = random.Random(6)
    forms = [
        (scenario, judge, provider, stream)
        for scenario in EVER
        for judge in JUDGES
        for provider, stream in itertools.product(scenario.providers, (False, True))
        if can_judge(judge, scenario, stream)
    ]
    forms += chance.choices(forms, k=max(0, 1000 - len(forms)))
    chance.shuffle(forms)
    assert [wrong for form in forms for wrong in found(player, *form)] == []


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
