"""A project of somebody else with the hub in it: the blocks of docs/integrate/embedding.md, in a folder of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2

from tests.servers import ROOT, free_port
from tests.waiting import PATIENCE_SECONDS, until

PAGE = ROOT / "docs" / "integrate" / "embedding.md"
_BLOCK = re.compile(r"(?:^`(?P<file>[\w/]+\.py)`[^\n]*\n\n)?^```(?P<kind>python|sh)\n(?P<text>.*?)^```$", re.S | re.M)
_SERVER = "uvicorn shop.asgi:application\n"


class HostProject:
    """What a reader of the page has in `folder` after the last block; the server is not started."""

    def __init__(self, folder: Path, prefix: str = "/hub") -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}{prefix}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MCPHUB_", "DJANGO_"))},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "MCPHUB_PUBLIC_URL": self.url,
            "MCPHUB_LEDGER_TIMEOUT_SECONDS": "20",  # as for each hub of tests
            "DJANGO_SUPERUSER_PASSWORD": "a-long-password",
        }
        self.lines = 0
        """Lines of Python that the page asks for, without those that Django's own files have."""
        self.key = ""

    def follow(self, own: Callable[[], None] | None = None) -> None:
        """Do what the page says, but for starting the server; call `own` before the database is made."""
        for block in _BLOCK.finditer(PAGE.read_text()):
            if own is not None and "manage.py migrate" in block["text"]:
                own()
                self.run("python manage.py makemigrations")
            if block["kind"] == "sh":
                said = self.run(block["text"].replace(_SERVER, ""))
                self.key = said.splitlines()[-1] if "token create" in block["text"] else self.key
            elif block["file"]:
                self._write(self.folder / block["file"], block["text"])

    def _write(self, file: Path, text: str) -> None:
        before = file.read_text() if file.exists() else ""
        self.lines += len({line for line in text.splitlines() if line.strip()} - set(before.splitlines()))
        file.write_text(text if file.name == "asgi.py" else before + "\n" + text)

    def run(self, words: str) -> str:
        done = self.attempt(words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def attempt(self, words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euc", words], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=600
        )

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        log = (self.folder / "server.log").open("w")
        command = [sys.executable, "-m", "uvicorn", "shop.asgi:application", "--port", str(self.port)]
        server = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        try:
            asyncio.run(until(lambda: self._is_ready(server)))
            yield
        finally:
            server.terminate()
            assert server.wait(PATIENCE_SECONDS) is not None
            log.close()

    def _is_ready(self, server: subprocess.Popen[bytes]) -> bool:
        assert server.poll() is None, (self.folder / "server.log").read_text()
        try:
            return httpx2.get(f"{self.url}/ready", timeout=PATIENCE_SECONDS).status_code == 200
        except httpx2.TransportError:
            return False

    @contextlib.contextmanager
    def browser(self) -> Iterator[httpx2.Client]:
        """Yield a client whose addresses begin at the project's root, with Ann's login at its admin."""
        site = f"http://127.0.0.1:{self.port}"
        with httpx2.Client(base_url=site, timeout=PATIENCE_SECONDS, follow_redirects=True) as client:
            client.get("/admin/login/")
            sent = {
                "username": "ann",
                "password": "a-long-password",
                "csrfmiddlewaretoken": client.cookies["csrftoken"],
            }
            client.post("/admin/login/", data=sent)
            yield client

    @contextlib.contextmanager
    def rest(self, scope: str) -> Iterator[httpx2.Client]:
        """Yield a client whose addresses begin at the hub, with a new key of this scope."""
        key = self.run(f"python manage.py mcphub token create rest --scope {scope}").splitlines()[-1]
        headers = {"authorization": f"Bearer {key}"}
        with httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE_SECONDS) as client:
            yield client

    def call(self, tool: str, key: str = "", **arguments: Any) -> Any:
        """Return the result of a call, or the error."""
        answered = self.ask("tools/call", key=key, name=tool, arguments=arguments)
        return answered.get("result") or answered["error"]

    def ask(self, method: str, key: str = "", **params: Any) -> Any:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers = {
            "authorization": f"Bearer {key or self.key}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            **({"mcp-name": params["name"]} if "name" in params else {}),
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return httpx2.post(f"{self.url}/mcp", json=body, headers=headers, timeout=PATIENCE_SECONDS).json()
