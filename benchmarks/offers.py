"""Tokens that a model reads and writes for each completed task, by how a searched toolset is offered to it; run by
`benchmarks.offering`.

The tools are those of the search's labelled set, over and over under other names; the tasks are its questions. The
model is scripted: it searches by the question, calls the first tool found that the question wants, and answers; where
the search finds none, it gives up and the task is not completed. All counts are the same in each run. A token is
counted as four characters of JSON; nothing is taken off for what a provider caches. *Eager* is counted beyond the 128
tools that providers take.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.searching import many
from mcphub.features.chat.dialects import DIALECTS
from mcphub.features.chat.tools.functions import Functions
from tests.features.chat.loading import CALLER, LoadingPeer, turn
from tests.features.chat.script import Step, calls, say
from tests.features.chat.tools import tool
from tests.search import quality
from tools_catalog.catalog.search_definitions import DEFAULT_FOUND
from tools_catalog.catalog.toolsets import Toolset

COUNTS = (50, 500, 1000)
CHARACTERS_A_TOKEN = 4
ASKED = 40
"""Questions: every fifth."""
RESULT = {"ok": True, "items": [{"id": number, "name": f"item {number}"} for number in range(5)]}


@dataclass
class OfferTotals:
    characters: int = 0
    completed: int = 0
    requests: int = 0

    @property
    def tokens_a_task(self) -> float:
        return self.characters / CHARACTERS_A_TOKEN / max(1, self.completed)


class CountingPeer(LoadingPeer):
    """Answers by the steps of a task, and counts what the model reads and writes."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self._steps = steps

    def step(self, messages: list[dict[str, Any]]) -> Step:
        begins = max(at for at, message in enumerate(messages) if message["role"] == "user")
        return self._steps[sum(message["role"] == "assistant" for message in messages[begins:])]

    def characters(self) -> int:
        return sum(_read(body) for _, body in self.requests) + len(json.dumps(self._steps))


def _read(body: dict[str, Any]) -> int:
    """Return the characters of a request that its model reads: of deferred tools those that are referred to."""
    said = body.get("input") or body["messages"]
    text = json.dumps(said)
    known = [each for each in body["tools"] if not each.get("defer_loading") or f'"{each["name"]}"' in text]
    return len(text) + len(json.dumps(known))


def definitions(count: int) -> dict[str, Any]:
    """Return tools with typed and described arguments."""
    found = {}
    for name, definition in list(many(count).items())[:count]:
        names = definition["inputSchema"]["properties"]
        properties = {
            each: {"type": "string", "description": f"The {each.replace('_', ' ')} of what is asked for."}
            for each in names
        }
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(names)[:1],
            "additionalProperties": False,
        }
        made = tool(name, schema, read_only=True)
        made.definition.update(title=definition["title"], description=definition["description"])
        found[name] = made
    return found


def wanted_of(found: list[str], wanted: frozenset[str]) -> str | None:
    return next((name for name in found if name.partition("_")[2] in wanted), None)


async def offered(how: str, toolset: Toolset, asked: list[quality.Question]) -> OfferTotals:
    totals = OfferTotals()
    for each in asked:
        shown = DEFAULT_FOUND if how == "search" else 5
        names = [found["name"] for found in toolset.search(each.words, shown, CALLER)["tools"]]
        name = wanted_of(names, each.wanted)
        arguments: dict[str, Any] = {}
        if name is not None:
            required = toolset.tools[name].definition["inputSchema"]["required"]
            arguments = dict.fromkeys(required, "x")
        steps = [calls(("search_tools", {"query": each.words}))]
        if name is not None and how == "search":
            steps += [
                calls(("describe_tool", {"name": name})),
                calls(("call_tool", {"name": name, "arguments": arguments})),
            ]
        elif name is not None:
            steps.append(calls((name, arguments)))
        steps.append(say("Done." if name is not None else "I found no tool for it."))
        peer = CountingPeer(steps)
        _, finished, made = await turn(peer, toolset, how, [{"role": "user", "content": each.words}], result=RESULT)
        assert not finished.notices, finished.notices
        totals.characters += peer.characters()
        totals.completed += name is not None and made.calls[-1] == (name, arguments)
        totals.requests += len(peer.requests)
    return totals


def eager(tools: dict[str, Any], asked: list[quality.Question]) -> OfferTotals:
    dialect = replace(DIALECTS[0], most_tools=len(tools), most_schema_bytes=1 << 40)
    listed = len(json.dumps(Functions(tools.values()).wire(dialect)))
    totals = OfferTotals()
    for each in asked:
        if (name := wanted_of(list(tools), each.wanted)) is None:
            continue
        call = json.dumps({"name": name, "arguments": {"x": "x"}})
        said = json.dumps([{"role": "user", "content": each.words}])
        totals.characters += 2 * (listed + len(said)) + 2 * len(call) + len(json.dumps(RESULT))
        totals.completed += 1
        totals.requests += 2
    return totals


def show() -> None:
    logging.disable(logging.WARNING)
    for count in COUNTS:
        tools = definitions(count)
        toolset = Toolset("all", tools.values(), groups=frozenset(), searches=True, words="")
        asked = [each for each in quality.questions() if wanted_of(list(tools), each.wanted)][::5][:ASKED]
        size = len(json.dumps([each.definition["inputSchema"] for each in tools.values()])) // 4 // count
        print(f"{count} tools, {len(asked)} tasks, {size} tokens of schema a tool")
        all_of_it = {"eager": eager(tools, asked)}
        for how in ("search", "responses", "messages"):
            all_of_it[how] = asyncio.run(offered(how, toolset, asked))
        three = all_of_it["search"].tokens_a_task
        for how, totals in all_of_it.items():
            print(
                f"  {how:<10}{totals.tokens_a_task:>9.0f} tokens a completed task, {totals.completed} completed, "
                f"{totals.requests / len(asked):.1f} requests; {totals.tokens_a_task / three:.2f} of three tools"
            )
        print(f"  three tools {three / all_of_it['eager'].tokens_a_task:.3f} of eager")
