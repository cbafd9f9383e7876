"""Watches that only tests marked `program` or `rig` start one, so that `make test-fast` stays what it says."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest

from tests import template

_STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.system"}


class Watch:
    """A plugin: a start of a program fails the test that is not marked for it."""

    def __init__(self) -> None:
        self._watched: pytest.Item | None = None
        sys.addaudithook(self._heard)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        is_meant = item.get_closest_marker("program") or item.get_closest_marker("rig")
        self._watched = None if is_meant else item
        try:
            return (yield)
        finally:
            self._watched = None

    def _heard(self, event: str, arguments: Any) -> None:
        if event in _STARTS and self._watched is not None and not template.is_making:
            raise AssertionError(f"{self._watched.nodeid} starts a program: mark it `program`, or move it. {arguments}")
