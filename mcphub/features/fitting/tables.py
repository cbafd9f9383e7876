"""Tables of a JSON value as CSV, which takes a model fewer tokens than JSON and loses nothing. Pure.

A table is a list of objects: the whole value, or a member of the whole object. A cell holds a text as it is, and any
other value as JSON; a text that JSON could also be is written as JSON. An empty cell is a member that is not there.
"""

from __future__ import annotations

import csv
import io

from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json

LEGEND = "Tables are CSV. A cell that is JSON has that value, any other is a text; an empty cell has no value."
_LEAST_ROWS = 2
_MOST_COLUMNS = 200
_RETURN = "\r"
"""Readers of CSV take one for the end of a line, or drop it."""
_BEGIN_JSON = frozenset('"{[-0123456789tfn \t\r\n')


def with_tables(value: Json) -> str | None:
    """Return a value as text with its tables as CSV; None where it has none, or where JSON is shorter."""
    if isinstance(value, list):
        text = _table(value)
    elif isinstance(value, dict):
        text = _members(value)
    else:
        text = None
    return text if text is not None and len(text) < len(_json(value)) else None


def _members(value: dict[str, Json]) -> str | None:
    """Return an object as the JSON of its other members, and below it each table under its name and rows."""
    found = {name: text for name, member in value.items() if (text := _table(member)) is not None}
    if not found:
        return None
    rest = {name: member for name, member in value.items() if name not in found}
    tables = [f"{_json(name)}, {len(value[name])} rows:\n{text}" for name, text in found.items()]
    return "\n".join([_json(rest), *tables])


def _table(rows: Json) -> str | None:
    if not isinstance(rows, list) or len(rows) < _LEAST_ROWS or not all(isinstance(row, dict) for row in rows):
        return None
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if not 0 < len(columns) <= _MOST_COLUMNS or any(_RETURN in name for name in columns):
        return None
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows([_cell(row[name]) if name in row else "" for name in columns] for row in rows)
    return written.getvalue()


def _cell(value: Json) -> str:
    is_plain = isinstance(value, str) and value and _RETURN not in value and not _is_json(value)
    return value if is_plain else _json(value)


def _is_json(text: str) -> bool:
    if text[0] not in _BEGIN_JSON:
        return False
    try:
        json.loads(text.encode("utf-8", "surrogatepass"))
    except ParseError:
        return False
    return True


def _json(value: Json) -> str:
    return json.dumps(value).decode("utf-8", "surrogatepass")
