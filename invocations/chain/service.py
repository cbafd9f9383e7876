"""The hub's side of sealing: starts the sealing process where none runs, and hears what it says."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connections

from invocations.chain import retention
from invocations.chain.keys import KeyFolder
from invocations.chain.lease import Lease
from invocations.chain.log import Log
from invocations.chain.publishing import Publisher
from invocations.chain.sealer import Sealer
from sessions_app.database import Dedicated

logger = logging.getLogger(__name__)

_STOP_SECONDS = 10
_RETAINED_AT_ONCE = 20
"""Transactions of some thousand rows, every half minute."""


def keys() -> KeyFolder:
    return KeyFolder(settings.MCPHUB_AUDIT_DIR)


def checkpoints() -> Path:
    return Path(settings.MCPHUB_AUDIT_DIR) / "checkpoints"


def log_on(connection: Any) -> Log:
    """The log on a connection of Django's."""

    def connect() -> Any:
        connection.ensure_connection()
        return connection.connection

    return Log(connect, connection.vendor == "sqlite")


def log_of(database: Dedicated) -> Log:
    return Log(lambda: database.raw, database.is_sqlite)


def sealer_of(database: Dedicated) -> Sealer:
    return Sealer(log_of(database), keys())


def publisher() -> Publisher:
    return Publisher(checkpoints())


def where() -> dict[str, Any]:
    """Say where the database is, in words that JSON carries."""
    told = connections["default"].settings_dict
    if connections["default"].vendor == "sqlite":
        return {"vendor": "sqlite", "parameters": {"path": str(told["NAME"])}}
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    ours = {"pool", "isolation_level", "assume_role", "server_side_binding"}
    options = {name: value for name, value in told["OPTIONS"].items() if name not in ours}
    return {
        "vendor": "postgresql",
        "parameters": {**options, **{name: told[key] for name, key in names.items() if told.get(key)}},
    }


def lease_of(log: Log) -> Lease:
    path = where()["parameters"].get("path")
    return Lease(log, Path(f"{path}-sealer") if path else None)


class Sealing:
    """One a hub. `look` is called now and then, on one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._complained = ""
        self._database = Dedicated()
        self._log = log_of(self._database)

    def look(self) -> None:
        """Start the sealing process where rows wait and none runs, here or elsewhere."""
        if not settings.MCPHUB_SEAL_SECONDS or (self._process is not None and self._process.poll() is None):
            return
        try:
            if self.is_behind() and not lease_of(self._log).is_taken():
                self._start()
        except Exception:
            self._database.close()
            raise

    def retain(self) -> None:
        """Remove some of what the policy says, in the hub whose machine holds the key and whose process seals."""
        if self._process is None or self._process.poll() is not None:
            return
        try:
            retention.apply(self._log, keys(), most=_RETAINED_AT_ONCE)
            self._complained = ""
        except Exception as problem:  # a block that was tampered with, a missing key, a role that may not delete
            if str(problem) != self._complained:
                logger.error("Retention is held up: %s", problem)
            self._complained = str(problem)
            self._database.close()

    def is_behind(self) -> bool:
        return sealer_of(self._database).unsealed() > 0

    def stop(self) -> None:
        """Let the process seal what is there and end; one that has not begun yet is started for it."""
        with contextlib.suppress(Exception):  # the database is gone, and the next start seals
            self.look()
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                logger.warning("The audit's last rows could not be sealed in time; the next start seals them")
                process.kill()
                process.wait()
        self._database.close()

    def _start(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "invocations.chain.process"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        told = {
            "database": where(), "folder": str(settings.MCPHUB_AUDIT_DIR),
            "seal_seconds": settings.MCPHUB_SEAL_SECONDS,
            "checkpoint_seconds": settings.MCPHUB_CHECKPOINT_SECONDS,
        }  # fmt: skip
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        threading.Thread(target=self._hear, args=[process], name="mcphub-sealing", daemon=True).start()
        self._process = process

    @staticmethod
    def _hear(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                level, sentence = json.loads(line)
                logger.log(logging.getLevelNamesMapping()[level.upper()], "%s", sentence)
