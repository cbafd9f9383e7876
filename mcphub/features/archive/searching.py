"""Searches archived calls by the line of the list of calls, newest first, within bounds of rows, size, time and memory.

Manifests are read only where their signatures hold, and a file only where its digest is that of its manifest, so an
answer holds what was sealed and nothing else. Months that are missing at the end only `audit verify --archive` finds.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection as database
from django.utils.translation import gettext as _t

from invocations.chain import service
from invocations.chain.tables import INVOCATION
from invocations.chain.verifier import Bad, PublicKey
from invocations.models import McpToolInvocation
from mcphub.features.archive import conditions, files, manifests
from mcphub.features.archive.conditions import ARCHIVE_FILTERS, SqlCondition
from mcphub.features.archive.duck import SQL_TYPES, duck
from mcphub.features.archive.manifests import Manifest
from mcphub.features.archive.places import opened
from sessions_app.kit.fields import JSONText
from sessions_app.kit.lists import searching
from sessions_app.kit.lists.filters import ListFilter
from sessions_app.kit.lists.searching import Search
from sessions_app.workspaces.scope import Scope

_MIB = 1024 * 1024
_AGAIN_SECONDS = 0.05
_AT_ONCE = 2
"""Searches of one process; each takes memory of its own."""
_room = threading.BoundedSemaphore(_AT_ONCE)


class ArchiveProblem(Exception):
    """A search that was not made, or not finished; the message is for whoever asked."""


class NoArchive(ArchiveProblem):
    """No month was archived yet."""


class ArchiveBusy(ArchiveProblem):
    """As many searches run as may."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of one search. `mib`: of files that it reads."""

    seconds: float
    mib: int
    memory_mib: int

    @classmethod
    def of_settings(cls) -> Bounds:
        return cls(
            settings.MCPHUB_ARCHIVE_SEARCH_SECONDS,
            settings.MCPHUB_ARCHIVE_SEARCH_MIB,
            settings.MCPHUB_ARCHIVE_SEARCH_MEMORY_MIB,
        )


@dataclass(frozen=True, slots=True)
class ArchivedCall:
    """A call and where it comes from."""

    call: McpToolInvocation
    month: str
    file: str
    position: int
    """In the log: `audit/proof` and exports name it."""
    leaf: str
    """Its hash, in hexadecimal."""


@dataclass(slots=True)
class ArchivePage:
    """Calls, newest first. `next`: where the page after it begins; None: there are no more."""

    calls: list[ArchivedCall] = field(default_factory=list)
    next: int | None = None
    is_cut: bool = False
    """It holds fewer calls than were asked for, as the bound of files was reached."""
    months: list[str] = field(default_factory=list)
    """The months that it read from."""
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Positions:
    """The searched part of the log; None: that side is open."""

    since: int | None
    before: int | None

    def meet(self, first: int, last: int) -> bool:
        return (self.before is None or first < self.before) and (self.since is None or last >= self.since)

    def of(self, condition: SqlCondition) -> SqlCondition:
        for sql, value in (("position >= ?", self.since), ("position < ?", self.before)):
            if value is not None:
                condition = condition.also(SqlCondition(sql, [value]))
        return condition


@dataclass(frozen=True, slots=True)
class _ArchivedFile:
    """`told`: its entry in the manifest."""

    manifest: Manifest
    name: str
    told: Mapping[str, Any]

    def may_hold(self, positions: _Positions, least: datetime | None, most: datetime | None) -> bool:
        """Return whether the manifest admits a call at one of these positions that started in this time."""
        calls = self.told["calls"]
        if calls is None or not positions.meet(*calls["positions"]):
            return False
        first, last = (datetime.fromisoformat(each) for each in calls["started"])
        return (least is None or last >= least) and (most is None or first < most)


def read_line(line: str, declared: Iterable[ListFilter] = ARCHIVE_FILTERS) -> Search:
    """Return a search; raise ArchiveProblem where a part is not understood, with the keys that work."""
    found = searching.read(line, tuple(declared))
    if found.problems:
        raise ArchiveProblem(" ".join(problem.words for problem in found.problems))
    return found


