"""The search over the tools of a toolset, at as many tools as a large hub has: milliseconds a question.

python -m benchmarks.searching
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from tests.search import quality
from tools_catalog.catalog.searching import Index

TOOLS = 5_000


def many(count: int) -> dict[str, Mapping[str, Any]]:
    """Give the tools of the labelled set over and over, each API under other names."""
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
    took = []
    for question in quality.questions():
        began = time.perf_counter()
        index.rank(question.words)
        took.append((time.perf_counter() - began) * 1000)
    took.sort()
    print(
        f"{len(tools)} tools: index {made * 1000:.0f} ms; {len(took)} questions, median {median(took):.1f} ms,", end=" "
    )
    print(f"p95 {took[len(took) * 95 // 100]:.1f} ms, slowest {took[-1]:.1f} ms")


if __name__ == "__main__":
    main()
