"""One destination's loop: read the next rows, deliver them, note the new position; at least once, and in order.

The position is written after the delivery. A process that dies in between delivers once more, and `position` in each
record lets the receiver know it. The note counts only if nobody else moved the position meanwhile.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import DatabaseError, close_old_connections, connection
from django.db.models import F
from django.utils import timezone

from invocations.chain import service
from invocations.chain.keys import KeyProblem
from invocations.chain.verifier import Bad
from invocations.chain.watching import Rewritten
from mcphub.features.audit_export.destinations.kinds import Delivers, delivering
from mcphub.features.audit_export.models import ShippingState, ShippingTarget
from mcphub.features.audit_export.reading import Portion, Reached, Shipment, ShippingReader, trial
from mcphub.features.audit_export.service import fingerprint
from sessions_app.kit.database import Dedicated
from tools_catalog.egress.sending import NotDelivered

POLL_SECONDS = 0.5
"""Between two looks for news of a target that has all."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
"""After failures, doubled from the first on; a receiver may ask for more."""
ROWS, BYTES = 500, 4 * 1024 * 1024
GATHERED_ROWS, GATHERED_BYTES = 5_000, 16 * 1024 * 1024
"""Of a delivery that is a file or an object of its own. A destination takes a few times this much memory."""
_TOO_LARGE = 413
"""The status of a receiver that takes smaller deliveries."""
SAID_AFTER = 3
"""Consecutive failures before a log entry."""

Say = Callable[[str, str], None]
"""Level and sentence for the hub's log."""


