"""A delivery as a file of Parquet (the extra `mcphub[parquet]`): one row a record of the log, one column a value.

The columns are those of the audit's tables, preceded by the log's facts about the row. Blocks, tombstones and the
begin stand in the column `record` as JSON, so the file holds all that a delivery of JSON lines does.
"""

from __future__ import annotations

import io
from typing import Any

from invocations.chain.tables import ALL_COLUMNS
from mcphub.features.audit_export.reading import Shipment

MISSING = "Parquet needs pyarrow, which is not installed here. Install mcphub[parquet], or choose JSON lines."


def is_there() -> bool:
    from importlib.util import find_spec

    return find_spec("pyarrow") is not None


def columns() -> dict[str, str]:
    """Return name -> kind of every value, over all tables. `id` is the row's own number in its table."""
    return {"kind": "text", "position": "integer", "hash": "text", "record": "text", **ALL_COLUMNS}


def parquet_of(shipment: Shipment) -> bytes:
    import pyarrow
    import pyarrow.parquet

    types = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "boolean": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
    }
    kinds = columns()
    rows = [_row(record, line, kinds) for record, line in shipment.records]
    arrays = [pyarrow.array([row.get(name) for row in rows], type=types[kind]) for name, kind in kinds.items()]
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(dict(zip(kinds, arrays, strict=True))), out, compression="zstd")
    return out.getvalue()


def _row(record: dict[str, Any], line: bytes, kinds: dict[str, str]) -> dict[str, Any]:
    from datetime import datetime

    if "row" not in record:
        named = next(name for name in ("block", "tombstone", "export", "test") if name in record)
        return {"kind": named, "record": line.decode().rstrip("\n")}
    values: dict[str, Any] = {"row_kind" if name == "kind" else name: value for name, value in record["values"].items()}
    for name, value in values.items():
        if kinds[name] == "time":
            values[name] = datetime.fromisoformat(value)
        elif kinds[name] == "text" and isinstance(value, str):
            values[name] = value.encode("utf-8", "replace").decode()
    return {**values, "kind": record["row"], "position": record["position"], "hash": record["hash"]}
