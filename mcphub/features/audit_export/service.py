"""The hub's side of shipping: starts the shipping process where a target wants one, and knows how far each one is."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from invocations.chain.lease import Lease
from invocations.chain.service import log_of, where
from mcphub.features.audit_export.models import ShippingTarget
from sessions_app.kit.database import Dedicated, driver
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

_STOP_SECONDS = 10
_KEY = 0x6D637368  # "mcsh"; `mcph` is the lock of a start


def lease_on(database: Dedicated) -> Lease:
    path = where()["parameters"].get("path")
    return Lease(log_of(database), Path(f"{path}-shipper") if path else None, _KEY)


def raw_errors() -> tuple[type[Exception], ...]:
    """Exceptions of the driver on a connection that is not Django's."""
    return (driver().Error,)


def fingerprint(row: ShippingTarget) -> tuple[object, ...]:
    """Return the settings whose change must reach a running destination."""
    return tuple(getattr(row, each.attname) for each in row._meta.concrete_fields if each.name != "updated_at")


@dataclass(frozen=True, slots=True)
class Lag:
    """A destination's distance to the sealed rows."""

    name: str
    kind: str
    rows: int
    seconds: float
    """Since the oldest block was sealed that has not arrived as a whole; 0: all has."""
    delivered: int
    failures: int
    problem: str

    @property
    def is_behind(self) -> bool:
        return self.seconds > settings.MCPHUB_SHIPPING_BEHIND_SECONDS


def lags() -> list[Lag]:
    """Return the lag of each target that is switched on, by name."""
    return [lag_of(row) for row in ShippingTarget.objects.filter(enabled=True).with_lag().order_by("name")]


def late() -> dict[str, dict[str, Json]]:
    """Return the facts of a notice for each target that is too far behind, by its name."""
    return {lag.name: {"target": lag.name, "rows": lag.rows, "problem": lag.problem} for lag in lags() if lag.is_behind}


def lag_of(row: ShippingTarget) -> Lag:
    """`row`: one that was read `with_lag`."""
    read: Any = row
    state, since = row.state, read.due_since
    seconds = max(0.0, (timezone.now() - since).total_seconds()) if since else 0.0
    behind = max(0, read.log_end - state.position)
    return Lag(row.name, row.kind, behind, seconds, state.rows, state.failures, state.problem)


class Shipping:
    """One a hub. `look` is called now and then, on one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._database = Dedicated()
        self.lags: list[Lag] = []
        """As of the last look."""

    def look(self) -> None:
        """Start the shipping process where a target is switched on and none runs, here or elsewhere."""
        try:
            self.lags = lags()
            if not self.lags or not settings.MCPHUB_SHIPPING:
                return
            if self._process is not None and self._process.poll() is None:
                return
            if not lease_on(self._database).is_taken():
                self._start()
        except Exception:
            self._database.close()
            raise

    @property
    def behind(self) -> str:
        """Return the destinations that are too far behind, and why; empty if none."""
        return "; ".join(
            f"{each.name} by {each.rows} rows and {each.seconds:.0f} s" + (f" ({each.problem})" if each.problem else "")
            for each in self.lags
            if each.is_behind
        )

    def stop(self) -> None:
        """Let the process finish the current delivery, and end."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._database.close()

    def _start(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "mcphub.features.audit_export.process"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=_hear, args=[process], name="mcphub-shipping", daemon=True).start()
        self._process = process


def _hear(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            try:
                level, sentence = json.loads(line)
            except ValueError:
                continue
            logger.log(logging.getLevelNamesMapping()[level.upper()], "%s", sentence)
