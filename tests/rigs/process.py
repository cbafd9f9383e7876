"""A hub that is made to be killed: same port and data at every start, a process group of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

from tests import forking, operations
from tests.servers import ROOT, change_in_force, free_port, until
from tests.waiting import PATIENCE_SECONDS

TOOLBOX = ROOT / "tests" / "toolbox" / "bundle.json"


class Hub:
    def __init__(
        self,
        folder: Path,
        *,
        database: str = "",
        workers: int = 1,
        data: Path | None = None,
        machine: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """With a `machine`, the hub has processes and a host name of its own, as on a machine of its own."""
        self.folder = folder
        self.database = database
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = data or folder / "data"
        self.key = ""
        self.home = ROOT
        """The tree of the version that runs."""
        self.ready_seconds: list[float] = []
        self.patience_seconds: float = PATIENCE_SECONDS
        """For a command, a look at the rows, and until the hub is ready."""
        self._workers = workers
        self._process: subprocess.Popen[str] | None = None
        self.log = folder / f"hub-{self.port}.log"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")},
            "MCPHUB_DATA_DIR": str(self.data),
            "MCPHUB_APPS": "tests.toolbox",
            "MCPHUB_ALLOW_NOT_DURABLE": "1",  # temporary files may lie in memory
            "MCPHUB_LIMITS": "seal_seconds=0.1",
            "PYTHONUNBUFFERED": "1",
            **({"MCPHUB_DATABASE_URL": database} if database else {}),
            **(environment or {}),
        }
        self._machine = machine

    def command(self, *words: str) -> str:
        done = self._run("mcphub.cli", *words, folder=self.home)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def operate(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Run a function of `tests.operations` in another process on the hub's data; give its result, as of JSON."""
        asked = json.dumps([function.__module__, function.__qualname__, arguments, named])
        done = self._run("tests.operations", given=f"{asked}\n")
        assert done.returncode == 0, done.stderr
        result, failure, _ = json.loads(done.stdout)
        assert not failure, failure
        return result

    def _run(self, *words: str, folder: Path = ROOT, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a module of this tree by a fork, and one of another version as a program of its own."""
        if folder == ROOT:
            return forking.run(*words, env=self.environment, timeout=self.patience_seconds, input=given)
        return subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=self.patience_seconds,
        )

    def prepare(self) -> None:
        """Load the tools and make a key, before the first start."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.command("catalog", "load", str(TOOLBOX))
        self.key = self.command("token", "create", "rig").split()[-1]

    def start(self) -> float:
        """Start and give the seconds until it accepts connections."""
        began = time.monotonic()
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [
                    *_on(self._machine),
                    sys.executable,
                    "-m",
                    "mcphub.cli",
                    "serve",
                    "--port",
                    str(self.port),
                    "--workers",
                    str(self._workers),
                ],
                cwd=self.home,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ready "):
                break
        else:
            raise SystemExit(f"The hub did not start:\n{self.log.read_text()[-4000:]}")
        self.ready_seconds.append(time.monotonic() - began)
        return self.ready_seconds[-1]

    def await_ready(self) -> float:
        """Ask until every part is ready; give the seconds that took."""
        began = time.monotonic()
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                if httpx2.get(f"{self.url}/ready", timeout=30).status_code == 200:
                    return time.monotonic() - began
            if time.monotonic() - began > self.patience_seconds:
                raise SystemExit(f"The hub was not ready again in {self.patience_seconds:.0f} s.")
            time.sleep(0.02)

    def processes(self) -> list[int]:
        """The hub's process and those under it."""
        assert self._process is not None
        found = [self._process.pid]
        for pid in found:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                found += [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return found

    def kill(self) -> None:
        """SIGKILL to the whole process group."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def kill_one_worker(self, chance: float) -> None:
        """SIGKILL to one worker; the supervisor goes on. `chance` in 0..1 chooses which."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        while listed := children.read_text().split():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(int(listed[int(chance * len(listed)) % len(listed)]), signal.SIGKILL)
                return

    def stop(self) -> int:
        assert self._process is not None
        os.kill(self.processes()[1] if self._machine else self._process.pid, signal.SIGTERM)
        status = self._process.wait(PATIENCE_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status

    def errors(self) -> list[str]:
        """Lines of the log at level error."""
        return [line for line in self.log.read_text().splitlines() if re.search(r"\[(error|critical) *\]", line)]


def settle(hubs: Sequence[Hub], key: str) -> None:
    """Wait until each worker of hubs over one database works by what was changed before.

    The key may read metrics.
    """
    mark = hubs[0].operate(operations.mark)
    until(lambda: all(change_in_force(hub.port, key) >= mark for hub in hubs))


def _on(machine: str) -> list[str]:
    """Return the words that run a command as if on another machine: `unshare`, whose one child is the command."""
    if not machine:
        return []
    as_root = [] if os.getuid() == 0 else ["--map-root-user"]
    words = ["unshare", *as_root, "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
    return [*words, "sh", "-c", 'hostname "$0" && exec "$@"', machine]
