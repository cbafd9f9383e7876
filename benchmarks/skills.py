"""Milliseconds of `skills/list` over 200 skills with 2,000 files: the first after a start or change, and further ones.

python -m benchmarks.skills
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from tests import operations
from tests.features.skills import operations as skills
from tests.features.skills.operations import ENTRY
from tests.servers import Hub
from tests.wire.speech import Speaker

SKILLS, FILES, REPEATED, ROUNDS = 200, 10, 50, 5


def main() -> None:
    started, first, later = [], [], []
    with tempfile.TemporaryDirectory(prefix="mcphub-skills-") as folder:
        with Hub(Path(folder)) as hub:
            hub.operate(skills.add_many, SKILLS, FILES)
            key = hub.operate(operations.issue_key, "reader", ["tools:list"])
            with Speaker(hub.url, key) as speaker:
                for number in range(ROUNDS):
                    hub.operate(skills.add, "changed/one", {"SKILL.md": ENTRY.format(name="one") + str(number)})
                    first.append(_listed(speaker))
                    later += [_listed(speaker) for _ in range(REPEATED)]
        for _ in range(ROUNDS):
            with Hub(Path(folder)) as hub, Speaker(hub.url, key) as speaker:
                started.append(_listed(speaker))
    later.sort()
    print(f"{SKILLS} skills with {SKILLS * FILES} files, {ROUNDS} changes, {len(later)} lists between them")
    print(f"first after a start: median {median(started):.1f} ms, slowest {max(started):.1f} ms")
    print(f"first after a change: median {median(first):.1f} ms, slowest {max(first):.1f} ms")
    print(f"those that follow: median {median(later):.1f} ms, p95 {later[len(later) * 95 // 100]:.1f} ms")


def _listed(speaker: Speaker) -> float:
    began = time.perf_counter()
    found = speaker.modern("skills/list").json()["result"]["skills"]
    took = (time.perf_counter() - began) * 1000
    assert len(found) == SKILLS + 1, "A page holds fewer than the bundle."
    assert sum(len(each["resources"]) for each in found) == SKILLS * FILES + 1
    return took


if __name__ == "__main__":
    main()
