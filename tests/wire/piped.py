"""`mcphub stdio` as a client has it: a program whose two ends are pipes. Knows no SDK and nothing of the hub."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests import forking
from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import LEGACY, META, MODERN, hello, request

_END_SECONDS = _SILENCE_SECONDS = PATIENCE_SECONDS
"""A first start migrates a database before it says a word."""


class Piped:
    """One started `mcphub stdio`. Leave it: its end is closed, and it has ended with status 0."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *words: str) -> None:
        self.name = f"piped-{uuid.uuid4().hex[:12]}"
        self.began_at = datetime.now(UTC).isoformat()
        self._log = folder / f"{self.name}.log"
        with self._log.open("w") as log:
            self.process = forking.start(
                "mcphub.cli",
                *(words or ("stdio",)),
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Piped:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            status = self.end()
            assert kind is not None or status == 0, f"It ended with status {status}.\n{self.log()}"
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(_END_SECONDS)

    def end(self) -> int:
        """Close our end and give the exit status."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        return self.process.wait(_END_SECONDS)

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def log(self) -> str:
        return self._log.read_text()

    # Speaking ------------------------------------------------------------------------------------

    def say(self, *messages: Any) -> None:
        """Send messages at once; bytes go as they are, without a newline of ours."""
        assert self.process.stdin is not None
        parts = [part if isinstance(part, bytes) else json.dumps(part).encode() + b"\n" for part in messages]
        self.process.stdin.write(b"".join(parts))
        self.process.stdin.flush()

    def hear(self) -> Any:
        """The next line, which is whole and JSON."""
        line = self._lines.get(timeout=_SILENCE_SECONDS)
        assert line is not None, f"It ended.\n{self.log()}"
        assert line.endswith(b"\n"), line
        return json.loads(line)

    def rest(self) -> list[Any]:
        """All that comes until it closes its end, but for news of edits."""
        lines = iter(lambda: self._lines.get(timeout=_END_SECONDS), None)
        return [heard for heard in map(json.loads, lines) if not _is_news(heard)]

    def hear_no_news(self) -> Any:
        """The next line but for news of an edit, which may come between: more than once, and late."""
        while _is_news(heard := self.hear()):
            pass
        return heard

    def ask(self, message: Any) -> Any:
        """Send a request; give its answer."""
        self.say(message)
        return self.hear_no_news()

    def shake_hands(self, version: str = LEGACY, **capabilities: Any) -> None:
        answer = self.ask(hello(version, self.name, "hello", **capabilities))
        assert (answer["id"], answer["result"]["protocolVersion"]) == ("hello", version), answer
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def modern(self, method: str, params: Mapping[str, Any] | None = None, id: Any = None) -> dict[str, Any]:
        """A request that describes itself."""
        meta = {
            f"{META}protocolVersion": MODERN,
            f"{META}clientCapabilities": {},
            f"{META}clientInfo": {"name": self.name, "version": "1"},
        }
        params = params or {}
        return request(method, {**params, "_meta": {**meta, **params.get("_meta", {})}}, id)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)


def _is_news(message: Any) -> bool:
    return isinstance(message, dict) and str(message.get("method")).endswith("/list_changed")


def beside(hub: Hub, *words: str, **environment: str) -> Piped:
    """Start one on the data of a hub that runs."""
    return Piped(hub.folder, {**hub.environment, "MCPHUB_API_KEY": hub.key, **environment}, *words)
