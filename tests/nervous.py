"""A pytest plugin, `-p tests.nervous`: the order of a run is random, and a busy loop has a claim on every core.

What passes only while the machine is idle, or after its neighbour, fails here on purpose. `make test-nervous` loads it.
`MCPHUB_TEST_SEED`, which is printed, draws an order again; files and the tests of each file are shuffled.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from _pytest.scope import Scope

_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"


class _Load:
    """Busy loops for as long as the run takes; each ends by itself where the run does not end them."""

    def __init__(self) -> None:
        cores = os.cpu_count() or 1
        self._loops = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(cores)]

    def pytest_report_header(self) -> str:
        return f"nervous: MCPHUB_TEST_SEED={_seed()}, busy loops on {len(self._loops)} cores"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(self.pytest_report_header())

    def pytest_unconfigure(self) -> None:
        for loop in self._loops:
            loop.kill()
            loop.wait()


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("MCPHUB_TEST_SEED", str(random.SystemRandom().randrange(1_000_000)))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Load())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle files, and the tests of each; those that share a hub by a parameter stay together, or it starts again."""
    drawn = random.Random(_seed())
    files: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        files.setdefault(item.path.as_posix(), {}).setdefault(_shared(item), []).append(item)
    items[:] = []
    for file in drawn.sample(sorted(files), len(files)):
        for shared in drawn.sample(sorted(files[file]), len(files[file])):
            held = files[file][shared]
            items.extend(drawn.sample(held, len(held)))


def _shared(item: pytest.Item) -> str:
    """Return the parameters of fixtures that several tests share."""
    called = getattr(item, "callspec", None)
    if called is None:
        return ""
    scopes = called._arg2scope
    return repr([(name, index) for name, index in called.indices.items() if scopes[name] is not Scope.Function])


def _seed() -> int:
    return int(os.environ["MCPHUB_TEST_SEED"])
