"""How well detectors find what they look for: `make guardrail-quality`.

`labelled.jsonl` holds self-made texts, each with a kind, and how often what is in it. Half of them, told by `kept`, was
not looked at while detectors were written; its figures are the ones in docs/secure/guardrails.md.

    python -m tests.tools_catalog.detectors.quality [--half kept|tuned|all] [--misses]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools_catalog.detectors.scanning import GROUPS, KINDS, scanner_of

SET = Path(__file__).with_name("labelled.jsonl")


@dataclass(frozen=True)
class Labelled:
    kind: str
    text: str
    found: Counter[str]
    kept: bool


@dataclass
class Score:
    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0


def read() -> list[Labelled]:
    made = [json.loads(line) for line in SET.read_text().splitlines()]
    return [Labelled(each["kind"], each["text"], Counter(each["found"]), each["kept"]) for each in made]


def scored(items: Iterable[Labelled]) -> tuple[dict[str, Score], list[tuple[Labelled, Counter[str]]]]:
    """Return the score of each kind, and the items of which something else was found. All detectors look at all
    items.
    """
    scanner = scanner_of(tuple(kind for kind in KINDS if kind not in GROUPS["size"]), None, None)
    scores = {kind: Score() for kind in KINDS}
    misses = []
    for item in items:
        found = Counter(kind for kind, _begin, _end in scanner.spans(item.text))
        for kind in found.keys() | item.found.keys():
            scores[kind].right += min(found[kind], item.found[kind])
            scores[kind].wrong += max(0, found[kind] - item.found[kind])
            scores[kind].missed += max(0, item.found[kind] - found[kind])
        if found != item.found:
            misses.append((item, found))
    return scores, misses


def joined(scores: Iterable[Score]) -> Score:
    total = Score()
    for each in scores:
        total.right += each.right
        total.wrong += each.wrong
        total.missed += each.missed
    return total


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("kept", "tuned", "all"), default="kept")
    parser.add_argument("--misses", action="store_true", help="print each text of which something else was found")
    options = parser.parse_args(argv)
    items = [item for item in read() if options.half == "all" or item.kept is (options.half == "kept")]
    scores, misses = scored(items)
    print(f"{len(items)} texts, {sum(bool(item.found) for item in items)} with something in them")
    print(f"{'kind':<20}{'precision':>10}{'recall':>8}{'right':>7}{'wrong':>7}{'missed':>8}")
    for group, kinds in GROUPS.items():
        if group == "size":
            continue
        for name, score in [
            *((kind, scores[kind]) for kind in kinds),
            (f"= {group}", joined(scores[k] for k in kinds)),
        ]:
            line = f"{score.precision:>10.2f}{score.recall:>8.2f}{score.right:>7}{score.wrong:>7}{score.missed:>8}"
            print(f"{name:<20}{line}")
    if options.misses:
        for item, found in misses:
            print(f"{item.text!r}: {dict(item.found)} is in it, found {dict(found)}")


if __name__ == "__main__":
    main()
