"""The sealing process, started as a hub starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from invocations.chain import service
from sessions_app.kit.database import Dedicated
from tests.servers import until
from tests.waiting import PATIENCE_SECONDS


class Process:
    """A sealing process as a hub starts it."""

    def __init__(self, **more: Any) -> None:
        _await_lease()
        options = {
            "database": service.where(),
            "folder": str(service.keys().folder),
            "seal_seconds": 0.05,
            "checkpoint_seconds": 3600,
            "checkpoints": str(service.checkpoints()),
            "verify_seconds": 0.1,
            "known": None,
            "followers": [],
            "places": [],
            "signing": None,
            "checkpoint_tries": 2,
            **more,
        }
        words = [sys.executable, "-m", "invocations.chain.process"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        self.child = subprocess.Popen(
            words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        )
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(options) + "\n")
        self.child.stdin.flush()

    def hears(self, words: str) -> str:
        """Wait for a sentence that holds these words."""
        assert self.child.stdout is not None
        bound = threading.Timer(PATIENCE_SECONDS, self.child.kill)
        bound.start()
        try:
            for line in self.child.stdout:
                if words in (sentence := json.loads(line)[1]):
                    return sentence
        finally:
            bound.cancel()
        raise AssertionError(f"The process ended, or had {PATIENCE_SECONDS} s, and did not say {words!r}.")

    def end(self) -> None:
        self.child.communicate(timeout=PATIENCE_SECONDS)


def _await_lease() -> None:
    """Wait until nobody seals: PostgreSQL lets go of a lock a moment after the process that had it has ended."""
    database = Dedicated()
    try:
        lease = service.lease_of(service.log_of(database))
        until(lambda: not lease.is_taken())
    finally:
        database.close()
