"""Two workers on PostgreSQL: whichever holds a call, a yes given anywhere releases it, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire import approving
from tests.wire.conftest import make_keys
from tests.wire.speech import Speaker
from tests.wire.toolbox import Apart, Box, text_of
from tests.wire.workers import ENOUGH, anew

pytestmark = pytest.mark.rig

RULE = "tools_catalog.McpPolicyRule"


@pytest.fixture(scope="module")
def speaker(pair: Hub) -> Iterator[Speaker]:
    rule = {"applies_to": "tool", "target": "count", "effect": "ask", "condition": "args.name.endsWith('-waits')"}
    pair.operate(operations.create, RULE, name="waits", **rule)
    pair.settle()
    with Speaker(pair.url, make_keys(pair)["wire"]) as made:
        yield made
    pair.operate(operations.delete, RULE)
    pair.settle()


def held(speaker: Speaker, name: str) -> Apart:
    """A call on a connection of its own."""

    def ask() -> Any:
        with anew(speaker) as one:
            return one.modern_call("count", {"name": name})

    return Apart(ask)


def test_calls_that_both_workers_hold_are_released_by_a_yes_from_outside(pair: Hub, speaker: Speaker) -> None:
    boxes = [Box(pair) for _ in range(ENOUGH)]
    names = [f"{box.name}-waits" for box in boxes]
    for box, name in zip(boxes, names, strict=True):
        box.name = name
    calls = [held(speaker, name) for name in names]
    ids = [until(lambda name=name: pair.operate(approving.waiting_with, {"name": name}))[0] for name in names]
    assert not any(box.has("counted") for box in boxes)
    for id_ in ids:
        assert pair.operate(approving.decide, id_, True) == "approved"
    assert {text_of(call.answer()) for call in calls} == {"call number 1"}
    assert {box.times("counted") for box in boxes} == {1}
    rows = [row for row in pair.rows(client=speaker.name) if row["policy_rule"] == "waits"]
    assert len({row["process_id"] for row in rows}) == 2


def test_many_retries_at_both_workers_make_an_approved_call_once(pair: Hub, speaker: Speaker) -> None:
    box = Box(pair)
    box.name += "-waits"
    racing = [held(speaker, box.name) for _ in range(ENOUGH)]
    (id_,) = until(lambda: pair.operate(approving.waiting_with, {"name": box.name}))
    assert pair.operate(approving.decide, id_, True) == "approved"
    assert {text_of(call.answer()) for call in racing} == {"call number 1"}
    assert box.times("counted") == 1


def test_a_no_given_at_one_worker_is_said_by_both(pair: Hub, speaker: Speaker) -> None:
    name = f"{Box(pair).name}-waits"
    calls = [held(speaker, name) for _ in range(ENOUGH)]
    (id_,) = until(lambda: pair.operate(approving.waiting_with, {"name": name}))
    assert pair.operate(approving.decide, id_, False, reason="No.") == "denied"
    assert all(call.answer().json()["result"]["isError"] for call in calls)
