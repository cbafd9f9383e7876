"""One file of an archive: a run of whole blocks with their rows, in the order of the log, as Parquet."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

from invocations.chain.records import Record
from invocations.chain.tables import AUDITED, Audited
from invocations.chain.verifier import Bad, canonical, loads
from mcphub.features.archive.duck import COLUMNS, SQL_TYPES, duck, errors, literal

_GROUP_BYTES = 32 * 1024 * 1024
"""Of JSON in a row group, which DuckDB holds in memory as a whole."""
_LEAST_GROUP, _MOST_GROUP = 2048, 122_880
_LEAST_LINE = 16 * 1024 * 1024
_AT_ONCE = 2000
_PIECE = 1 << 20
_BODIES = {name for of in AUDITED for name in of.bodies}


class PartDraft:
    """The rows of a file as JSON lines, until DuckDB makes Parquet of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
        self.rows = self.bytes = self._lines = self._longest = 0

    def add(self, record: Record) -> None:
        if "block" in record:
            told = {"kind": "block", "position": record["block"]["first"], "record": canonical(record).decode()}
        else:
            values = record["values"]
            told = {"row_kind" if name == "kind" else name: value for name, value in values.items()}
            told |= {"kind": record["row"], "position": record["position"], "hash": record["hash"]}
            self.rows += 1
        line = canonical(told) + b"\n"
        self._file.write(line)
        self._lines += 1
        self.bytes += len(line)
        self._longest = max(self._longest, len(line))

    def save_as(self, path: Path) -> None:
        """Write the file, for the owner alone, and wait for the disk. Raises DuckDB's errors."""
        self._file.close()
        types = ", ".join(f"{literal(name)}: {literal(SQL_TYPES[kind])}" for name, kind in COLUMNS.items())
        group = min(_MOST_GROUP, max(_LEAST_GROUP, _GROUP_BYTES * self._lines // max(1, self.bytes)))
        with duck() as connection:
            connection.execute(
                f"COPY (SELECT * REPLACE (unhex(hash) AS hash) FROM read_json({literal(str(self._path))}, "  # noqa: S608 - our own names
                f"format='newline_delimited', columns={{{types}}}, "
                f"maximum_object_size={max(_LEAST_LINE, self._longest + 1)})) TO {literal(str(path))} "
                f"(FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, ROW_GROUP_SIZE {group})"
            )
        with path.open("rb") as file:
            os.fchmod(file.fileno(), 0o600)
            os.fsync(file.fileno())

    def drop(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def read(path: Path) -> Iterator[Record]:
    """Return the records of a file as the verifier takes them: rows by their hashed text, which DuckDB writes.

    Raises Bad where the file cannot be read.
    """
    with duck() as connection:
        try:
            of_file = f"read_parquet({literal(str(path))})"
            found = connection.execute(f"DESCRIBE SELECT * FROM {of_file}").fetchall()  # noqa: S608 - a literal
            there = {name: kind for name, kind, *_ in found}
            if not {"kind", "position", "hash", "record", "id"} <= there.keys():
                raise Bad("It lacks columns of an archive.")
            for name in COLUMNS.keys() & there.keys():
                # A text that passes for a number could bring members of its own into the hashed text.
                if there[name] != (due := "BLOB" if name == "hash" else SQL_TYPES[COLUMNS[name]]):
                    raise Bad(f"Its column {name} is {there[name]}, not {due}.")
            texts = " ".join(f"WHEN '{of.name}' THEN {_covered(of, there)}" for of in AUDITED)
            erased = " OR ".join(f"{name}[:8] = '\"sha256:'" for name in sorted(_BODIES & there.keys()))
            cursor = connection.execute(
                f"SELECT kind, id, position, lower(hex(hash)), record, CASE kind {texts} END, {erased} FROM {of_file}"  # noqa: S608 - our own names
            )
            while rows := cursor.fetchmany(_AT_ONCE):
                for row in rows:
                    yield _record(*row)
        except errors() as error:
            raise Bad(f"It was changed, and cannot be read: {str(error).splitlines()[0]}") from None


def calls_of(path: Path) -> dict[str, Any] | None:
    """Return number, first and last position, first and last start of the calls in a file; None where it has none."""
    with duck() as connection:
        count, *ends = connection.execute(
            "SELECT count(*), min(position), max(position), min(started_at), max(started_at) "
            "FROM read_parquet(?) WHERE kind = 'invocation'",
            [str(path)],
        ).fetchone()
    if not count:
        return None
    return {"count": count, "positions": ends[:2], "started": [f"{each.isoformat()}Z" for each in ends[2:]]}


def _covered(of: Audited, there: Container[str]) -> str:
    """Return the expression of a row's hashed text: `row_bytes` of the verifier, in SQL."""
    members = {"table": f'\'"table":"{of.name}"\''}
    for name, kind in of.columns.items():
        column = "row_kind" if name == "kind" else name
        if column in there:
            written = _json(column, kind, is_body=name in of.bodies)
            members[name] = f"'\"{name}\":' || {written}"
    return f"'{{' || concat_ws(',', {', '.join(text for _name, text in sorted(members.items()))}) || '}}'"


def _json(column: str, kind: str, *, is_body: bool) -> str:
    if is_body:
        erased = f"to_json(substr({column}, 2, length({column}) - 2))::VARCHAR"
        return f"CASE WHEN {column}[:8] = '\"sha256:' THEN {erased} ELSE '\"sha256:' || sha256({column}) || '\"' END"
    if kind == "time":
        return f"strftime({column}, '\"%Y-%m-%dT%H:%M:%S.%fZ\"')"
    return f"to_json({column})::VARCHAR" if kind == "text" else f"{column}::VARCHAR"


def _record(
    kind: str, row_id: int, position: int, leaf: str, record: str, covered: str | None, is_erased: bool | None
) -> Record:
    if kind == "block":
        try:
            found: Record = loads(record)
        except (ValueError, TypeError):
            raise Bad("A block was changed: its record is no JSON.") from None
        return found
    if covered is not None and "\\u00" in covered:  # DuckDB writes the digits of control characters in capitals
        covered = canonical(loads(covered)).decode()
    told = {"row": kind, "id": row_id, "position": position, "hash": leaf}
    return told | {"covered": covered, "erased": is_erased is True}


def digest(path: Path, read_bytes: Callable[[int], object] | None = None) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
            if read_bytes is not None:
                read_bytes(len(piece))
    return found.hexdigest()


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file, for the owner alone, and wait for the disk."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
