"""How often the search finds the right tool: 200 plain questions over the tools of three imported APIs.

    python -m tests.search.quality [--misses] [--sets FOLDER]    figures of both halves; the tuned half's misses

Questions on odd lines were tuned on, those on even lines were held out. `--misses` shows the tuned half's only.
`--sets` measures public sets as well, whose clones FOLDER holds (`tests.search.public_sets`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.search import public_sets
from tools_catalog.catalog.searching import Index

_HERE = Path(__file__).parent
APIS = ("forge", "pay", "track")


@dataclass(frozen=True, slots=True)
class Question:
    words: str
    wanted: frozenset[str]
    is_tuned: bool


@dataclass(frozen=True, slots=True)
class Quality:
    """Shares of the questions whose tool came first, or among the first five."""

    questions: int
    top_1: float
    top_5: float


def tools() -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for api in APIS:
        for line in (_HERE / f"{api}.txt").read_text().splitlines():
            name, title, description, arguments = (each.strip() for each in line.split("|"))
            schema = {"type": "object", "properties": {argument: {} for argument in arguments.split()}}
            found[name] = {"name": name, "title": title, "description": description, "inputSchema": schema}
    return found


def questions() -> list[Question]:
    lines = [line for line in (_HERE / "questions.txt").read_text().splitlines() if not line.startswith("#")]
    pairs = [line.split(" | ") for line in lines]
    return [Question(asked, frozenset(wanted.split(", ")), at % 2 == 0) for at, (asked, wanted) in enumerate(pairs)]


def measured(index: Index, asked: list[Question]) -> Quality:
    ranks = [_rank(index.rank(each.words), each.wanted) for each in asked]
    count = len(asked)
    return Quality(count, sum(rank == 0 for rank in ranks) / count, sum(rank < 5 for rank in ranks) / count)


def _rank(found: list[str], wanted: frozenset[str]) -> int:
    return next((at for at, name in enumerate(found) if name in wanted), len(found) + 1000)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--misses", action="store_true", help="show the questions of the tuned half that miss")
    options.add_argument("--sets", type=Path, metavar="FOLDER", help="clones of MetaTool and Seal-Tools to measure too")
    shown = options.parse_args()
    index, asked = Index(tools()), questions()
    for name, half in (("tuned", True), ("held out", False)):
        found = measured(index, [each for each in asked if each.is_tuned is half])
        print(f"{name:9} {found.questions} questions: first {found.top_1:.2f}, among the first five {found.top_5:.2f}")
    began = time.perf_counter()
    for each in asked:
        index.rank(each.words)
    print(f"{(time.perf_counter() - began) * 1000 / len(asked):.2f} ms a question over {len(tools())} tools")
    if shown.misses:
        for each in asked:
            found_names = index.rank(each.words)
            if each.is_tuned and (rank := _rank(found_names, each.wanted)):
                print(f"\n{each.words}\n  wanted {', '.join(each.wanted)}, rank {rank}: {', '.join(found_names[:4])}")
    if shown.sets is not None:
        public_sets.show(shown.sets)


if __name__ == "__main__":
    main()
