"""A first audited call to a hub that has just been set up: what every way of shipping it is tried by.

    python -m deploy.release.first_call http://127.0.0.1:8000 KEY

Needs Python alone. It calls the tool `add` over MCP, finds the call's row by REST, and looks at a page, a style sheet
and the Russian words, which are files that a package or an image may lack.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

START_SECONDS = 120
"""A first start makes some sixty tables."""


class NotAsShipped(Exception):
    """The hub lacks something; the text says what."""


def make(url: str, key: str) -> str:
    """Call a tool and find its row; give one line that says so."""
    wait(url)
    opened, headers = _mcp(url, key, "initialize", _HELLO)
    session = headers.get("Mcp-Session-Id", "")
    _mcp(url, key, "notifications/initialized", None, session)
    called, _ = _mcp(url, key, "tools/call", {"name": "add", "arguments": {"a": 2, "b": 40}}, session)
    if called.get("isError") or "42" not in json.dumps(called):
        raise NotAsShipped(f"add answered {json.dumps(called)[:300]}")
    row = _rows(url, key)
    for path, wanted in _PAGES.items():
        if wanted not in (text := _get(url + path, {"Accept-Language": "ru", "Accept": "text/html"})[1]):
            raise NotAsShipped(f"{path} has no {wanted!r}: {text[:300]!r}")
    version = opened["serverInfo"]["version"]
    return (
        f"first audited call: mcphub {version}, add(2, 40) = 42, invocation {row['invocation_id']} is {row['status']}"
    )


def wait(url: str, seconds: float = START_SECONDS) -> None:
    """Wait until the hub is ready. NotAsShipped: it was not within `seconds`."""
    ends, last = time.monotonic() + seconds, "no answer"
    while time.monotonic() < ends:
        try:
            status, last = _get(f"{url}/ready", {})
            if status == 200:
                return
        except OSError as error:
            last = str(error)
        time.sleep(0.2)
    raise NotAsShipped(f"{url}/ready: {last} after {seconds:g} s")


def serve_and_call(
    command: list[str],
    folder: Path,
    port: int,
    environment: Mapping[str, str] | None = None,
    start_seconds: float = START_SECONDS,
) -> str:
    """Start a hub in `folder` by a command that is given --port, make a first call with the key it prints, stop it."""
    output, errors = folder / "output", folder / "errors"
    with output.open("w") as out, errors.open("w") as err:
        hub = subprocess.Popen([*command, "--port", str(port)], cwd=folder, stdout=out, stderr=err, env=environment)
    try:
        return make(f"http://127.0.0.1:{port}", _printed_key(hub, output, errors, start_seconds))
    finally:
        hub.terminate()
        hub.wait(60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def key_in(text: str) -> str | None:
    """Return the key of a first start's output."""
    found = re.search(r"^API key +(\S+)$", text, re.MULTILINE)
    return found[1] if found else None


def _printed_key(hub: subprocess.Popen[bytes], output: Path, errors: Path, seconds: float) -> str:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and hub.poll() is None:
        if "\nready " in (text := output.read_text()) and (key := key_in(text)):
            return key
        time.sleep(0.1)
    raise NotAsShipped(f"the hub printed no key: {output.read_text()}{errors.read_text()[-2000:]}")


_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "first call", "version": "1"}}
_PAGES = {"/admin/login/": "Пароль", "/static/mcphub/admin.css": "{", "/": "MCP"}


def _mcp(url: str, key: str, method: str, params: object, session: str = "") -> tuple[dict, Mapping[str, str]]:
    message: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message |= {"id": method, "params": params}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    headers |= {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    headers |= {"Mcp-Session-Id": session} if session else {}
    request = urllib.request.Request(f"{url}/mcp", json.dumps(message).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            text, given = response.read().decode(), response.headers
    except urllib.error.HTTPError as error:
        raise NotAsShipped(f"{method}: {error.code} {error.read()[:300]!r}") from error
    data = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    answer = json.loads(data[-1] if data else text or "{}")
    if "error" in answer:
        raise NotAsShipped(f"{method}: {answer['error']}")
    return answer.get("result", {}), given


def _rows(url: str, key: str) -> dict:
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
    _, text = _get(f"{url}/api/invocations/?tool=add&limit=1", headers)
    rows = json.loads(text)["results"]
    if not rows or rows[0]["status"] != "ok":
        raise NotAsShipped(f"the call is not on record: {text[:300]}")
    return rows[0]


def _get(address: str, headers: Mapping[str, str]) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=dict(headers)), timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")


if __name__ == "__main__":
    try:
        print(make(sys.argv[1].rstrip("/"), sys.argv[2]))
    except NotAsShipped as fault:
        sys.exit(str(fault))
