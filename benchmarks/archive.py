"""The cost of an archive of a million rows: its size beside the tables, writing, searches, and verification.

    python -m benchmarks.archive [--calls 582000] [--rounds 5] [--database ADDRESS] [--data-dir DIR]

Seeds the month before this one (`tests/rigs/seeding.py`; 582 000 calls make a million rows, with their envelopes),
seals and archives it, unless --data-dir holds it already; of a run that was ended it archives what was sealed. Prints;
asserts nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from tests.rigs import seeding

_MIB = 1024 * 1024
_TABLES = (
    "invocations_mcptoolinvocation",
    "invocations_mcprequestenvelope",
    "sessions_app_auditevent",
    "invocations_auditblock",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=582_000)
    parser.add_argument("--rounds", type=int, default=5, help="of each search")
    parser.add_argument("--database", default="", help="address of an empty PostgreSQL database; else SQLite")
    parser.add_argument("--data-dir", type=Path, help="keep, or use again, what is seeded there")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.data_dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-archive-")))
        seeding.setup(str(folder), options.database)
        if not (folder / "audit" / "archive").exists():
            _prepare(options.calls)
        _sizes()
        _searches(options.rounds)
        _verified()


def _last_month() -> datetime:
    """Return the last hour of the month before this one."""
    return datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0) - timedelta(hours=1)


@contextlib.contextmanager
def _timed(what: str) -> Iterator[list[int]]:
    """Print how long the block took; it appends how many rows it was about."""
    rows: list[int] = []
    began, processor = time.monotonic(), time.process_time()
    yield rows
    seconds, processor = time.monotonic() - began, time.process_time() - processor
    print(
        f"{what}: {sum(rows)} rows in {seconds:.1f} s, {sum(rows) / seconds:.0f} rows/s; processor {processor:.1f} s",
        flush=True,
    )


def _prepare(calls: int) -> None:
    from invocations.chain import service
    from invocations.chain.sealer import Sealer
    from mcphub.features.archive.writing import Archiver
    from sessions_app.kit.database import Dedicated

    database = Dedicated()
    log, keys = service.log_of(database), service.keys()
    if not log.size():
        with _timed("seeded") as rows:
            seeded = seeding.calls(calls, seeding.catalogue(200, 0), days=28, end=_last_month())
            rows.append(seeded.calls + seeded.envelopes)
        with _timed("sealed") as rows:
            rows.append(Sealer(log, keys, now=_last_month).seal())
    with _timed("archived") as rows:
        rows += [each.rows for each in Archiver(log, keys, keys.signer(), _folder()).run()]
    database.close()


def _folder() -> Path:
    from django.conf import settings

    return Path(settings.MCPHUB_ARCHIVE_DIR)


def _sizes() -> None:
    from django.db import connection

    parquet = sum(path.stat().st_size for path in _folder().rglob("*") if path.is_file())
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("ANALYZE")
            told = [(name, *_of_postgresql(cursor, name)) for name in _TABLES]
        else:
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
            told = [("the SQLite file", cursor.fetchone()[0], 0)]
    for name, table, indexes in told:
        print(f"{name}: {table / _MIB:.0f} MiB, indexes {indexes / _MIB:.0f} MiB")
    whole = sum(table + indexes for _, table, indexes in told)
    files = len(list(_folder().rglob("*.parquet")))
    print(f"tables {whole / _MIB:.0f} MiB, archive {parquet / _MIB:.1f} MiB in {files} files")
    recorded, archived = _rows()
    of_tables, of_archive = whole / recorded, parquet / archived
    print(f"{recorded} rows recorded, {archived} archived: {of_tables:.0f} and {of_archive:.0f} bytes a row")


def _rows() -> tuple[int, int]:
    """Return how many rows the tables and the archive have."""
    from invocations.chain import service
    from invocations.models import McpRequestEnvelope, McpToolInvocation
    from mcphub.features.archive import manifests
    from mcphub.features.archive.places import FolderPlace
    from sessions_app.history.models import AuditEvent

    recorded = sum(model.objects.count() for model in (McpToolInvocation, McpRequestEnvelope, AuditEvent))
    trusted = {key.key_id: key for key in service.keys().publics()}
    return recorded, sum(each.rows for each in manifests.of_place(FolderPlace(_folder()), trusted))


def _of_postgresql(cursor: Any, name: str) -> tuple[int, int]:
    cursor.execute(
        "SELECT sum(pg_table_size(relid))::bigint, sum(pg_indexes_size(relid))::bigint FROM "
        "(SELECT %s::regclass AS relid UNION SELECT relid FROM pg_partition_tree(%s)) AS tables",
        [name, name],
    )
    found: tuple[int, int] = cursor.fetchone()
    return found


def _searches(rounds: int) -> None:
    from invocations.chain import service
    from invocations.chain.verifier import read_keys
    from invocations.models import McpToolInvocation
    from mcphub.features.archive import manifests
    from mcphub.features.archive.places import FolderPlace
    from mcphub.features.archive.searching import Bounds, read_line, search

    by_calls = list(McpToolInvocation.objects.order_by("id").values_list("tool_name", flat=True)[:50_000])
    frequent, rare = max(set(by_calls), key=by_calls.count), min(set(by_calls), key=by_calls.count)
    trusted = read_keys(service.keys().public.read_text())
    *_, month = manifests.of_place(FolderPlace(_folder()), {key.key_id: key for key in trusted})
    day = month.files[month.parts[len(month.parts) // 2]]["calls"]["started"][0][:10]
    for line in (
        "",
        f"tool:{frequent} time:{day}",
        f"tool:{rare} time:{day}",
        f"tool:{frequent} status:error",
        f"tool:{rare}",
        "tool:no-such-tool",
        "no such words",
        f'tool:{frequent} time:{day} arguments:$.city="Oslo"',
    ):
        asked = read_line(line)

        def archived(asked: Any = asked) -> Any:
            return search(_folder(), trusted, asked, most=50, bounds=Bounds.of_settings())

        def listed(asked: Any = asked) -> list[Any]:
            return list(asked.narrow(McpToolInvocation.objects.order_by("-id"))[:50])

        page, seconds = _median(archived, rounds)
        print(
            f"{line or '(all)'}: {len(page.calls)} calls, {page.files} files, {page.bytes / _MIB:.1f} MiB read, median "
            f"{seconds * 1000:.0f} ms",
            end="",
        )
        print("" if asked.words else f"; in the database {_median(listed, rounds)[1] * 1000:.0f} ms", flush=True)


def _median(run: Callable[[], Any], rounds: int) -> tuple[Any, float]:
    seconds = []
    for _ in range(rounds):
        began = time.monotonic()
        found = run()
        seconds.append(time.monotonic() - began)
    return found, median(seconds)


def _verified() -> None:
    from invocations.chain import service
    from invocations.chain.verifier import read_keys
    from mcphub.features.archive.verifying import verify_alone

    with _timed("verified") as rows:
        rows.append(verify_alone(_folder(), read_keys(service.keys().public.read_text())).rows)


if __name__ == "__main__":
    main()
