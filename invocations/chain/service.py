"""The hub's side of sealing: starts the sealing process if none runs, and reads its messages."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from invocations.chain import alarms, retention, watching
from invocations.chain.commanding import SigningCommand
from invocations.chain.keys import KeyFolder, KeySource
from invocations.chain.lease import Lease
from invocations.chain.log import Log
from invocations.chain.publishing import Publisher
from invocations.chain.sealer import Sealer
from invocations.parts import FailureFollower
from sessions_app.kit.database import Dedicated, direct_settings
from sessions_app.kit.features import declared
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

_STOP_SECONDS = 10
_RETAINED_AT_ONCE = 20
"""Transactions of some thousand rows, every half minute."""


def keys() -> KeyFolder:
    told = settings.MCPHUB_SIGNING
    command = SigningCommand(told.command, told.seconds) if told.command else None
    given = KeySource(told.text, told.source, told.problem, command, told.public_key)
    return KeyFolder(settings.MCPHUB_AUDIT_DIR, given)


def checkpoints() -> Path:
    return Path(settings.MCPHUB_CHECKPOINT_FILE or Path(settings.MCPHUB_AUDIT_DIR) / "checkpoints")


def places() -> list[dict[str, Json]]:
    """Describe the places that checkpoints go to besides the file, in words that JSON carries."""
    found: list[dict[str, Any]] = []
    if settings.MCPHUB_CHECKPOINT_SYSLOG:
        found.append({"kind": "syslog", "address": settings.MCPHUB_CHECKPOINT_SYSLOG})
    if settings.MCPHUB_CHECKPOINT_WEBHOOK:
        allow, proxy = list(settings.MCPHUB_EGRESS_ALLOW), settings.MCPHUB_EGRESS_PROXY
        found.append({"kind": "webhook", "url": settings.MCPHUB_CHECKPOINT_WEBHOOK, "allow": allow, "proxy": proxy})
    return found


def alarm_file() -> alarms.AlarmFile:
    return alarms.AlarmFile(checkpoints())


def log_on(connection: BaseDatabaseWrapper) -> Log:
    """The log on a connection of Django's."""

    def connect() -> Any:
        connection.ensure_connection()
        return connection.connection

    return Log(connect, connection.vendor == "sqlite")


def log_of(database: Dedicated) -> Log:
    return Log(lambda: database.raw, database.is_sqlite)


def sealer_of(database: Dedicated) -> Sealer:
    return Sealer(log_of(database), keys(), followers=[import_module(name) for name in followers()])


def followers() -> list[str]:
    """Return the modules by which features follow failed calls."""
    return [part.module for part in declared(FailureFollower)]


def publisher() -> Publisher:
    return Publisher(checkpoints())


def where() -> dict[str, Json]:
    """Return the database's location as JSON-compatible values."""
    configured = direct_settings()
    if connections["default"].vendor == "sqlite":
        return {"vendor": "sqlite", "parameters": {"path": str(configured["NAME"])}}
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    ours = {"pool", "isolation_level", "assume_role", "server_side_binding"}
    options = {name: value for name, value in configured["OPTIONS"].items() if name not in ours}
    return {
        "vendor": "postgresql",
        "parameters": {**options, **{name: configured[key] for name, key in names.items() if configured.get(key)}},
    }


def lease_of(log: Log) -> Lease:
    path = where()["parameters"].get("path")
    return Lease(log, Path(f"{path}-sealer") if path else None)


@dataclass(frozen=True)
class Standing:
    """The state of the audit's verification in this process. Costs whoever asks no statement."""

    verdict: watching.ChainVerdict | None = None
    alarm: str = ""
    """Why the audit needs a person's look."""

    @property
    def is_witnessed(self) -> bool:
        """Whether checkpoints go to a place that this hub's folder and database are not."""
        return bool(
            settings.MCPHUB_CHECKPOINT_FILE or settings.MCPHUB_CHECKPOINT_SYSLOG or settings.MCPHUB_CHECKPOINT_WEBHOOK
        )


