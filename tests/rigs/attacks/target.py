"""The hub that is attacked, and what an attack is."""

from __future__ import annotations

import contextlib
import http.server
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests import operations
from tests.servers import FIXTURES, ROOT, Hub
from tests.upstreams import accounts
from tests.waiting import PATIENCE_SECONDS

CALLS = 50
"""Of one process, all at once; of one caller a fifth."""
CONNECTIONS = 400
BOUNDS = {
    "MCPHUB_APPS": "tests.toolbox",
    "MCPHUB_EGRESS_ALLOW": "127.0.0.1",
    "MCPHUB_LIMITS": f"max_calls={CALLS}, max_connections={CONNECTIONS}, header_timeout_seconds=2, chat_burst=1000, "
    "approval_hold_seconds=1",
}
TOOLBOX = ROOT / "tests" / "toolbox" / "bundle.json"


class NotHeld(Exception):
    """The attack got something. The text says what."""


@dataclass(frozen=True)
class Attack:
    number: str
    """That of docs/secure/security.md, and a letter where there are several."""
    name: str
    run: Callable[[Target], str]
    """Return what it saw; raise NotHeld."""

    def is_one_of(self, numbers: Sequence[str]) -> bool:
        return self.number in numbers or re.sub("[a-z]", "", self.number) in numbers

    def order(self) -> tuple[int, str]:
        return (int(re.sub(r"\D", "", self.number) or 99), self.number)


def need(held: bool, otherwise: str) -> None:
    if not held:
        raise NotHeld(otherwise)


class Target:
    """Enter it: a hub with tools, and people who attack it."""

    def __init__(self, folder: Path, database: str, workers: int) -> None:
        self.folder, self.workers = folder, workers
        self.place = {"MCPHUB_DATABASE_URL": database} if database else {}
        flags = ["--workers", str(workers)] if workers > 1 else []
        environment = {**BOUNDS, **self.place}
        self.hub = Hub(
            folder / "hub", flags=flags, environment=environment, packs=["starter", FIXTURES], bundle=TOOLBOX
        )
        accounts.hub_url(self.hub)

    def __enter__(self) -> Target:
        self.hub.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self.hub.__exit__(*failure)

    def key(self, name: str, *scopes: str) -> str:
        """Make a key, and wait until each worker knows it."""
        key = self.hub.operate(operations.issue_key, name, list(scopes) or ["tools:list", "tools:call"])
        self.hub.settle()
        return key

    def rest(self, key: str) -> httpx2.Client:
        return httpx2.Client(
            base_url=self.hub.url, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS
        )

    def resident_mib(self) -> float:
        """Of the process that was started and, with several workers, of those under it."""
        pages = 0
        for pid in self._processes():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def _processes(self) -> list[int]:
        parent = self.hub.pid
        found = [parent]
        for task in Path(f"/proc/{parent}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
                found += map(int, (task / "children").read_text().split())
        return found

    def parts(self) -> dict[str, str]:
        """What /ready says of each part."""
        found: dict[str, str] = httpx2.get(f"{self.hub.url}/ready", timeout=PATIENCE_SECONDS).json()["parts"]
        return found


class Listener:
    """An API on loopback that keeps what it is sent, and says what it is told to."""

    def __init__(self, answer: Callable[[dict[str, str]], bytes] = lambda headers: b"{}") -> None:
        self.heard: list[dict[str, str]] = []
        listener = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                listener.heard.append({**headers, ":path": self.path})
                body = answer(headers)
                self.send_response(200)
                self.send_header("content-type", "text/plain")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[Listener]:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