def search(
    place: str | Path,
    trusted: Iterable[PublicKey],
    asked: Search,
    *,
    most: int,
    bounds: Bounds,
    scope: Scope | None = None,
    before: int | None = None,
    since: int | None = None,
    with_bodies: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> ArchivePage:
    """Return at most so many calls between positions of the log, of one workspace or of the whole hub.

    Raises Bad where the archive is not as it was signed, ArchiveProblem, NoDuckDB and OSError.
    """
    if not _room.acquire(blocking=False):
        raise ArchiveBusy(_t("The archive is being searched by others now. Try again in some seconds."))
    deadline = SearchDeadline(bounds.seconds, clock)
    try:
        with opened(place, lambda: deadline.rest) as archive:
            found = manifests.of_place(archive, {key.key_id: key for key in trusted})
            if not found:
                raise NoArchive(_t("There is no archived month. `mcphub audit archive` archives the closed ones."))
            positions = _Positions(since, before)
            condition = positions.of(conditions.of_search(asked, scope))
            run = _Run(deadline, bounds, condition, most, with_bodies)
            return run.page(_Candidates(found, positions, *conditions.span_of(asked)))
    except OSError:
        deadline.check()
        raise
    finally:
        _room.release()


def manifests_of_settings() -> list[Manifest]:
    """Return the months of the hub's archive, oldest first, in the time of a search.

    Raises Bad where it is not as it was signed, and OSError.
    """
    deadline = SearchDeadline(settings.MCPHUB_ARCHIVE_SEARCH_SECONDS)
    with opened(settings.MCPHUB_ARCHIVE_DIR, lambda: deadline.rest) as place:
        return manifests.of_place(place, {key.key_id: key for key in service.keys().publics()})


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The files that may hold a searched call, the newest first."""

    manifests: list[Manifest]
    positions: _Positions
    least: datetime | None
    most: datetime | None

    def __iter__(self) -> Iterator[_ArchivedFile]:
        for manifest in reversed(self.manifests):
            for name in reversed(manifest.parts):
                file = _ArchivedFile(manifest, name, manifest.files[name])
                if file.may_hold(self.positions, self.least, self.most):
                    yield file


class SearchDeadline:
    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._ends_at = clock() + seconds

    @property
    def rest(self) -> float:
        return self._ends_at - self._clock()

    def check(self, _bytes: int = 0) -> None:
        if self.rest <= 0:
            raise self.problem()

    def problem(self) -> ArchiveProblem:
        return ArchiveProblem(
            _t(
                "The search took longer than %(seconds)g seconds and was ended. Narrow it, best by time: such as "
                "time:2026-01-31."
            )
            % {"seconds": self._seconds}
        )


@dataclass
class _Run:
    deadline: SearchDeadline
    bounds: Bounds
    condition: SqlCondition
    most: int
    with_bodies: bool

    def page(self, candidates: _Candidates) -> ArchivePage:
        found = ArchivePage()
        last = candidates.positions.before
        with duck(f"{self.bounds.memory_mib}MiB") as connection:
            for file in candidates:
                size = int(file.told["bytes"])
                if found.files and found.bytes + size > self.bounds.mib * _MIB:
                    found.next, found.is_cut = last, True
                    return found
                # One more than is missing shows whether another page follows.
                calls = self._of_file(connection, file, self.most - len(found.calls) + 1)
                found.files, found.bytes = found.files + 1, found.bytes + size
                if file.manifest.month not in found.months:
                    found.months.append(file.manifest.month)
                found.calls += calls
                if len(found.calls) > self.most:
                    del found.calls[self.most :]
                    found.next = found.calls[-1].position
                    return found
                last = int(file.told["calls"]["positions"][0])
        return found

    def _of_file(self, connection: Any, file: _ArchivedFile, most: int) -> list[ArchivedCall]:
        self.deadline.check()
        with _unchanged(file, self.deadline) as path, bounded_statement(connection, self.deadline):
            rows = _rows(connection, path, self.condition, most, self.with_bodies)
        return [_archived(file, row) for row in rows]


@contextmanager
def _unchanged(file: _ArchivedFile, deadline: SearchDeadline) -> Iterator[Path]:
    """Read inside only what the manifest names. Raises Bad where the file is another, or becomes one meanwhile."""
    name = f"{file.manifest.month}/{file.name}"
    try:
        with file.manifest.fetched(file.name, may_be_kept=True) as path:
            before = _state(path)
            if files.digest(path, deadline.check) != file.told["sha256"]:
                raise Bad(f"The file {name} was changed after it was archived: its digest is not that of the manifest.")
            yield path
            if _state(path) != before:
                raise Bad(f"The file {name} was changed while it was searched.")
    except FileNotFoundError:
        raise Bad(f"The file {name} is missing.") from None


def _state(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextmanager
def bounded_statement(connection: Any, deadline: SearchDeadline) -> Iterator[None]:
    """Interrupt the statements inside at the deadline; raise ArchiveProblem for that, and for a want of memory."""
    import duckdb

    is_over = threading.Event()

    def watch() -> None:
        wait = max(0.0, deadline.rest)
        while not is_over.wait(wait):
            connection.interrupt()
            wait = _AGAIN_SECONDS  # a statement that had not begun was not interrupted

    watcher = threading.Thread(target=watch, name="archive search", daemon=True)
    watcher.start()
    try:
        yield
    except duckdb.InterruptException:
        raise deadline.problem() from None
    except duckdb.OutOfMemoryException:
        raise ArchiveProblem(
            _t("The search needs more memory than it may use. Narrow it, or raise the limit archive_search_memory_mib.")
        ) from None
    finally:
        is_over.set()
        watcher.join()


def _rows(connection: Any, path: Path, condition: SqlCondition, most: int, with_bodies: bool) -> list[dict[str, Any]]:
    there = {row[0] for row in connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()}
    # A month from before a column has none of it: its rows hold nothing there.
    missing = [
        f"CAST(NULL AS {SQL_TYPES[kind]}) AS {name}" for name, kind in INVOCATION.columns.items() if name not in there
    ]
    names = ["position", "leaf", *INVOCATION.columns]
    shown = ["position", "lower(hex(hash))", *(_shown(name, with_bodies) for name in INVOCATION.columns)]
    cursor = connection.execute(
        f"SELECT {', '.join(shown)} FROM (SELECT {', '.join(['*', *missing])} FROM read_parquet(?)) "  # noqa: S608 - our own names
        f"WHERE kind = 'invocation' AND {condition.sql} ORDER BY position DESC LIMIT ?",
        [str(path), *condition.values, most],
    )
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _shown(name: str, with_bodies: bool) -> str:
    if name in INVOCATION.bodies and not with_bodies:
        return f"CASE WHEN {name}[:8] = '\"sha256:' THEN {name} END"
    return name


def _archived(file: _ArchivedFile, values: dict[str, Any]) -> ArchivedCall:
    fields: list[Any] = [each for each in McpToolInvocation._meta.concrete_fields if each.column in INVOCATION.columns]
    read = [_value(each, values[each.column]) for each in fields]
    call = McpToolInvocation.from_db(None, [each.attname for each in fields], read)
    return ArchivedCall(call, file.manifest.month, file.name, values["position"], values["leaf"])


def _value(held: Any, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    return held.from_db_value(value, None, database) if isinstance(held, JSONText) else value
