"""Up to which id rows are settled, where writers commit in another order than they began."""

from __future__ import annotations

from invocations.chain.settling import Settling
from tests.waiting import PATIENCE_SECONDS


class ScriptedLog:
    """A log with scripted writers."""

    def __init__(self, *looks: tuple[int, set[str]]) -> None:
        """`looks`: the highest id and the writers, as each look finds them; the last one stays."""
        self._looks = list(looks)

    def highest(self) -> dict[str, int]:
        return {"invocation": self._looks[0][0]}

    def writers(self) -> set[str]:
        found = self._looks[0][1]
        if len(self._looks) > 1:
            del self._looks[0]
        return found


def looks(settling: Settling, log: ScriptedLog, count: int) -> list[tuple[int, bool]]:
    return [(settling.look(log), settling.is_known) for _ in range(count)]


def test_an_id_is_settled_once_those_who_wrote_at_its_time_have_ended() -> None:
    log = ScriptedLog((7, {"a", "b"}), (8, {"b", "c"}), (9, {"c"}), (9, set()))
    assert looks(Settling("invocation"), log, 4) == [(0, False), (0, False), (9, True), (9, True)]


def test_nothing_is_known_before_a_first_writer_has_ended() -> None:
    assert looks(Settling("invocation"), ScriptedLog((7, {"a"})), 3) == [(0, False)] * 3
    assert looks(Settling("invocation"), ScriptedLog((0, set())), 1) == [(0, True)]


def test_who_looks_first_begins_now_and_not_at_the_beginning() -> None:
    assert Settling("invocation").await_first(ScriptedLog((7, {"a"})), 0) == 7
    assert Settling("invocation").await_first(ScriptedLog((7, {"a"}), (8, set())), PATIENCE_SECONDS) == 8
