"""The official JavaScript client in a process of its own, asked in lines of JSON."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.clients import install

HERE = Path(__file__).parent


class NodeClient:
    """Enter it: it asks the endpoint at `base_url`, once for each call, with `max_retries` more attempts."""

    def __init__(self, base_url: str, key: str, max_retries: int = 0) -> None:
        self._words = [base_url, key, str(max_retries)]

    def __enter__(self) -> NodeClient:
        folder = install.needed("openai-node")
        script = install.scripts(folder, HERE) / "judge.mjs"
        environment = install.node_environment(folder)
        command = [str(folder / "node_modules/.bin/node"), str(script), *self._words]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate("")

    def ask(self, kind: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
        """Return the result, or raise NodeError with what the client threw."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"kind": kind, "body": body, "headers": headers}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise NodeError(answer["error"])
        return answer["result"]


class NodeError(Exception):
    """`told` is {name, status, code, type, param, requestID, message}."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(str(told))
        self.told = told