_standing = Standing()


def standing() -> Standing:
    """Return it as of the last look of this process's hub, some seconds ago at most."""
    return _standing


def _know(found: Standing) -> None:
    global _standing
    _standing = found


class Sealing:
    """One a hub. `look` is called now and then, on one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._complained = self._sounded = ""
        self._database = Dedicated()
        self._log = log_of(self._database)
        self._watch = watching.Watch(self._log)
        self._verified = retention.VerifiedBlocks()
        self._began_at = datetime.now(UTC)
        self.alarm = ""
        """Why the audit needs a person's look, as of the last look."""

    def look(self, *, is_last: bool = False) -> None:
        """Start the sealing process where there is something to seal or to watch and none runs, here or elsewhere.

        Each hub remembers where the log ended, so that the process it starts knows it too. A stopping hub (`is_last`)
        starts one only for unsealed rows.
        """
        try:
            found = watching.verdict(self._log)
            alarm = found.alarm(settings.MCPHUB_VERIFY_SECONDS, self._began_at) if found else ""
            if not alarm:  # rewritten with the log, or with an older database
                alarm = alarms.words_of(alarm_file().open(alarms.recorded(self._log)))
            if settings.MCPHUB_SEAL_SECONDS:
                try:
                    self._watch.head()
                except watching.Rewritten as problem:
                    alarm = str(problem)
                    self._sound(alarm)
            self.alarm = alarm
            _know(Standing(found, alarm))
            if not settings.MCPHUB_SEAL_SECONDS:
                return
            if self._process is not None and self._process.poll() is None:
                return
            is_due = self._log.size() > 0 and not is_last
            if not lease_of(self._log).is_taken() and (is_due or self.is_behind()):
                self._start()
        except Exception:
            self._database.close()
            raise

    def retain(self) -> None:
        """Remove some rows by policy, in the hub whose machine holds the key and whose process seals."""
        if self._process is None or self._process.poll() is not None:
            return
        try:
            retention.apply(self._log, keys(), most=_RETAINED_AT_ONCE, verified=self._verified)
            self._complained = ""
        except Exception as problem:  # a block that was tampered with, a missing key, a role that may not delete
            if str(problem) != self._complained:
                logger.error("Retention is held up: %s", problem)
            self._complained = str(problem)
            self._database.close()

    def is_behind(self) -> bool:
        return sealer_of(self._database).unsealed() > 0

    def stop(self) -> None:
        """Let the process seal the remaining rows and end; start it first if needed."""
        with contextlib.suppress(Exception):  # the database is gone, and the next start seals
            self.look(is_last=True)
        _know(Standing())
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

    def _sound(self, problem: str) -> None:
        if problem != self._sounded:
            logger.error("ALARM: the audit's log is not the one that this hub saw. %s", problem)
            try:
                alarm_file().sound(problem)
            except OSError as error:
                logger.error("ALARM: it cannot be written to %s: %s", alarm_file().path, error.strerror)
            watching.keep(self._log, self._log.size(), problem)
        self._sounded = problem

    def _start(self) -> None:
        given = keys().given
        process = subprocess.Popen(
            [sys.executable, "-m", "invocations.chain.process"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        options = {
            "database": where(),
            "folder": str(settings.MCPHUB_AUDIT_DIR),
            "signing": given.words() if given else None,
            "seal_seconds": settings.MCPHUB_SEAL_SECONDS,
            "checkpoint_seconds": settings.MCPHUB_CHECKPOINT_SECONDS,
            "checkpoints": str(checkpoints()),
            "places": places(),
            "checkpoint_tries": settings.MCPHUB_CHECKPOINT_TRIES,
            "verify_seconds": settings.MCPHUB_VERIFY_SECONDS,
            "followers": followers(),
            "known": watching.words_of(self._watch.known) if self._watch.known is not None else None,
        }
        process.stdin.write(json.dumps(options) + "\n")
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
