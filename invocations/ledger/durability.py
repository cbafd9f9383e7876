"""Whether the database's reported commits survive a crash of the machine, as far as can be determined."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from invocations.chain.tables import AUDITED

_MEMORY = {"tmpfs", "ramfs"}
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ncpfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone"}


def why_not(raw: Any, is_sqlite: bool) -> str | None:
    """Return why a commit on this connection (raw) might be lost, or None."""
    return _sqlite(raw) if is_sqlite else _postgresql(raw)


def _postgresql(raw: Any) -> str | None:
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        value = raw.execute(f"SHOW {name}").fetchone()[0]
        if value == "off":
            return f"PostgreSQL runs with {name}={value}"
    unlogged = raw.execute(
        "WITH named AS (SELECT to_regclass(name) AS id FROM unnest(%s::text[]) AS name) "
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relpersistence <> 'p' AND oid IN "
        "(SELECT id FROM named UNION SELECT inhrelid FROM pg_inherits JOIN named ON inhparent = id)",
        ([of.table for of in AUDITED],),
    ).fetchone()
    return f"PostgreSQL keeps the table {unlogged[0]} unlogged" if unlogged else None


def _sqlite(raw: Any) -> str | None:
    if raw.execute("PRAGMA synchronous").fetchone()[0] < 2:
        return "SQLite runs with PRAGMA synchronous below FULL"
    mode = raw.execute("PRAGMA journal_mode").fetchone()[0].lower()
    if mode in ("off", "memory"):
        return f"SQLite runs with PRAGMA journal_mode={mode}"
    file = next(row[2] for row in raw.execute("PRAGMA database_list") if row[1] == "main")
    if not file:
        return "SQLite keeps the database in memory"
    kind = file_system(Path(file))
    if kind in _MEMORY:
        return f"the database lies in memory ({kind})"
    if kind in _NETWORK:
        return f"the database lies on a network file system ({kind}), where SQLite's locks and flushes do not hold"
    return None


def file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the type of the file system that holds `path`; empty if unknown. Linux."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    wanted = os.path.realpath(path)
    longest, found = -1, ""
    for line in lines:
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4].encode().decode("unicode_escape")  # blanks are written \040
        inside = wanted == point or wanted.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # of two mounts on one point the later one counts
            longest, found = len(point), right.split(" ")[0]
    return found
