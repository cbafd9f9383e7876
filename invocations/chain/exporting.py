"""`mcphub audit export`: the log as JSON lines that verify, or calls as CSV for a spreadsheet.

Both stream: memory does not grow with the audit. Both can be resumed where a run was cut off.
"""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from invocations.chain import records
from invocations.chain.keys import KeyFolder
from invocations.chain.log import Log, Values
from invocations.chain.records import RowSelection
from invocations.chain.sealer import checkpoint_note
from invocations.chain.tables import INVOCATION
from invocations.chain.verifier import canonical, loads

BYTE_ORDER_MARK = "\ufeff".encode()
"""Without it spreadsheets take the letters of CSV for those of the machine's old code page."""
_FORMULA = "=+-@\N{MINUS SIGN}"
"""Prefixes that make a spreadsheet read a text as a formula, after skipped or folded characters."""
_SKIPPED = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Zl", "Zp", "Zs"})
"""Categories of characters that are blank, invisible or drawn over others."""
_FILLERS = "\u115f\u1160\u3164\uffa0\u2800"
"""Letters and signs that are blank."""


class CannotExport(Exception):
    """The block does not exist, or the file is not the start of this export; the message is the reason."""


def need_block(log: Log, first: int) -> None:
    """Raise CannotExport where an export cannot begin with this block. The next one may be: nothing follows it yet."""
    size = log.size()
    if first > size:
        raise CannotExport(f"there is no block {first}: the log has {size}, counted from 0.")


def write_jsonl(
    out: BinaryIO,
    log: Log,
    keys: KeyFolder,
    selection: RowSelection,
    first: int = 0,
    last: int | None = None,
    *,
    resume: Path | None = None,
    sealed: Callable[[int], object] | None = None,
) -> tuple[int, int]:
    """Write the export, or the rest of it; give the numbers of blocks and rows in the whole file."""
    last = log.size() - 1 if last is None else min(last, log.size() - 1)
    blocks = rows = 0
    if resume is not None:
        first, blocks, rows, known = _resume(resume, selection, out)
        for record in islice(records.tombstones(log), known, None):
            out.write(canonical(record) + b"\n")
    else:
        size = log.size()
        checkpoint = checkpoint_note(log, keys, size) if size else None
        begin = {**records.begin(log, keys, first), "filters": selection.words(), "checkpoint": checkpoint}
        out.write(canonical(begin) + b"\n")
        for record in records.tombstones(log):
            out.write(canonical(record) + b"\n")
    for record in records.records(log, first, last, selection, sealed=sealed):
        blocks += "block" in record
        rows += "values" in record
        out.write(canonical(record) + b"\n")
    out.write(canonical(records.end(blocks, rows)) + b"\n")
    return blocks, rows


def _resume(path: Path, selection: RowSelection, out: BinaryIO) -> tuple[int, int, int, int]:
    """Truncate the file after its last complete block; return the next block's number and the lines before it.

    That is how many blocks, rows and tombstones.
    """
    blocks = rows = known = at = 0
    whole: tuple[int, int, int, int, int] | None = None
    began: dict[str, Any] | None = None
    with path.open("rb") as lines:
        for line in lines:
            try:
                record = loads(line) if line.endswith(b"\n") else {}
            except ValueError:
                record = {}
            if began is None:
                if record.get("export") != 1:
                    raise CannotExport(f"{path} is not the begin of an export.")
                if record["filters"] != selection.words():
                    raise CannotExport(f"{path} was made with other filters: {record['filters']}.")
                began = record
            elif "block" in record or "end" in record:
                whole = (at, began["first_block"] + blocks, blocks, rows, known)
                blocks += "block" in record
            known += "tombstone" in record
            rows += "values" in record
            at += len(line)
    if began is None:
        raise CannotExport(f"{path} is empty; leave --resume out.")
    if whole is None:
        raise CannotExport(f"{path} holds no whole block; leave --resume out.")
    offset, *told = whole
    out.seek(offset)
    out.truncate()
    return told[0], told[1], told[2], told[3]


def write_csv(
    out: BinaryIO,
    log: Log,
    selection: RowSelection,
    *,
    resume: Path | None = None,
    written: Callable[[int], object] | None = None,
) -> int:
    """Write the calls that are selected, one a line, sealed or not; give how many were written now."""
    columns = ["id", *(name for name in INVOCATION.columns if name != "id")]
    after = _resume_csv(resume, out) if resume is not None else 0
    if resume is None:
        out.write(BYTE_ORDER_MARK + csv_line(columns))
    count = 0
    for values in log.rows(INVOCATION, after, log.highest()["invocation"]):
        if selection.takes("invocation", values):
            out.write(csv_line(_cells(values, columns)))
            count += 1
        if written is not None:
            written(1)
    return count


def _resume_csv(path: Path, out: BinaryIO) -> int:
    at, after = 0, 0
    with path.open("rb") as lines:
        for line in lines:
            first = line.removeprefix(BYTE_ORDER_MARK).split(b",", 1)[0]
            if not line.endswith(b"\r\n") or not (first == b"id" or first.isdigit()):
                break
            after = int(first) if first.isdigit() else 0
            at += len(line)
    if not at:
        raise CannotExport(f"{path} is not the begin of an export as CSV.")
    out.seek(at)
    out.truncate()
    return after


def _cells(values: Values, columns: list[str]) -> Iterator[object]:
    for name in columns:
        yield for_spreadsheets(values.get(name))


def for_spreadsheets(value: object) -> object:
    """Keep a text to one line, so that a cut of the file shows, and from being taken for a formula."""
    if isinstance(value, str):
        value = value.replace("\r", "\\r").replace("\n", "\\n")
        value = f"'{value}" if value.startswith(("\t", "\r")) or _is_formula(value) else value
    return value


def _is_formula(text: str) -> bool:
    """Return whether the first character that is seen begins a formula, in its full-width and small forms too."""
    for character in text:
        if unicodedata.category(character) not in _SKIPPED and character not in _FILLERS:
            return unicodedata.normalize("NFKC", character)[0] in _FORMULA
    return False


def csv_line(cells: Iterable[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode("utf-8", "backslashreplace")
