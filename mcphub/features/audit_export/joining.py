"""The files of a destination, as one export for `mcphub audit verify`. Needs neither Django nor a database.

At least once means that records may stand there twice; each is taken once, by its position or number. Records stand
in the order of their first arrival, so a gap stays a gap, which the verifier names.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from invocations.chain.records import end
from invocations.chain.verifier import canonical, loads
from mcphub.features.audit_export.destinations import ocsf


class CannotJoin(Exception):
    """The files have no start, or a line is not part of an export; the message is the reason."""


def join(files: Iterable[Path], out: BinaryIO) -> tuple[int, int]:
    """Write one export; give how many blocks and rows it has."""
    blocks = rows = 0
    block = position = -1
    tombstones: set[bytes] = set()
    has_begun = False
    for record, line in _records(files):
        if "export" in record:
            if has_begun:
                continue  # a rewind to the first block begins once more
            has_begun = True
            block, position = record["first_block"] - 1, record["first_position"] - 1
        elif not has_begun:
            raise CannotJoin("the files do not hold the first record, which a target gets when it begins.")
        elif "tombstone" in record:
            if line in tombstones:
                continue
            tombstones.add(line)
        elif "block" in record:
            if record["block"]["number"] <= block:
                continue
            block, blocks = record["block"]["number"], blocks + 1
        elif "row" in record:
            if record["position"] <= position:
                continue
            position, rows = record["position"], rows + 1
        else:
            continue  # a trial
        out.write(line if line.endswith(b"\n") else line + b"\n")
    if not has_begun:
        raise CannotJoin("the files hold no record.")
    out.write(canonical(end(blocks, rows)) + b"\n")
    return blocks, rows


def _records(files: Iterable[Path]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield records with their lines. An OCSF event is checked, and yields the record that it was made of."""
    before: dict[str, Any] | None = None
    for path in _paths(files):
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    try:
                        record = loads(line)
                    except ValueError:
                        raise CannotJoin(f"{path}, line {number} is no JSON; a line that was cut off?") from None
                    if not isinstance(record, dict):
                        raise CannotJoin(f"{path}, line {number} is no record of a shipment.")
                    if "class_uid" in record:
                        try:
                            yield ocsf.original(record, before)
                        except ocsf.NotGenuine as error:
                            raise CannotJoin(f"{path}, line {number}: {error}") from None
                        before = record
                    else:
                        yield record, line
        except OSError as error:
            raise CannotJoin(f"{path}: {error.strerror or error}.") from error


def _paths(files: Iterable[Path]) -> Iterator[Path]:
    for path in files:
        if path.is_dir():
            found = [each for each in path.rglob("audit-*") if each.name.endswith((".jsonl", ".jsonl.gz"))]
            yield from sorted(found, key=lambda each: each.name)
        else:
            yield path
