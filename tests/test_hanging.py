"""A test that hangs ends, and names where it hung."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests import hanging

HANGS = """
import asyncio
from tests import hanging

hanging.LIMIT_SECONDS = 0.2

async def inner():
    await asyncio.Event().wait()

async def outer():
    await inner()

def test_that_hangs():
    asyncio.run(outer())

def test_after_it():
    pass
"""


@pytest.mark.program
def test_a_test_that_hangs_fails_by_name_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(HANGS)
    (tmp_path / "conftest.py").write_text(
        "from tests import hanging\n\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(hanging.Watch())\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert "1 failed, 1 passed" in run.stdout
    assert "crashed while running 'test_hangs.py::test_that_hangs'" in run.stdout
    for place in ("outer", "inner", "Thread"):
        assert place in run.stderr, run.stderr


def test_what_a_task_waits_for_is_shown_to_the_innermost_coroutine() -> None:
    asyncio.run(_shows_the_innermost())


async def _shows_the_innermost() -> None:
    async def inner() -> None:
        await asyncio.Event().wait()

    async def outer() -> None:
        await inner()

    task = asyncio.create_task(outer())
    await asyncio.sleep(0)
    assert task in hanging.tasks()
    assert [frame.f_code.co_name for frame in hanging.waiting(task.get_coro())] == ["outer", "inner", "wait"]
    task.cancel()
