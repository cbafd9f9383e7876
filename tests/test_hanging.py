"""A test that hangs ends, and names where it hung."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests import hanging

HANGS = """
import pathlib
import threading
from tests import hanging

begun = pathlib.Path(__file__).with_name("begun")
if not begun.exists():  # the process that goes on has as long as any
    begun.touch()
    hanging.LIMIT_SECONDS = 0.2

def test_that_hangs():
    threading.Event().wait()

def test_after_it():
    pass
"""
WATCHED = """
from tests import hanging

def pytest_configure(config):
    config.pluginmanager.register(hanging.Watch())
"""


@pytest.mark.program
def test_a_test_that_hangs_fails_by_name_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(HANGS)
    (tmp_path / "conftest.py").write_text(WATCHED)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert "1 failed, 1 passed" in run.stdout
    assert "crashed while running 'test_hangs.py::test_that_hangs'" in run.stdout
    assert "test_hangs.py::test_that_hangs hangs" in run.stderr
    assert "most recent call first" in run.stderr


def test_what_a_task_waits_for_is_shown_to_the_innermost_coroutine(tmp_path: Path) -> None:
    async def inner() -> None:
        await asyncio.Event().wait()

    async def outer() -> None:
        await inner()

    async def shown() -> str:
        task = asyncio.create_task(outer())
        await asyncio.sleep(0)
        with (tmp_path / "stacks").open("w+") as stream:
            hanging.show_stacks(stream)
            task.cancel()
            stream.seek(0)
            return stream.read()

    lines = asyncio.run(shown()).splitlines()
    [at] = [number for number, line in enumerate(lines) if line.endswith(" outer")]
    assert [line.rpartition(" ")[2] for line in lines[at : at + 3]] == ["outer", "inner", "wait"]
    assert "most recent call first" in "\n".join(lines)
