"""Clients that others wrote, whose calls wait for a yes: a test writes calls, and reads what the client got."""

from __future__ import annotations

import json
import subprocess
import threading
from dataclasses import replace
from typing import Any

from tests.servers import ROOT, Hub
from tests.waiting import PATIENCE_SECONDS
from tests.wire.programs import Sdk, program, surroundings, target

_SCRIPTS = {
    "client_v1.py": "waiting_v1.py",
    "client_v2.py": "waiting_v2.py",
    "client_fast.py": "waiting_fast.py",
    "sdk.mjs": "waiting_sdk.mjs",
    "client.mjs": "waiting_client.mjs",
}
_LONGEST_SECONDS = 600


class Waiter:
    """One such client, as a program."""

    def __init__(self, hub: Hub, sdk: Sdk) -> None:
        self._sdk = replace(sdk, script=_SCRIPTS[sdk.script])
        self._process = subprocess.Popen(
            [*program(self._sdk), target(hub, sdk, hub.url), sdk.mode],
            cwd=ROOT,
            env=surroundings(hub),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._watch = threading.Timer(_LONGEST_SECONDS, self._process.kill)
        self._watch.start()

    def __enter__(self) -> Waiter:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.cancel()
        self._process.kill()
        self._process.communicate()

    def sends(self, name: str, arguments: dict[str, Any], answer: dict[str, Any] | None = None) -> None:
        """`answer`: of its person, to the form that it shows."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"name": name, "arguments": arguments, "answer": answer}) + "\n")
        self._process.stdin.flush()

    def hears(self) -> str:
        """Return the words of progress that come before the result."""
        return str(self._line()["heard"])

    def gets(self) -> dict[str, Any]:
        """What the person saw in the end: the result's text and `_meta`, and the forms."""
        while "heard" in (said := self._line()):
            pass
        return said

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said, f"{self._sdk} ended with {self._process.wait(PATIENCE_SECONDS)}"
        found: dict[str, Any] = json.loads(said)
        return found

    def calls(self, name: str, arguments: dict[str, Any], answer: dict[str, Any] | None = None) -> dict[str, Any]:
        self.sends(name, arguments, answer)
        return self.gets()
