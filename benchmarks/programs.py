"""Tokens of ten tasks of three to thirty calls: plain calls, and one program that makes them.

python -m benchmarks.programs

Scripted, so both ways find the same answers, which is checked. A token is counted as four characters. *Once* counts
each argument and result once, as it is written; *read* counts the whole conversation anew for each answer of the
model, as providers do: plain calls that do not wait for each other are sent in one answer.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import operations
from tests.servers import ROOT, Hub, until
from tests.wire.speech import Speaker

BUNDLE = ROOT / "tests" / "features" / "code_programs" / "bundle.json"
CHARACTERS_A_TOKEN = 4
Page = list[dict[str, Any]]
Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class ProgramTask:
    """`rounds` are plain calls by answer of the model; `answer` finds the result in what they returned."""

    name: str
    rounds: Callable[[], list[list[Step]]]
    answer: Callable[[list[Any]], Any]
    code: str

    @property
    def calls(self) -> int:
        return sum(map(len, self.rounds()))


def _pages(first: int, last: int) -> Callable[[], list[list[Step]]]:
    return lambda: [[("list_orders", {"page": page}) for page in range(first, last + 1)]]


def _one_by_one(first: int, last: int) -> Callable[[], list[list[Step]]]:
    return lambda: [[("list_orders", {"page": page})] for page in range(first, last + 1)]


def _cancelled(pages: int, every: int) -> Callable[[], list[list[Step]]]:
    numbers = [at for at in range(pages * 10) if at % every == 0]
    return lambda: [
        [("list_orders", {"page": page}) for page in range(1, pages + 1)],
        [("cancel_order", {"number": at}) for at in numbers],
    ]


def _orders(results: list[Any]) -> Page:
    return [order for each in results if isinstance(each, dict) for order in each["orders"]]


def _all(last: int, rest: str, first: int = 1) -> str:
    return (
        f"const all = [];\nfor (let page = {first}; page <= {last}; page++)\n"
        f"  all.push(...(await tools.list_orders({{page}})).orders);\n{rest}"
    )


def _cancels(pages: int, every: int) -> str:
    return _all(
        pages,
        f"const chosen = all.filter(o => o.number % {every} === 0);\n"
        "for (const o of chosen) await tools.cancel_order({number: o.number});\nreturn chosen.length;",
    )


TASKS = (
    ProgramTask(
        "sum of three pages",
        _pages(1, 3),
        lambda r: sum(o["price"] for o in _orders(r)),
        _all(3, "return all.reduce((sum, o) => sum + o.price, 0);"),
    ),
    ProgramTask(
        "dearest of five pages",
        _pages(2, 6),
        lambda r: max(_orders(r), key=lambda o: o["price"])["number"],
        _all(6, "return all.sort((a, b) => b.price - a.price)[0].number;", first=2),
    ),
    ProgramTask(
        "count of eight pages",
        _pages(1, 8),
        lambda r: sum(o["price"] > 100 for o in _orders(r)),
        _all(8, "return all.filter(o => o.price > 100).length;"),
    ),
    ProgramTask(
        "first above a price, page by page",
        _one_by_one(1, 10),
        lambda r: next(o["number"] for o in _orders(r) if o["price"] > 280),
        "for (let page = 1; ; page++) {\n  const found = (await tools.list_orders({page})).orders"
        ".find(o => o.price > 280);\n  if (found) return found.number;\n}",
    ),
    ProgramTask("cancel the even of one page", _cancelled(1, 2), lambda r: len(r) - 1, _cancels(1, 2)),
    ProgramTask("cancel each third of two", _cancelled(2, 3), lambda r: len(r) - 2, _cancels(2, 3)),
    ProgramTask("cancel each fifth of five", _cancelled(5, 5), lambda r: len(r) - 5, _cancels(5, 5)),
    ProgramTask(
        "mean of fifteen pages",
        _pages(1, 15),
        lambda r: sum(o["price"] for o in _orders(r)) // len(_orders(r)),
        _all(15, "return Math.floor(all.reduce((sum, o) => sum + o.price, 0) / all.length);"),
    ),
    ProgramTask(
        "numbers of twenty pages",
        _pages(1, 20),
        lambda r: [o["number"] for o in _orders(r) if o["price"] % 50 == 0],
        _all(20, "return all.filter(o => o.price % 50 === 0).map(o => o.number);"),
    ),
    ProgramTask("cancel each fourth of eight", _cancelled(8, 4), lambda r: len(r) - 8, _cancels(8, 4)),
)


@dataclass
class Spent:
    """Characters of one task's conversation."""

    once: int = 0
    read: int = 0

    def answered(self, written: int, results: int) -> None:
        """Count one answer of the model and its results: the answer is read with all that comes later."""
        self.read += self.once + written
        self.once += written + results


def _call(speaker: Speaker, name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], int]:
    result: dict[str, Any] = speaker.modern_call(name, arguments).json()["result"]
    assert not result.get("isError"), result
    return result, sum(len(block["text"]) for block in result["content"])


def _plainly(speaker: Speaker, task: ProgramTask) -> tuple[Any, Spent]:
    spent, results = Spent(), []
    for steps in task.rounds():
        written = sum(len(json.dumps({"name": name, "arguments": given})) for name, given in steps)
        size = 0
        for name, given in steps:
            result, characters = _call(speaker, name, given)
            results.append(result.get("structuredContent", result["content"]))
            size += characters
        spent.answered(written, size)
    spent.answered(0, 0)
    return task.answer(results), spent


def _by_program(speaker: Speaker, task: ProgramTask) -> tuple[Any, Spent]:
    spent = Spent()
    result, characters = _call(speaker, "run_code", {"code": task.code})
    spent.answered(len(json.dumps({"name": "run_code", "arguments": {"code": task.code}})), characters)
    spent.answered(0, 0)
    return json.loads(result["content"][-1]["text"]), spent


def main() -> None:
    environment = {"MCPHUB_APPS": "tests.features.code_programs"}
    whole = [Spent(), Spent()]
    with tempfile.TemporaryDirectory() as folder, Hub(Path(folder), bundle=BUNDLE, environment=environment) as hub:
        key = hub.operate(operations.issue_key, "programs", ["tools:list", "tools:call"])
        with Speaker(hub.url, key) as speaker:
            until(lambda: speaker.modern("server/discover").status_code == 200)
            listed = {each["name"]: each for each in speaker.modern("tools/list").json()["result"]["tools"]}
            print(f"definition of run_code: {len(json.dumps(listed['run_code'])) // CHARACTERS_A_TOKEN} tokens")
            print(f"{'task':<36}calls  plain once/read   program once/read")
            for task in TASKS:
                found = [_plainly(speaker, task), _by_program(speaker, task)]
                assert found[0][0] == found[1][0], (task.name, found)
                for total, (_, spent) in zip(whole, found, strict=True):
                    total.once += spent.once
                    total.read += spent.read
                print(f"{task.name:<36}{task.calls:>5}  {_said(found[0][1])}   {_said(found[1][1])}")
    print(f"{'all':<43}{_said(whole[0])}   {_said(whole[1])}")
    print(f"share: {whole[1].once / whole[0].once:.3f} once, {whole[1].read / whole[0].read:.3f} read")


def _said(spent: Spent) -> str:
    return f"{spent.once // CHARACTERS_A_TOKEN:>7}/{spent.read // CHARACTERS_A_TOKEN:<8}"


if __name__ == "__main__":
    main()