class TargetShipping:
    """Ships to one target as it was when this was made. Uses Django's connection of its thread, and one for the log."""

    def __init__(self, row: ShippingTarget, say: Say) -> None:
        self._row = row
        self._say = say
        self._database = Dedicated()
        self._reader = ShippingReader(service.log_of(self._database), service.keys())
        self._most_rows = self._all_rows = GATHERED_ROWS if row.gathers else ROWS
        self._without_bodies = False
        self._delivers: Delivers | None = None
        self._delivered_at = -math.inf

    def run(self, ending: threading.Event) -> None:
        """Export until `ending` is set; the current delivery is finished."""
        try:
            while not ending.is_set():
                ending.wait(self.step())
        finally:
            self.close()

    def close(self) -> None:
        delivers, self._delivers = self._delivers, None
        if delivers is not None:
            delivers.close()
        self._database.close()
        connection.close()

    def step(self) -> float:
        """Deliver the next rows, if any; return the time until the next step. Raises nothing."""
        close_old_connections()
        try:
            state = ShippingState.objects.filter(pk=self._row.pk).first()
            if state is None:
                return POLL_SECONDS
            return self._ship(state)
        except DatabaseError as error:
            connection.close()
            return self._lost(error)
        except Exception as error:  # of the raw connection: a driver's own, whichever it is
            return self._lost(error)

    def _lost(self, error: Exception) -> float:
        self._database.close()
        self._say("warning", f"Shipping to {self._row.name} waits: {str(error).strip() or type(error).__name__}")
        return LONGEST_PAUSE_SECONDS / 4

    def _ship(self, state: ShippingState) -> float:
        reached = Reached(state.position, state.block, state.tree_root, state.begun)
        try:
            if not self._is_due(state):
                return POLL_SECONDS
            shipment = self._reader.next(reached, self._portion())
        except (Rewritten, Bad, KeyProblem) as problem:
            return self._failed(state, str(problem), LONGEST_PAUSE_SECONDS)
        if shipment is None:
            return POLL_SECONDS
        try:
            if self._delivers is None:
                self._delivers = delivering(self._row)
            refused = self._delivers.deliver(shipment) if shipment.records else 0
        except NotDelivered as problem:
            if problem.status == _TOO_LARGE and self._made_smaller(shipment):
                return 0.0
            return self._failed(state, str(problem), problem.after_seconds)
        except OSError as error:
            return self._failed(state, error.strerror or str(error), 0.0)
        except Exception as error:  # a library's own: whatever it is, the next try is due
            return self._failed(state, f"{type(error).__name__}: {error}", 0.0)
        self._arrived(state, shipment, refused)
        self._most_rows = min(self._all_rows, self._most_rows * 2)
        self._without_bodies = False
        return 0.0 if shipment.is_full else POLL_SECONDS

    def _portion(self) -> Portion:
        row = self._row
        return Portion(
            with_bodies=row.with_bodies and not self._without_bodies,
            only_checkpoints=row.content == ShippingTarget.Content.CHECKPOINTS,
            most_rows=self._most_rows,
            most_bytes=GATHERED_BYTES if row.gathers else BYTES,
        )

    def _is_due(self, state: ShippingState) -> bool:
        """Return whether the last delivery was long enough ago, or enough rows for another one are there."""
        if time.monotonic() - self._delivered_at >= self._row.pause_seconds:
            return True
        return self._reader.head() - state.position >= self._all_rows

    def _made_smaller(self, shipment: Shipment) -> bool:
        """Take half the rows next time, then one without its bodies; False where neither helps any more."""
        if self._most_rows > 1 and shipment.rows > 1:
            self._most_rows = max(1, shipment.rows // 2)
            return True
        if self._row.with_bodies and not self._without_bodies:
            self._without_bodies = True
            self._say("warning", f"{self._row.name} takes no row as large as {shipment.first}; it gets digests there.")
            return True
        return False

    def _arrived(self, state: ShippingState, shipment: Shipment, refused: int) -> None:
        self._delivered_at = time.monotonic()
        now = shipment.reached
        ShippingState.objects.filter(pk=state.pk, position=state.position, block=state.block).update(
            position=now.position,
            block=now.block,
            tree_root=now.tree_root,
            begun=True,
            rows=F("rows") + shipment.rows,
            refused_rows=F("refused_rows") + refused,
            delivered_at=timezone.now(),
            failures=0,
            failing_since=None,
            problem="",
        )
        if refused:
            self._say("error", f"{self._row.name} rejected {refused} records of {shipment.stem}; they do not go again.")
        if state.failures >= SAID_AFTER:
            self._say("info", f"The audit arrives at {self._row.name} again.")

    def _failed(self, state: ShippingState, why: str, least: float) -> float:
        failures = state.failures + 1
        ShippingState.objects.filter(pk=state.pk).update(
            failures=failures, failing_since=state.failing_since or timezone.now(), problem=why[:500]
        )
        if failures == SAID_AFTER:
            self._say("error", f"The audit does not arrive at {self._row.name} ({self._row.get_kind_display()}): {why}")
        if self._delivers is not None:
            self._delivers.close()
            self._delivers = None
        return max(least, min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10)))


def try_target(row: ShippingTarget) -> str:
    """Deliver one record that is marked as a test; return the problem, or nothing."""
    try:
        delivers = delivering(row)
    except NotDelivered as problem:
        return str(problem)
    try:
        delivers.deliver(trial(row.name, datetime.now(UTC)))
    except NotDelivered as problem:
        return str(problem)
    except OSError as error:
        return error.strerror or str(error)
    except Exception as error:  # a library's own
        return f"{type(error).__name__}: {error}"
    finally:
        delivers.close()
    return ""


@dataclass
class ShippedTarget:
    """A target that is shipped to, and its thread."""

    fingerprint: tuple[object, ...]
    ending: threading.Event
    thread: threading.Thread


def follow(running: dict[int, ShippedTarget], say: Say) -> None:
    """Follow the rows: an edited destination is restarted at its position."""
    rows = {row.pk: row for row in ShippingTarget.objects.filter(enabled=True)}
    for pk, each in list(running.items()):
        row = rows.get(pk)
        if row is None or fingerprint(row) != each.fingerprint:
            each.ending.set()
            if not each.thread.is_alive():
                del running[pk]
    for pk, row in rows.items():
        if pk not in running:
            ending = threading.Event()
            thread = threading.Thread(
                target=TargetShipping(row, say).run, args=[ending], name=f"mcphub-ship-{row.name}", daemon=True
            )
            running[pk] = ShippedTarget(fingerprint(row), ending, thread)
            thread.start()
