"""The removal of a month by retention on PostgreSQL, beside calls that go on: its table dropped, or its rows deleted.

    python -m benchmarks.months --database ADDRESS [--calls 300000] [--by-row]

Seeds the month before this one in an empty database (`tests/rigs/seeding.py`), partitioned unless --by-row, and seals
it. Prints how long verification and removal took, and the longest wait of a call for its commit before and meanwhile.
Asserts nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from tests.rigs import seeding

_BEFORE_SECONDS = 10.0
"""Of calls alone, for comparison with those beside the removal."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300_000)
    parser.add_argument("--database", required=True, help="address of an empty PostgreSQL database")
    parser.add_argument("--by-row", action="store_true", help="without partitions, for comparison")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mcphub-months-") as folder:
        seeding.setup(folder, options.database)
        _measure(options.calls, options.by_row)


def _measure(calls: int, by_row: bool) -> None:
    from invocations.chain import checking, retention, service
    from invocations.chain.models import AuditPolicy
    from invocations.chain.sealer import Sealer
    from mcphub.features.partitions import ahead, converting
    from sessions_app.kit.database import Dedicated

    now = datetime.now(UTC)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    last = begin - timedelta(hours=1)
    database = Dedicated()
    log, keys = service.log_of(database), service.keys()
    if not by_row:
        converting.convert(log, last.replace(day=1) - timedelta(days=20))
        ahead.make(log, now)
    seeded = seeding.calls(calls, seeding.catalogue(200, 0), days=28, end=last)
    Sealer(log, keys, now=lambda: last).seal()
    database.raw.execute("ANALYZE")
    print(f"{seeded.calls} calls and {seeded.envelopes} envelopes in {log.size()} blocks", flush=True)
    AuditPolicy(rows_days=1).save()
    with Recorder() as before:
        time.sleep(_BEFORE_SECONDS)
    print(before.told("before"), flush=True)
    began = time.monotonic()
    checking.verify_blocks(log, keys, 0, log.size() - 1)
    print(f"verified in {time.monotonic() - began:.1f} s", flush=True)
    verified = retention.VerifiedBlocks(log.size() - 1)
    with Recorder() as meanwhile:
        began = time.monotonic()
        rows, _ = retention.apply(log, keys, verified=verified)
        seconds = time.monotonic() - began
    print(f"{rows} rows removed in {seconds:.2f} s{', with their verification' if by_row else ''}")
    print(meanwhile.told("meanwhile"))
    database.close()


class Recorder:
    """Records one call after the other on a connection of its own, as the ledger does."""

    def __enter__(self) -> Recorder:
        self._over, self.waits = threading.Event(), [0.0]
        self._thread = threading.Thread(target=self._record)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def told(self, when: str) -> str:
        middle, longest = median(self.waits) * 1000, max(self.waits) * 1000
        return f"{len(self.waits)} calls {when}: median {middle:.1f} ms, longest {longest:.0f} ms"

    def _record(self) -> None:
        from invocations.ledger import statements
        from invocations.ledger.records import new_invocation_id
        from tests.invocations.chain.rows import envelope, invocation, ledger

        own: Any = ledger()
        while not self._over.is_set():
            id_ = new_invocation_id()
            rows = envelope(own, id_), invocation(own, id_)
            began = time.monotonic()
            with own.transaction():
                statements.insert(own, statements.ENVELOPE, rows[:1])
                statements.insert(own, statements.INVOCATION, rows[1:])
            self.waits.append(time.monotonic() - began)
        own.close()


if __name__ == "__main__":
    main()
