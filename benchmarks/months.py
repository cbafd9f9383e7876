"""The removal of a month by retention on PostgreSQL, beside calls that go on: its table dropped, or its rows deleted.

    python -m benchmarks.months --database ADDRESS [--calls 300000] [--days 28] [--tools 200] [--by-row]
        [--data-dir DIR]

Seeds the days before this month in an empty database (`tests/rigs/seeding.py`), partitioned unless --by-row, and seals
the first month; or takes what a run left in --data-dir and its database. Prints how long verification and removal
took, and the longest wait of a call for its commit before and meanwhile. Asserts nothing.
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
    parser.add_argument("--days", type=float, default=28, help="over which the calls are spread")
    parser.add_argument("--tools", type=int, default=200)
    parser.add_argument("--database", required=True, help="address of an empty PostgreSQL database")
    parser.add_argument("--by-row", action="store_true", help="without partitions, for comparison")
    parser.add_argument("--data-dir", help="keep, or use again, what is seeded")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mcphub-months-") as folder:
        seeding.setup(options.data_dir or folder, options.database)
        _measure(options)


def _measure(options: argparse.Namespace) -> None:
    from invocations.chain import checking, months, retention, service
    from invocations.chain.models import AuditPolicy
    from sessions_app.kit.database import Dedicated

    now = datetime.now(UTC)
    until = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    database = Dedicated()
    log, keys = service.log_of(database), service.keys()
    if not log.highest()["invocation"]:
        _fill(log, options, now, until - timedelta(hours=1))
        database.raw.execute("ANALYZE")
    past = [month for month in months.past(log, until) if any(month.through.values())]
    through = past[0].through if past else {}
    until = past[0].until if past else until
    if not log.size():
        _seal(database, keys, through, until - timedelta(hours=1))
    AuditPolicy(rows_days=1).save()
    due = until + timedelta(days=1)
    (plan, *_) = retention.due(log, due)
    print(f"{plan.rows} rows of the month to remove, in {plan.last.number - plan.first.number + 1} blocks", flush=True)
    with Recorder() as before:
        time.sleep(_BEFORE_SECONDS)
    print(before.told("before"), flush=True)
    began = time.monotonic()
    checking.verify_blocks(log, keys, plan.first.number, plan.last.number)
    print(f"verified in {time.monotonic() - began:.1f} s", flush=True)
    verified = retention.VerifiedBlocks(plan.last.number)
    with Recorder() as meanwhile:
        began = time.monotonic()
        rows, _ = retention.apply(log, keys, now=due, verified=verified)
        seconds = time.monotonic() - began
    print(f"{rows} rows removed in {seconds:.2f} s{', with their verification' if options.by_row else ''}")
    print(meanwhile.told("meanwhile"))
    database.close()


def _fill(log: Any, options: argparse.Namespace, now: datetime, end: datetime) -> None:
    from mcphub.features.partitions import ahead, converting

    if not options.by_row:
        begin = (end - timedelta(days=options.days)).replace(day=1)
        converting.convert(log, begin - timedelta(days=20))
        ahead.make(log, now)
    seeded = seeding.calls(options.calls, seeding.catalogue(options.tools, 0), days=options.days, end=end)
    print(f"{seeded.calls} calls and {seeded.envelopes} envelopes", flush=True)


def _seal(database: Any, keys: Any, through: dict[str, int], when: datetime) -> None:
    """Seal the rows through these IDs as if it were `when`, or all of them."""
    from invocations.chain.log import Log
    from invocations.chain.sealer import Sealer

    class Beginning(Log):
        def highest(self) -> dict[str, int]:
            return {table: min(row_id, through.get(table, row_id)) for table, row_id in super().highest().items()}

    log = Beginning(lambda: database.raw, database.is_sqlite)
    began, processor = time.monotonic(), time.process_time()
    rows = Sealer(log, keys, now=lambda: when).seal()
    seconds, processor = time.monotonic() - began, time.process_time() - processor
    print(f"{rows} rows sealed in {seconds:.1f} s, {processor:.1f} s of them this processor's", flush=True)


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
