"""A scripted provider in a process of its own, for tests and benchmarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2

from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[3]
_STOP_SECONDS = PATIENCE_SECONDS


class ScriptedProvider:
    """Enter it: it accepts requests at `url`, which ends in `/v1`."""

    def __init__(self, key: str = "") -> None:
        self.key = key
        self.url = ""

    def __enter__(self) -> ScriptedProvider:
        command = [sys.executable, "-m", "tests.features.chat.provider", "--key", self.key]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready "), f"The scripted provider did not start: {line!r}"
        self.url = line.split()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def about(self, words: str) -> list[dict[str, Any]]:
        """The requests that contain these words, oldest first: {path, headers, body, text, attempt, is_gone, sent}.

        Tests that share a provider mark theirs so.
        """
        answer = httpx2.get(self._control, params={"about": words}, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 200, answer.text
        taken: list[dict[str, Any]] = answer.json()
        return taken

    def forget(self) -> None:
        httpx2.delete(self._control, timeout=PATIENCE_SECONDS)

    @property
    def _control(self) -> str:
        return self.url.removesuffix("/v1") + "/control/requests"
