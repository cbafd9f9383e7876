"""One key in four processes: together they are let in as often as one bucket gives, and no more."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import ROOT, postgres_database
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.rig

PROCESSES, SECONDS, CAPACITY, REFILL_SECONDS = 4, 12.0, 10, 0.5


@contextlib.contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'hub.sqlite3'}"
    else:
        with postgres_database() as address:
            yield address


@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=pytest.mark.long), "postgresql"])
def test_four_processes_share_one_bucket(kind, tmp_path):
    """capacity + rate·t ± 1, with t from the first draw to the last of all."""
    with database(kind, tmp_path) as address:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")},
            "MCPHUB_DATA_DIR": str(tmp_path),
            "MCPHUB_DATABASE_URL": address,
            "MCPHUB_ALLOW_NOT_DURABLE": "1",
            "MCPHUB_LEDGER_TIMEOUT_SECONDS": "30",
        }
        subprocess.run([sys.executable, "-m", "mcphub.cli", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)
        words = [sys.executable, "-m", "tests.features.chat.drawing", str(SECONDS), str(CAPACITY), str(REFILL_SECONDS)]
        with contextlib.ExitStack() as stack:
            drawers = [
                stack.enter_context(
                    subprocess.Popen(
                        words, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                    )
                )
                for _ in range(PROCESSES)
            ]
            for drawer in drawers:
                assert drawer.stdout is not None
                assert drawer.stdout.readline() == "ready\n"
            begun = time.monotonic()
            for drawer in drawers:
                assert drawer.stdin is not None
                drawer.stdin.write("go\n")
                drawer.stdin.flush()
            told = [int(drawer.communicate(timeout=PATIENCE_SECONDS)[0]) for drawer in drawers]
            ended = time.monotonic()
    most = CAPACITY + (ended - begun) / REFILL_SECONDS + 1
    least = CAPACITY + SECONDS / REFILL_SECONDS / 4  # while nobody has time to draw, a full bucket is filled no more
    print(f"{kind}: {sum(told)} let in, of {CAPACITY} + {SECONDS / REFILL_SECONDS:g}; {told}")
    assert least <= sum(told) <= most
