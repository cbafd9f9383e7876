"""Measure what a person waits for who begins with nothing: a clone, `make serve`, a first audited call.

    python -m deploy.release.try_clone [--most-seconds 40]

The clone is of the last commit, into a folder that is removed again; packages come from the index, or from the caches
of uv and pip where they are there. Printed are the seconds of each step, and those that the processors worked: on a
busy machine the two are far apart. Exit status 1 where all steps take longer than `--most-seconds`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deploy.release import first_call, hashes

_PATIENCE_SECONDS = 600.0
"""For the start on a busy machine, of which the figures tell, too."""


class Stopwatch:
    """Prints the seconds of each step, and of the processors, which those of children are."""

    def __init__(self) -> None:
        self.seconds = self.worked = 0.0
        self._at, self._worked_at = time.monotonic(), _worked()

    def step(self, name: str) -> None:
        now, worked = time.monotonic(), _worked()
        print(f"{name:<45} {now - self._at:6.1f} s  {worked - self._worked_at:6.1f} s of processors", flush=True)
        self.seconds += now - self._at
        self.worked += worked - self._worked_at
        self._at, self._worked_at = now, worked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most-seconds", type=float, default=40.0, help="for all steps together (40)")
    options = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    with tempfile.TemporaryDirectory(prefix="mcphub-clone-") as name:
        clone, watch = Path(name) / "clone", Stopwatch()
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(hashes.HOME), str(clone)], check=True)
        watch.step("git clone")
        subprocess.run(["make", "-s", "install"], cwd=clone, env=environment, check=True)
        watch.step("make serve: what it installs")
        mcphub, port = str(clone / ".venv/bin/mcphub"), first_call.free_port()
        said = first_call.serve_and_call([mcphub, "serve"], clone, port, environment, _PATIENCE_SECONDS)
        watch.step("make serve: tables, keys, a call, its row, stop")
    print(said)
    print(f"together {watch.seconds:.1f} s, of which processors worked {watch.worked:.1f} s", flush=True)
    return int(watch.seconds > options.most_seconds)


def _worked() -> float:
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    sys.exit(main())
