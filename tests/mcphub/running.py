"""Runs the real command line as a child process and reads what it says, with deadlines and without sleeps."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import forking
from tests.servers import free_port
from tests.waiting import PATIENCE_SECONDS

ROOT = forking.ROOT


def environment(data_dir: Path, **more: str) -> dict[str, str]:
    """Return the environment of a command: ours without the hub's variables."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    return {
        **inherited,
        "MCPHUB_DATA_DIR": str(data_dir),
        "MCPHUB_ALLOW_NOT_DURABLE": "1",
        "MCPHUB_LEDGER_TIMEOUT_SECONDS": "20",  # a machine that runs many of these hubs is slow
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def run(data_dir: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return forking.run("mcphub.cli", *arguments, env=environment(data_dir, **variables), timeout=PATIENCE_SECONDS)


class Hub:
    """One running `mcphub serve`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port
        self.lines: list[str] = []
        """What it printed on standard output so far."""

    def wait_ready(self) -> None:
        """Read standard output up to the ready line; fail when it ends before."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        rest = b""
        while not any(line.startswith("ready ") for line in self.lines):
            readable, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert readable, "no ready line in time"
            chunk = os.read(self.process.stdout.fileno(), 65536)
            assert chunk, f"ended before it was ready, exit status {self.process.wait(PATIENCE_SECONDS)}"
            *whole, rest = (rest + chunk).split(b"\n")
            self.lines += [line.decode() for line in whole]

    def children(self) -> list[int]:
        """The process numbers of its workers."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def stop(self, number: int) -> int:
        """Send a signal and give the exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def serve(data_dir: Path, *flags: str, errors: Path | None = None, **variables: str) -> Iterator[Hub]:
    """Run a hub that is ready; kill what is left of it at the end."""
    port = free_port()
    with (errors or data_dir.with_suffix(".err")).open("wb") as log:
        process = forking.start(
            "mcphub.cli",
            *("serve", "--port", str(port), *flags),
            env=environment(data_dir, **variables),
            stdout=subprocess.PIPE,
            stderr=log,
        )
    hub = Hub(process, port)
    try:
        hub.wait_ready()
        yield hub
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def wait_until_gone(pids: Sequence[int]) -> None:
    """Wait until none of the processes is there; fail when one stays."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            gone, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
            assert gone, f"process {pid} is still there"
        finally:
            os.close(handle)
