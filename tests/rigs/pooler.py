"""PgBouncer in transaction mode before PostgreSQL: each transaction may meet another session of the database."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.servers import free_port, until

_MOST_SESSIONS = 6
"""Of PostgreSQL, for all that come through the pooler: few, so that they change hands."""


class Pooler:
    """Enter it: `through(address)` is the same database by way of the pooler."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "pooler"
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def through(self, address: str) -> str:
        parts = urlsplit(address)
        return parts._replace(netloc=f"{parts.username}@127.0.0.1:{self._port}").geturl()

    def __enter__(self) -> Pooler:
        program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            sys.exit("pgbouncer is not installed here: apt-get install pgbouncer")
        self._folder.mkdir(parents=True)
        (self._folder / "users").write_text('"postgres" ""\n')
        configuration = self._folder / "pgbouncer.ini"
        configuration.write_text(
            "[databases]\n"
            "* = host=127.0.0.1 port=5432 user=postgres\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self._port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {self._folder / 'users'}\n"
            f"pool_mode = transaction\ndefault_pool_size = {_MOST_SESSIONS}\nmax_client_conn = 500\n"
        )
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen([program, str(configuration)], stdout=log, stderr=log, **self._user())
        until(self._answers)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.through("postgres://postgres@here/postgres"), connect_timeout=30).close()
        except psycopg.OperationalError:
            return False
        return True

    def _user(self) -> dict[str, Any]:
        """PgBouncer refuses to be root."""
        if os.getuid() != 0:
            return {}
        account = pwd.getpwnam("postgres")
        for path in (self._folder, *self._folder.iterdir()):
            os.chown(path, account.pw_uid, account.pw_gid)
        for parent in self._folder.parents:
            if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o011)
        return {"user": "postgres", "group": "postgres", "extra_groups": []}
