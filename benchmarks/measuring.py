"""Measures servers in turn, and says of each pair by how much the one is ahead of the other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks.servers import Server, load

_SHORTEST_SECONDS = 0.4
Rounds = list[dict[str, Any]]


@dataclass(frozen=True)
class Goal:
    """One line of the table of goals."""

    part: str
    what: str
    goal: str
    measured: str
    spread: str
    reached: bool | None
    """None where there is no goal, or this machine cannot show it."""
    note: str = ""

    def line(self) -> str:
        verdict = {True: "yes", False: "NO", None: "–"}[self.reached]
        note = f"  ({self.note})" if self.note else ""
        return f"{self.what:<58} {self.goal:>10} {self.measured:>10} {self.spread:>15}  {verdict}{note}"


@dataclass
class Bench:
    """How long to measure, and what was found."""

    rounds: int
    seconds: float
    warm: float
    figures: list[dict[str, Any]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def turns(
        self, part: str, servers: Sequence[Server], clients: int, *, slices: int = 1, **more: Any
    ) -> dict[str, Rounds]:
        """Measure A B C C B A A B C …; give the rounds of each by its name.

        The order changes with each round, so that what follows from a server's place is not taken for its own. With
        `slices`, a round is so many short ones: what else the machine does then meets all servers alike.
        """
        found: dict[str, Rounds] = {server.name: [] for server in servers}
        for server in servers:
            # The first calls compile and import; they belong to no round.
            load(server, clients=clients, **{"seconds": 0.2, "warm": self.warm, **more})
        seconds = max(_SHORTEST_SECONDS, self.seconds / slices)
        for number in range(self.rounds * slices):
            for server in servers if number % 2 == 0 else reversed(servers):
                options = {"seconds": seconds, "warm": self.warm / slices, **more}
                found[server.name].append(load(server, clients=clients, **options))
        say(f"\n{part}, {clients} client{'s' if clients > 1 else ''}:")
        for server in servers:
            rounds = found[server.name]
            memory = server.resident_kib() / 1024
            self.figures.append(
                {"part": part, "server": server.name, "clients": clients, "resident_mib": memory, "rounds": rounds}
            )
            middle = {name: median(each[name] for each in rounds) for name in rounds[0]}
            say(
                f"  {server.name:<28} {middle['per_second']:>9.0f}/s  p50 {middle['p50_ms']:>8.2f}  "
                f"p95 {middle['p95_ms']:>8.2f}  p99 {middle['p99_ms']:>8.2f} ms  "
                f"server {middle['server_us_per_call']:>6.0f} µs/call  {memory:>4.0f} MiB  "
                f"client {middle['client_busy']:>4.0%} busy"
            )
        return found

    def compare(
        self,
        part: str,
        what: str,
        ours: Rounds,
        theirs: Rounds,
        least: float | None = None,
        *,
        note: str = "",
        shown: bool = True,
        by_processor: bool = False,
    ) -> None:
        """Note by how much `ours` is ahead, round by round; `least` is the goal, `shown` whether it can be judged.

        The goal is about the rate, or `by_processor` about the server's processor time, which a machine that does
        something else disturbs less.
        """
        rates = [one["per_second"] / other["per_second"] for one, other in zip(ours, theirs, strict=True)]
        costs = [
            other["server_us_per_call"] / max(one["server_us_per_call"], 0.01)
            for one, other in zip(ours, theirs, strict=True)
        ]
        shown_first, other = (costs, rates) if by_processor else (rates, costs)
        middle = median(shown_first)
        name = "rate" if by_processor else "processor"
        words = f"{name} {median(other):.2f} ({min(other):.2f}–{max(other):.2f})"
        digits = 3 if by_processor else 2
        self.add(
            Goal(
                part,
                what,
                f"≥ {least:g}" if least else "",
                f"{middle:.{digits}f}",
                f"{min(shown_first):.2f}–{max(shown_first):.2f}",
                middle >= least if least and shown else None,
                "; ".join(filter(None, [words, note])),
            )
        )

    def limit(
        self, part: str, what: str, values: Sequence[float], most: float | None, unit: str, note: str = ""
    ) -> None:
        """Note a figure that should stay below `most`."""
        middle = median(values)
        spread = f"{min(values):.2f}–{max(values):.2f}" if len(values) > 1 else ""
        reached = None if most is None else middle <= most
        goal = "" if most is None else f"≤ {most:g} {unit}"
        self.add(Goal(part, what, goal, f"{middle:.2f} {unit}", spread, reached, note))

    def add(self, goal: Goal) -> None:
        self.goals.append(goal)
        say(f"  {goal.line()}")

    def as_json(self) -> dict[str, Any]:
        return {
            "rounds": self.rounds,
            "seconds": self.seconds,
            "figures": self.figures,
            "goals": [asdict(goal) for goal in self.goals],
            "failures": self.failures,
            "notes": self.notes,
        }


def say(words: str) -> None:
    print(words, flush=True)


def warn(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
