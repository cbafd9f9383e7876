"""Times that a turn and a provider keep: of a request as a whole, of an answer with all its attempts, to a first byte.

No test measures one. Where a bound does not hold the answer comes minutes later, and the client of the test has left.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.features.chat import rows
from tests.features.chat.conftest import ENVIRONMENT, TOOLBOX, set_up
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import Step, calls, error, say, script
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS

_LONG = {"connect_seconds": 300, "first_byte_seconds": 300, "idle_seconds": 300, "total_seconds": 300}
_TIMES = {
    "first": {**_LONG, "connect_seconds": 1, "first_byte_seconds": 1},
    "whole": {**_LONG, "total_seconds": 1},
    "patient": _LONG,
}
_NEVER = say("Never.", wait_ms=600_000)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, providers: dict[str, ScriptedProvider]) -> Iterator[httpx2.Client]:
    """A hub that gives a turn ten seconds, and providers with times of their own.

    Of its turn the model has a quarter for the last word, in which a busy machine must bring it.
    """
    folder = tmp_path_factory.mktemp("times-hub")
    provider = providers["openai"]
    environment = {**ENVIRONMENT, "MCPHUB_LIMITS": f"{ENVIRONMENT['MCPHUB_LIMITS']}, chat_turn_seconds=10"}
    with Hub(folder, packs=["starter"], bundle=TOOLBOX, environment=environment) as hub:
        key = set_up(hub, providers)
        for slug, times in _TIMES.items():
            bounds = {"breaker_failures": 10000, "retries": 3, **times}
            model: dict[str, Any] = {"scripted-large": {}}
            hub.operate(rows.provide, slug, "openai", provider.url, provider.key, model, **bounds)
        with httpx2.Client(
            base_url=hub.url, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS
        ) as client:
            until(lambda: client.get("/v1/models/patient/scripted-large").status_code == 200)
            yield client


def ask(client: httpx2.Client, provider: str, *steps: Step, prompt: str = "", **more: Any) -> httpx2.Response:
    body = {"content": script(*steps, prompt=prompt), "provider": provider, "tools": [], **more}
    return client.post("/api/query", json=body)


def unavailable(answer: httpx2.Response) -> str:
    told = answer.json()["error"]
    assert (answer.status_code, told["code"]) == (503, "PROVIDER_UNAVAILABLE")
    return str(told["message"])


def test_a_first_byte_that_is_late_ends_an_answer_that_is_not_streamed(asking: httpx2.Client) -> None:
    assert unavailable(ask(asking, "first", _NEVER)) == "first did not begin to answer within 2 s."


def test_an_answer_has_no_more_time_than_it_is_given_as_a_whole(asking: httpx2.Client) -> None:
    said = unavailable(ask(asking, "whole", _NEVER))
    # What is left of the second, in tenths, when the request goes out.
    found = re.fullmatch(r"whole did not begin to answer within ([\d.]+) s\.", said)
    assert found is not None, said
    assert float(found[1]) <= 1


def test_pauses_before_further_attempts_count_into_the_time_of_the_answer(
    asking: httpx2.Client, providers: dict[str, ScriptedProvider]
) -> None:
    mark = f"pauses-{uuid.uuid4().hex[:12]}"
    unavailable(ask(asking, "whole", error("overloaded"), prompt=mark))  # which asks for a pause of a second
    assert [each["attempt"] for each in providers["openai"].about(mark)] == [1]


def test_a_turn_ends_in_its_time_whatever_its_provider_may_take(asking: httpx2.Client) -> None:
    def ended(stream: bool) -> tuple[int, str]:
        messages = [{"role": "user", "content": script(_NEVER)}]
        asked = {"model": "patient/scripted-large", "messages": messages, "stream": stream}
        answer = asking.post("/v1/chat/completions", json=asked)
        return answer.status_code, answer.json()["error"]["code"]

    with ThreadPoolExecutor(2) as pool:  # both wait for the same ten seconds
        assert list(pool.map(ended, [False, True])) == [(503, "provider_unavailable")] * 2


def test_a_tool_that_takes_the_turns_time_is_given_up_and_the_model_has_the_last_word(asking: httpx2.Client) -> None:
    name = f"w-{uuid.uuid4().hex[:12]}"
    told = ask(asking, "openai", calls(("hold", {"name": name})), say("It hangs."), tools=["hold"]).json()
    assert (told["content"], told["stop_reason"]) == ("It hangs.", "max_seconds")
    assert [(call["tool_name"], call["error"]["code"]) for call in told["tool_calls"]] == [("hold", "TIMEOUT")]
