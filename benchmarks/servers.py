"""Starts the hub and its peers, each in a process of its own, and puts load on them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import processes, wire
from benchmarks.environments import ROOT

_START_SECONDS = 120
_STOP_SECONDS = 40
PEERS = Path(__file__).parent / "peers"
SERVER_CORE, CLIENT_CORE = 0, 1


class Failed(Exception):
    """Something did not run, or answered wrongly. The words say what."""


class Pinning:
    """Whether servers and clients have a core each. Off for machines where others may need these two."""

    is_on = True


def pinning(core: int | None) -> Any:
    """Return what a child does before it starts: take its core, and as many open files as it may have."""

    def settle() -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        if Pinning.is_on and core is not None and core in os.sched_getaffinity(0):
            os.sched_setaffinity(0, {core})

    return settle


@dataclass
class Server:
    """One running server and how to call it."""

    name: str
    port: int
    process: subprocess.Popen[str]
    log: Path
    key: str = ""
    tool: str = "add"
    era: str = "stateless"
    fixed: bool = False
    """It answers the same bytes to all, with the id of the first request."""
    deleted: int = 200
    """The status with which it ends a session."""
    shares_cores: bool = False
    tools: int = 10
    data: Path | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def with_tool(self, name: str, tool: str) -> Server:
        """Return the same server, called with another tool."""
        return Server(**{**self.__dict__, "name": name, "tool": tool})

    def in_era(self, name: str, era: str) -> Server:
        return Server(**{**self.__dict__, "name": name, "era": era})

    def resident_kib(self) -> int:
        return processes.resident_kib(processes.tree(self.process.pid))


def load(
    server: Server, *, clients: int, seconds: float, warm: float, program: str = "benchmarks.load", **more: Any
) -> dict[str, Any]:
    """Let clients call the server for a time; give the figures. Raises Failed for a wrong answer."""
    job = {
        "port": server.port,
        "pid": server.process.pid,
        "key": server.key,
        "tool": server.tool,
        "era": server.era,
        "fixed": server.fixed,
        "deleted": server.deleted,
        "method": "tools/call",
        "clients": clients,
        "seconds": seconds,
        "warm": warm,
        **more,
    }
    figures = client(program, job, shares_cores=server.shares_cores)
    if "error" in figures:
        raise Failed(f"{server.name}, {clients} clients: {figures['error']}\n{tail(server.log)}")
    return figures


def client(module: str, job: dict[str, Any], *, shares_cores: bool = False) -> dict[str, Any]:
    """Run a client program to its end, on a core of its own where there is one."""
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        cwd=ROOT,
        preexec_fn=pinning(None if shares_cores else CLIENT_CORE),
        timeout=900,
    )
    if done.returncode or not done.stdout:
        raise Failed(f"{module} ended with status {done.returncode}: {done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


# Peers ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def peer(
    name: str, python: Path, script: str, folder: Path, *flags: str, core: int = SERVER_CORE, **more: Any
) -> Iterator[Server]:
    """Run a peer until the block ends."""
    port = free_port()
    command = [str(python), str(PEERS / script), "--port", str(port), *flags]
    log = folder / f"{re.sub('[^a-z0-9]+', '-', name.lower())}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdout=errors, stderr=errors, text=True, cwd=folder, env=environment({}), preexec_fn=pinning(core)
        )
    server = Server(name, port, process, log, **more)
    try:
        _await_port(server)
        yield server
    finally:
        stop(process)


def _await_port(server: Server) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=1):
            return
        time.sleep(0.05)
    raise Failed(f"{server.name} did not start:\n{tail(server.log)}")


_OF_ONE_KEY = ", ".join(
    f"{name}=100000"
    for name in ("max_sessions", "max_sessions_per_caller", "max_streams_per_caller", "max_calls_per_caller")
)
"""Limits of a hub whose clients all have the same key."""

# The hub -------------------------------------------------------------------------------------------------


@dataclass
class HubPlace:
    """Where a hub keeps its things. Made once, started as often as one likes. `root` has the hub's source."""

    python: Path
    data: Path
    database: str | None = None
    tools: int = 10
    key: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    root: Path = ROOT

    def variables(self) -> dict[str, str]:
        more = {"MCPHUB_DATABASE_URL": self.database} if self.database else {}
        return {
            "MCPHUB_DATA_DIR": str(self.data),
            "PYTHONUNBUFFERED": "1",
            **more,
            **self.settings,
            "MCPHUB_LIMITS": f"{_OF_ONE_KEY}, {self.settings.get('MCPHUB_LIMITS', '')}",
        }

    def command(self, *words: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            [str(self.python), "-m", "mcphub.cli", *words],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.root,
            env=environment(self.variables()),
            timeout=_START_SECONDS,
        )
        if done.returncode:
            raise Failed(f"mcphub {words[0]}: {done.stderr[-2000:]}")
        return done.stdout

    def furnish(self) -> None:
        """Make the database, a key, and a catalogue of as many tools as wanted: `add`, its recorded twin, copies."""
        self.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.command("catalog", "load", "-", stdin=json.dumps(bundle(self.tools)))
        self.key = self.command("token", "create", "bench").split()[-1]


def bundle(tools: int) -> dict[str, Any]:
    """A catalogue of so many tools, all of which add. `add` only reads; `add_recorded` is recorded before it runs."""
    function = {"backend": "python", "configuration": {"function": "tools_catalog.packs.starter.tools:add"}}
    entries: list[dict[str, Any]] = [{**function}, {**function, "name": "add_recorded", "read_only": False}]
    entries += [{**function, "name": f"add_{number:04}"} for number in range(2, tools)]
    return {"format": "mcphub-bundle/1", "tools": entries}


@contextlib.contextmanager
def hub(
    name: str, place: HubPlace, *flags: str, pinned: bool = True, core: int = SERVER_CORE, **more: Any
) -> Iterator[Server]:
    """Run `mcphub serve` until the block ends."""
    port = free_port()
    log = place.data / "stderr.log"
    begun = time.monotonic()
    with log.open("a") as errors:
        process = subprocess.Popen(
            [str(place.python), "-m", "mcphub.cli", "serve", "--port", str(port), *flags],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=place.root,
            env=environment(place.variables()),
            preexec_fn=pinning(core if pinned else None),
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("ready "):
                break
        else:
            raise Failed(f"{name} did not start:\n{tail(log)}")
        more.setdefault("extra", {})["start_seconds"] = time.monotonic() - begun
        yield Server(
            name,
            port,
            process,
            log,
            key=place.key,
            deleted=204,
            shares_cores=not pinned,
            tools=place.tools,
            data=place.data,
            **more,
        )
        if process.poll() is not None:
            raise Failed(f"{name} ended by itself:\n{tail(log)}")
    finally:
        stop(process)
        process.stdout.close()  # type: ignore[union-attr]


def an_answer(server: Server, request_id: int, method: str = "tools/call") -> bytes:
    """Call once; give the body of the answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(wire.request(server.port, server.key, method, server.tool, request_id))
        raw = b""
        while True:
            raw += connection.recv(65536)
            head, found, body = raw.partition(b"\r\n\r\n")
            if found and len(body) >= int(wire.headers_of(head)["content-length"]):
                return body


# Both ----------------------------------------------------------------------------------------------------


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """This program's environment without settings of a hub, and with `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MCPHUB_", "FASTMCP_"))}
    return {**kept, **variables}


def stop(process: subprocess.Popen[str]) -> None:
    """Stop what this program started; kill it if it does not end in time."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        for pid in reversed(processes.tree(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-1500:]


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round, so that what slows the machine slows both."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]
