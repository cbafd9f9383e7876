"""A PostgreSQL server of one's own, made to be killed: the machine's own server is never touched."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg

from tests.servers import free_port, until
from tests.waiting import PATIENCE_SECONDS


def binaries() -> Path | None:
    """Return the folder of the newest `initdb` of this machine."""
    found = shutil.which("initdb")
    places = [Path(found)] if found else [Path(path) for path in glob.glob("/usr/lib/postgresql/*/bin/initdb")]
    return max(places, key=lambda path: str(path)).resolve().parent if places else None


class Cluster:
    """Enter it: it accepts connections at `address`. Its user is not root, as PostgreSQL demands."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "cluster"
        self._port = free_port()
        found = binaries()
        assert found is not None, "PostgreSQL is not installed here"
        self._binaries = found
        self._user = "postgres" if os.getuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"postgres://postgres@127.0.0.1:{self._port}/postgres"

    def __enter__(self) -> Cluster:
        self._folder.mkdir(parents=True)
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            for parent in self._folder.parents:
                if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o011)
        subprocess.run(self._making(), check=True, stdout=subprocess.DEVNULL, **self._as())
        self.start()
        return self

    def _making(self) -> list[str | Path]:
        """Return the program that makes the folder of data, with its words."""
        made = ["-D", self._folder / "data", "-U", "postgres"]
        return [self._binaries / "initdb", *made, "-A", "trust", "-E", "UTF8"]

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _as(self) -> dict[str, Any]:
        return {"cwd": "/", **({"user": self._user, "group": self._user, "extra_groups": []} if self._user else {})}

    def start(self, **settings: str) -> float:
        """Start it; give the seconds until it accepts connections."""
        began = time.monotonic()
        options = {
            "port": str(self._port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on",
            "shared_buffers": "32MB",
            **settings,
        }
        with (self._folder.parent / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binaries / "postgres",
                    "-D",
                    self._folder / "data",
                    *(word for name, value in options.items() for word in ("-c", f"{name}={value}")),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as(),
            )
        while True:
            try:
                with psycopg.connect(self.address, connect_timeout=PATIENCE_SECONDS):
                    return time.monotonic() - began
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() - began > PATIENCE_SECONDS:
                    raise SystemExit(f"PostgreSQL did not start: {error}") from error
                time.sleep(0.02)

    def database(self) -> str:
        """Make a database that belongs to a role without privileges; give its address."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'hub'").fetchone():
                connection.execute("CREATE ROLE hub LOGIN")
                connection.execute("CREATE DATABASE hub OWNER hub")
        return f"postgres://hub@127.0.0.1:{self._port}/hub"

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def freeze(self) -> None:
        """SIGSTOP: connections stand, and nothing answers."""
        for pid in self._stopped():
            with contextlib.suppress(ProcessLookupError):  # its connection has ended meanwhile
                os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):  # its connection has ended meanwhile
                os.kill(pid, signal.SIGCONT)

    def revive(self) -> None:
        """Wait until it accepts connections; start it where it ends itself before that."""
        while self.runs():
            try:
                psycopg.connect(self.address, connect_timeout=PATIENCE_SECONDS).close()
            except psycopg.OperationalError:
                time.sleep(0.02)  # as in `start`: the server signals nobody that it is ready
            else:
                return
        self.start()

    def _pids(self) -> list[int]:
        if self._process is None or self._process.poll() is not None:
            return []
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [self._process.pid, *map(int, children)]

    def _stopped(self) -> list[int]:
        """Stop the postmaster and return all processes: it would fork more for clients that connect again."""
        if self._process is None or self._process.poll() is not None:
            return []
        self._process.send_signal(signal.SIGSTOP)
        pid = self._process.pid
        until(lambda: _state(pid) in "TZ")
        return self._pids()

    def kill(self) -> None:
        """SIGKILL to the server and to every process of its connections."""
        pids = self._stopped()
        process, self._process = self._process, None
        if process is None:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        for pid in pids[1:]:
            while _runs(pid):
                time.sleep(0.005)

    def stop(self) -> None:
        """Stop it as an operator does who waits for nobody."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_SECONDS)


class Standby(Cluster):
    """One that follows another cluster, and takes no writes."""

    def __init__(self, folder: Path, primary: Cluster) -> None:
        super().__init__(folder)
        self._primary = primary

    def _making(self) -> list[str | Path]:
        made = ["-D", self._folder / "data", "-d", self._primary.address]
        return [self._binaries / "pg_basebackup", *made, "--write-recovery-conf", "--checkpoint=fast"]

    def database(self) -> str:
        return f"postgres://hub@127.0.0.1:{self._port}/hub"


def _state(pid: int) -> str:
    """Return the state of a process (proc_pid_stat(5)): `T` is stopped, `Z` has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _runs(pid: int) -> bool:
    """Return whether `pid` is still a process of PostgreSQL."""
    with contextlib.suppress(OSError):
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
