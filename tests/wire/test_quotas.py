"""Quotas over the wire: refused with the time of release, warned before, exact between two workers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.conftest import make_keys
from tests.wire.speech import Speaker, error_of
from tests.wire.workers import clients_of_both

QUOTA, COUNT = "invocations.McpQuota", "invocations.QuotaCount"
ADD = {"a": 1, "b": 2}
LIMIT = 40
AT_ONCE = 8


@pytest.fixture
def speaker(hub: Hub) -> Iterator[Speaker]:
    with Speaker(hub.url, make_keys(hub)["wire"]) as made:
        yield made
        hub.operate(operations.delete, QUOTA)
        hub.operate(operations.delete, COUNT)
        until(lambda: made.modern_call("add", ADD).status_code == 200)


def until_in_force(speaker: Speaker) -> dict[str, Any]:
    """Call until the quota warns; give the warning."""

    def warned() -> Any:
        meta: dict[str, Any] = speaker.modern_call("add", ADD).json()["result"]["_meta"]
        return meta.get("mcphub/quota")

    (found,) = until(warned)
    return dict(found)


def test_who_has_used_a_quota_up_is_warned_then_refused_until_it_is_released(hub: Hub, speaker: Speaker) -> None:
    hub.operate(operations.create, QUOTA, name="few", period="month", soft_limit=1, hard_limit=3, words="Ask Ann.")
    warning = until_in_force(speaker)
    assert (warning["quota"], warning["used"], warning["limit"]) == ("few", 1, 3)
    session = speaker.open_session()
    told = speaker.call(session, "add", ADD, id=1).json()["result"]["_meta"]["mcphub/quota"]
    assert told[0]["used"] == 2
    assert speaker.modern_call("add", ADD).status_code == 200
    for answer in (speaker.modern_call("add", ADD), speaker.call(session, "add", ADD, id=2)):
        assert answer.status_code == 429
        error = error_of(answer)
        details = error["data"]["details"]
        assert (error["code"], error["data"]["errorCode"]) == (-31009, "quota_reached")
        assert error["data"]["retryable"]
        assert "Ask Ann." in error["message"]
        assert (details["quota"], details["limit"], details["used"]) == ("few", 3, 3)
        assert datetime.fromisoformat(details["resetsAt"]).day == 1
        assert int(answer.headers["Retry-After"]) == pytest.approx(details["retryAfterSeconds"], abs=2)
    row = hub.rows(client=speaker.name, error_code="quota_reached")[0]
    assert row["error"]["data"]["details"]["quota"] == "few"
    hub.operate(operations.change, QUOTA, {"name": "few"}, enabled=False)
    until(lambda: speaker.modern_call("add", ADD).status_code == 200)


@pytest.mark.rig
def test_two_workers_make_exactly_as_many_calls_as_the_quota_has(pair: Hub) -> None:
    with (
        Speaker(pair.url, make_keys(pair)["wire"]) as first,
        clients_of_both(pair, first, AT_ONCE) as clients,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        pair.operate(operations.create, QUOTA, name="exact", period="month", per="all", soft_limit=1, hard_limit=LIMIT)
        pair.settle()
        try:
            statuses = [status for found in pool.map(some_calls, clients) for status in found]
            assert sorted(statuses) == [200] * LIMIT + [429] * (len(statuses) - LIMIT)
            rows = pair.operate(operations.values, COUNT, "used", subject="all")
            assert rows == [LIMIT]
        finally:
            pair.operate(operations.delete, QUOTA)
            pair.operate(operations.delete, COUNT)
            pair.settle()


def some_calls(speaker: Speaker) -> list[int]:
    return [speaker.modern_call("add", ADD).status_code for _ in range(LIMIT)]
