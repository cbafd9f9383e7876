"""Quotas of tokens and money at the chat's endpoints: refused before a model is asked, ended between rounds, counted as
the provider tells or by an estimate."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.features.chat import rows, wire
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import Step, calls, say, script
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS

QUOTA, COUNT, PRICE = "invocations.McpQuota", "invocations.QuotaCount", "chat.ChatModelPrice"
LARGE = "openai/scripted-large"
OTHER = "huawei_maas/scripted-large"


def body(*steps: Step, model: str = LARGE, **more: Any) -> dict[str, Any]:
    prompt = more.pop("prompt", "")
    return {"model": model, "messages": [{"role": "user", "content": script(*steps, prompt=prompt)}], **more}


def sums(hub: Hub, quota: str, *columns: str) -> list[Any]:
    """What a quota counted, by subject."""
    return hub.operate(rows.quota_sums, quota, list(columns))


class Asker:
    """A key of its own, so that its sums are its own."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.name = f"q-{uuid.uuid4().hex[:10]}"
        token = hub.operate(operations.issue_key, self.name, ["tools:list", "tools:call", "chat"])
        self.client = httpx2.Client(
            base_url=f"{hub.url}/v1", headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE_SECONDS
        )
        until(lambda: self.client.get("/models").status_code == 200)

    def ask(self, *steps: Step, **more: Any) -> wire.Reading:
        reading = wire.read(self.client, body(*steps, **more))
        assert reading.violations == []
        return reading

    def quota(self, **fields: Any) -> str:
        """Make a quota for this key alone; return once it is in force."""
        name = f"{self.name}-{uuid.uuid4().hex[:4]}"
        self.hub.operate(rows.quota_of_key, self.name, name=name, per="key", period="month", **fields)
        return name

    def until_counted(self, quota: str, **more: Any) -> None:
        """Ask until the quota counts, and leave its sum at that first question's."""
        until(lambda: self.ask(say("One."), **more) and sums(self.hub, quota, "used"))


@pytest.fixture
def asker(hub: Hub) -> Iterator[Asker]:
    made = Asker(hub)
    yield made
    made.client.close()
    hub.operate(operations.delete, QUOTA)
    hub.operate(operations.delete, COUNT)
    hub.operate(operations.delete, PRICE)


def price(hub: Hub, **fields: Any) -> None:
    hub.operate(rows.price, "openai", **{"name": f"p-{uuid.uuid4().hex[:8]}", "model": "scripted-large", **fields})


def test_tokens_are_counted_as_the_provider_tells_and_warn_in_the_answer(hub: Hub, asker: Asker) -> None:
    name = asker.quota(unit="tokens", soft_limit=11)
    asker.until_counted(name)  # one message in, one word out
    reading = asker.ask(say("Two words."))
    (warning,) = reading.body_json["x_mcp"]["quotas"]
    assert (warning["quota"], warning["unit"], warning["used"]) == (name, "tokens", 11 + 12)
    assert sums(hub, name, "used", "estimated", "unpriced") == [[23, 0, 0]]


@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_is_refused_before_its_first_request_once_a_hard_quota_is_used_up(
    hub: Hub, asker: Asker, providers: dict[str, ScriptedProvider], stream: bool
) -> None:
    name = asker.quota(unit="tokens", hard_limit=11, words="Ask Ann.")
    asker.until_counted(name)
    mark = uuid.uuid4().hex
    reading = asker.ask(say("No."), prompt=mark, stream=stream)
    error, told = reading.body_json["error"], reading.body_json["x_mcp"]
    assert (reading.status, error["type"], error["code"]) == (429, "insufficient_quota", "insufficient_quota")
    assert (told["errorCode"], told["quota"], told["limit"], told["used"]) == ("QUOTA_REACHED", name, 11, 11)
    assert f"The quota {name} of 11 tokens a month is used up. Ask Ann." in error["message"]
    assert int(reading.headers["retry-after"]) == pytest.approx(told["retryAfterSeconds"], abs=2)
    assert reading.headers["x-should-retry"] in ("true", "false")
    assert providers["openai"].about(mark) == []
    assert hub.operate(rows.query_codes, f"{mark}@@") == ["QUOTA_REACHED"]
    other = Asker(hub)
    assert other.ask(say("Yes.")).text == "Yes."  # its sums are its own
    other.client.close()


