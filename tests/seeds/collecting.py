"""A plugin of pytest: writes which tests a run collects, before any is left out, and which of them would not run.

MCPHUB_TEST_COLLECTED=FILE python -m pytest --collect-only -p tests.seeds.collecting PATH...
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

_SPARED = ("skip", "skipif", "xfail")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    found = {
        name: {item.nodeid.partition("[")[0] for item in items if is_spared(item) is spared}
        for name, spared in (("runs", False), ("spared", True))
    }
    told = {name: sorted(tests) for name, tests in found.items()}
    Path(os.environ["MCPHUB_TEST_COLLECTED"]).write_text(json.dumps(told))


def is_spared(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in _SPARED)
