"""The short form of the rig of spoilt requests: `python -m tests.rigs.mutations` is the long one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rigs import mutations
from tests.rigs.judging import Wrong, judge_rest, judge_rpc
from tests.rigs.mutating import Call, Mutator
from tests.rigs.raw import Answer
from tests.servers import Hub

COUNT = 150


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, str]]:
    with mutations.running(tmp_path_factory.mktemp("mutations")) as made:
        yield made
        assert mutations.errors(made[0]) == []


@pytest.mark.parametrize("entry_point", mutations.ENTRY_POINTS)
def test_spoilt_requests_get_an_answer_that_says_what_was_wrong(spoilt: tuple[Hub, str], entry_point: str) -> None:
    tally = mutations.run(*spoilt, entry_point, COUNT, seed=2026)
    assert tally.offences == []
    answers = sum(tally.statuses.values())
    assert answers == COUNT if entry_point != "stdio" else answers > COUNT // 2, "A line may be a notification."
    assert len(tally.statuses) > 4, tally.statuses


def test_a_seed_spoils_the_same_way_every_time() -> None:
    def spoil() -> list[Call]:
        mutator = Mutator(5)
        return [mutator.spoil("POST", "/", [], {"id": 1, "params": {"a": [1, "x"]}}) for _ in range(100)]

    assert spoil() == spoil()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(500, {}, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Something broke here."}}'),
        Answer(503, {}, b"busy"),
        Answer(400, {"content-type": "text/plain"}, b"no"),
        Answer(400, {"content-type": "application/json"}, b"{"),
        Answer(400, {"content-type": "application/json"}, b'{"jsonrpc":"2.0","id":1}'),
        Answer(400, {"content-type": "application/json"}, b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}'),
        Answer(200, {"content-type": "application/json"}, b'{"jsonrpc":"2.0","id":2,"result":{}}'),
        Answer(200, {"content-type": "application/json"}, b'{"jsonrpc":"2.0","id":"1","result":{}}'),
        Answer(200, {"content-type": "application/json"}, b'{"jsonrpc":"2.0","result":{}}'),
        Answer(202, {}, b"x"),
        Answer(200, {"content-type": "text/event-stream"}, b"", [b"Traceback"]),
    ],
)
def test_the_judge_can_say_no(answer: Answer) -> None:
    call = Call("POST", "/mcp", [], b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    with pytest.raises(Wrong):
        judge_rpc(call, answer)
    if answer.status >= 400:
        with pytest.raises(Wrong):
            judge_rest(call, answer)
