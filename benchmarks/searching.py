"""The search over the tools of a toolset, at as many tools as a large hub has: milliseconds a question, of a clock and
of the processor, which differ where the machine has other work.

python -m benchmarks.searching
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from mcphub.features.embeddings.vectors import Vector, closest
from tests.search import quality
from tools_catalog.catalog.searching import Index

TOOLS = 5_000
DIMENSIONS = (384, 1536)
"""Of small and of large models of embeddings."""


def many(count: int) -> dict[str, Mapping[str, Any]]:
    """Return the tools of the labelled set over and over, each API under other names."""
    known, found = quality.tools(), dict[str, Mapping[str, Any]]()
    while len(found) < count:
        copy = len(found) // len(known)
        for name, definition in known.items():
            called = f"api{copy}_{name}"
            found[called] = {**definition, "name": called}
    return found


def main() -> None:
    tools = many(TOOLS)
    began = time.perf_counter()
    index = Index(tools)
    made = time.perf_counter() - began
    print(f"{len(tools)} tools: index {made * 1000:.0f} ms")
    clock, processor = [], []
    for question in quality.questions():
        began, worked = time.perf_counter(), time.thread_time()
        index.rank(question.words)
        clock.append((time.perf_counter() - began) * 1000)
        processor.append((time.thread_time() - worked) * 1000)
    for name, took in (("clock", sorted(clock)), ("processor", sorted(processor))):
        p95 = took[len(took) * 95 // 100]
        print(
            f"{len(took)} questions, {name}: median {median(took):.1f} ms, p95 {p95:.1f} ms, slowest {took[-1]:.1f} ms"
        )
    for dimensions in DIMENSIONS:
        drawn = random.Random(1)
        asked, *vectors = (Vector.of([drawn.gauss(0, 1) for _ in range(dimensions)]) for _ in range(TOOLS + 1))
        known, took = {str(at): vector for at, vector in enumerate(vectors)}, []
        for _ in range(20):
            worked = time.thread_time()
            closest(asked, known)
            took.append((time.thread_time() - worked) * 1000)
        print(f"closest of {TOOLS} vectors of {dimensions} dimensions, processor: median {median(took):.1f} ms")


if __name__ == "__main__":
    main()