def test_every_endpoint_refuses_in_its_own_shape(hub: Hub, asker: Asker) -> None:
    name = asker.quota(unit="tokens", hard_limit=11)
    asker.until_counted(name)
    said = asker.client.post("/responses", json={"model": LARGE, "input": "Hello."})
    assert (said.status_code, said.json()["error"]["type"]) == (429, "insufficient_quota")
    asked = asker.client.post(f"{hub.url}/api/query", json={"content": "Hello."})
    error = asked.json()["error"]
    assert (asked.status_code, error["code"]) == (429, "QUOTA_REACHED")
    assert error["details"]["quota"] == name


def test_a_quota_that_a_round_uses_up_ends_the_turn_and_makes_none_of_its_calls(hub: Hub, asker: Asker) -> None:
    name = asker.quota(unit="tokens", hard_limit=12)
    asker.until_counted(name)
    mark = uuid.uuid4().hex
    steps = [calls(("count", {"name": mark}), say="Let me see."), say("Never.")]
    reading = asker.ask(*steps, x_mcp={"tools": ["count"]})
    assert reading.text.startswith("Let me see.\n\nThe quota ")
    assert "is used up. It is released at" in reading.text
    assert (reading.finish, reading.body_json["x_mcp"]["stop_reason"]) == ("length", "quota_reached")
    assert len(reading.body_json["x_mcp"]["rounds"]) == 1
    assert not (hub.data / "toolbox" / f"{mark}.counted").exists()


@pytest.mark.parametrize("stream", [False, True])
def test_a_provider_that_tells_no_usage_is_counted_by_an_estimate(hub: Hub, asker: Asker, stream: bool) -> None:
    name = asker.quota(unit="tokens", soft_limit=1)
    asker.until_counted(name, stream=stream)
    before = sums(hub, name, "used", "estimated")[0]
    reading = asker.ask(say("Words " * 40, usage="missing"), stream=stream)
    after = sums(hub, name, "used", "estimated")[0]
    estimated = after[1] - before[1]
    assert after[0] - before[0] == estimated > 40 * 6 / 4
    if not stream:
        told = reading.body_json["x_mcp"]["rounds"][0]
        assert told["usage"] is None
        assert told["estimated_usage"]["total_tokens"] == estimated
        assert reading.usage is None


def test_money_is_counted_by_the_price_and_refuses(hub: Hub, asker: Asker) -> None:
    name = asker.quota(unit="money", hard_limit=40, provider="openai")
    asker.until_counted(name)
    assert sums(hub, name, "used", "unpriced")[0][0] == 0
    assert sums(hub, name, "used", "unpriced")[0][1] >= 1  # it says that nothing had a price
    price(hub, input_millionths=2_000_000, output_millionths=3_000_000)
    until(lambda: asker.ask(say("One.")).body_json["x_mcp"]["rounds"][0].get("cost_millionths") == 23)
    assert sums(hub, name, "used")[0] == [23]
    assert asker.ask(say("One.")).status == 200
    refused = asker.ask(say("No."))
    assert refused.status == 429
    told = refused.body_json["x_mcp"]
    assert (told["unit"], told["currency"], told["limit"], told["used"]) == ("money", "USD", 40, 46)
    assert "<0.01 USD a month is used up" in refused.body_json["error"]["message"]


def test_a_quota_of_one_provider_counts_that_alone(hub: Hub, asker: Asker) -> None:
    name = asker.quota(unit="tokens", hard_limit=11, provider="openai")
    asker.until_counted(name)
    assert asker.ask(say("No.")).status == 429
    assert asker.ask(say("Yes."), model=OTHER).text == "Yes."
    assert sums(hub, name, "used") == [[11]]


def test_who_goes_before_the_end_is_counted_nevertheless(hub: Hub, asker: Asker) -> None:
    name = asker.quota(unit="tokens", soft_limit=1)
    asker.until_counted(name)
    before = sums(hub, name, "estimated")[0][0]
    asked = body(say("Word " * 2000, pause_ms=20), stream=True)
    with asker.client.stream("POST", "/chat/completions", json=asked) as answer:
        pieces = answer.iter_bytes()
        for _ in range(5):
            next(pieces)
    until(lambda: sums(hub, name, "estimated")[0][0] > before)
