"""Memory that a large result takes on its way through the hub, beside its size as JSON, which bounds count.

python -m benchmarks.large_results [MEGABYTES]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.processes import resident_kib, tree
from tests import operations
from tests.features.fitting_results import operations as sizes
from tests.servers import Hub, until
from tests.wire.speech import Speaker

BUNDLE = Path(sizes.__file__).parent / "bundle.json"
_LINE = len("This line is one of a great many, all alike.\\n")


def peak_kib(pids: list[int]) -> int:
    """Return the most memory that these processes had since `forget`."""
    found = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        found += next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return found


def forget(pids: list[int]) -> None:
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def main(megabytes: int) -> None:
    environment = {
        "MCPHUB_APPS": "tests.features.fitting_results",
        "MCPHUB_LIMITS": f"max_resource_bytes={64 * 1024 * 1024}",
    }
    lines = megabytes * 1024 * 1024 // _LINE
    with tempfile.TemporaryDirectory() as folder, Hub(Path(folder), bundle=BUNDLE, environment=environment) as hub:
        key = hub.operate(operations.issue_key, "large", ["tools:list", "tools:call"])
        with Speaker(hub.url, key) as speaker:
            until(lambda: speaker.modern("server/discover").status_code == 200)
            small = {"lines": 2}
            until(lambda: speaker.modern_call("bulk", small).status_code == 200)
            hub.operate(sizes.fit, "bulk", most_characters=8000)
            until(lambda: len(speaker.modern_call("bulk", {"lines": 1000}).json()["result"]["content"]) > 1)
            pids = tree(hub.pid)
            before = resident_kib(pids)
            print(f"{before / 1024:.1f} MB before; at most, in each step:")
            kept = [_called(speaker, pids, lines, before, megabytes, "kept, with a preview") for _ in range(2)]
            uri = kept[-1]["result"]["content"][2]["uri"]
            forget(pids)
            assert speaker.modern("resources/read", {"uri": f"{uri}?start=0&end=60"}).status_code == 200
            _say("a part is read", before, pids, megabytes)
            hub.operate(operations.delete, "fitting.ResultSize")
            until(lambda: len(speaker.modern_call("bulk", {"lines": 1000}).json()["result"]["content"]) == 1)
            for _ in range(2):
                _called(speaker, pids, lines, before, megabytes, "sent whole")


def _called(speaker: Speaker, pids: list[int], lines: int, before: int, megabytes: int, what: str) -> Any:
    forget(pids)
    answer = speaker.modern_call("bulk", {"lines": lines})
    assert answer.status_code == 200, answer.text[:300]
    _say(what, before, pids, megabytes)
    return answer.json()


def _say(what: str, before: int, pids: list[int], megabytes: int) -> None:
    more = (peak_kib(pids) - before) / 1024
    print(f"{what:<24} {more:+8.1f} MB, {more / megabytes:5.2f} times its size")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
