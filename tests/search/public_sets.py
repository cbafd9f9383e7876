"""How often the search finds the right tools of public sets, beside plain BM25. Nothing of them is part of the hub.

Clone github.com/HowieHwong/MetaTool and github.com/fairyshine/Seal-Tools into one folder, and name it:

    make search-quality ARGS="--sets FOLDER"

Each set is parted by a digest of its questions: figures of the first half may decide between two ways to rank, those of
the second half are only reported. No question of either half is tuned on.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from mcphub.features.call_examples.lines import LONGEST
from tests.search.plain import PlainIndex
from tools_catalog.catalog.searching import EXAMPLES, Index

WITHIN = 10
_EXAMPLES = (3, 10)
"""Examples of use a tool. The questions of Seal-Tools have too many tools for that many each."""


class Ranking(Protocol):
    def rank(self, query: str) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Asked:
    words: str
    wanted: frozenset[str]

    @property
    def is_held_out(self) -> bool:
        return bool(sha256(self.words.encode()).digest()[0] % 2)


@dataclass(frozen=True, slots=True)
class PublicSet:
    name: str
    tools: Mapping[str, Mapping[str, Any]]
    asked: list[Asked]


@dataclass(frozen=True, slots=True)
class Found:
    """Shares: of questions with a right tool first, and of wanted tools among the first ten."""

    first: float
    recall: float


def measured(index: Ranking, asked: list[Asked]) -> Found:
    first = recall = 0.0
    for each in asked:
        found = index.rank(each.words)
        first += bool(found) and found[0] in each.wanted
        recall += len(each.wanted.intersection(found[:WITHIN])) / len(each.wanted)
    return Found(first / len(asked), recall / len(asked))


def read_metatool(folder: Path) -> Iterator[PublicSet]:
    """Read `all_clean_data.csv`, each question of which has one tool of `plugin_des.json`."""
    dataset = folder / "dataset"
    described = json.loads((dataset / "plugin_des.json").read_text())
    tools = {name: {"name": name, "description": words} for name, words in described.items()}
    with (dataset / "data" / "all_clean_data.csv").open(newline="") as file:
        asked = [Asked(row["Query"], frozenset({row["Tool"]})) for row in csv.DictReader(file)]
    yield PublicSet("MetaTool", tools, asked)


def read_seal_tools(folder: Path) -> Iterator[PublicSet]:
    """Read the questions of dev and test, in two sets each: those with one tool, and those with several."""
    dataset = folder / "Seal-Tools_Dataset"
    tools = {}
    for each in _lines(dataset / "tool.jsonl"):
        schema = {"type": "object", "properties": each["parameters"]}
        name = each["api_name"]
        tools[name] = {"name": name, "description": each["api_description"], "inputSchema": schema}
    for part in ("dev", "test_in_domain", "test_out_domain"):
        asked = [
            Asked(each["query"], frozenset(call["api"] for call in each["calling"]))
            for each in _lines(dataset / f"{part}.jsonl")
        ]
        yield PublicSet(f"Seal-Tools {part}, one tool", tools, [each for each in asked if len(each.wanted) == 1])
        yield PublicSet(f"Seal-Tools {part}, several", tools, [each for each in asked if len(each.wanted) > 1])


_SETS = {"MetaTool": read_metatool, "Seal-Tools": read_seal_tools}


def with_examples(public: PublicSet, most: int) -> Mapping[str, Mapping[str, Any]]:
    """Return the tools with so many questions of the seen half each as examples of use, by the order of digests."""
    found: dict[str, list[str]] = {}
    for each in sorted(public.asked, key=lambda asked: sha256(asked.words.encode()).digest()):
        for tool in each.wanted if not each.is_held_out and len(each.words) <= LONGEST else ():
            found.setdefault(tool, []).append(each.words)
    return {name: {**tool, "_meta": {EXAMPLES: found.get(name, [])[:most]}} for name, tool in public.tools.items()}


def show(folder: Path) -> None:
    """Print the figures of the sets in a folder, ours and those of plain BM25."""
    known = {name: read for name, read in _SETS.items() if (folder / name).is_dir()}
    if not known:
        raise SystemExit(f"{folder} holds none of {', '.join(_SETS)}. Clone them there.")
    for read in (read(folder / name) for name, read in known.items()):
        for each in read:
            ours, plain = Index(each.tools), PlainIndex(each.tools)
            for name, is_held_out in (("seen", False), ("held out", True)):
                asked = [one for one in each.asked if one.is_held_out is is_held_out]
                if not asked:
                    continue
                found, least = measured(ours, asked), measured(plain, asked)
                below = "   BELOW PLAIN BM25" if found.recall < least.recall else ""
                print(
                    f"{each.name}, {name}: {len(asked)} questions, first {found.first:.3f} (plain BM25 "
                    f"{least.first:.3f}), within ten {found.recall:.3f} ({least.recall:.3f}){below}"
                )
            asked = [one for one in each.asked if one.is_held_out]
            for most in _EXAMPLES if each.name == "MetaTool" else ():
                found = measured(Index(with_examples(each, most)), asked)
                print(
                    f"{each.name}, held out, {most} seen questions a tool as examples: first {found.first:.3f}, within "
                    f"ten {found.recall:.3f}"
                )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in path.read_text().splitlines() if line.strip())
