"""DuckDB, which writes and reads Parquet: the extra `mcphub[archive]`, imported on first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from django.utils.translation import gettext as _t

from invocations.chain.tables import ALL_COLUMNS

MEMORY = "512MB"
"""Of DuckDB, for one statement. It spills nothing to disk."""


class NoDuckDB(Exception):
    """The extra is not installed."""

    def __init__(self) -> None:
        super().__init__(_t("The archive needs DuckDB, which is not installed here: pip install 'mcphub[archive]'."))


def find_duckdb() -> bool:
    """Return whether the extra is installed, without its import."""
    return find_spec("duckdb") is not None


SQL_TYPES = {"text": "VARCHAR", "integer": "BIGINT", "boolean": "BOOLEAN", "time": "TIMESTAMP"}
COLUMNS = {"kind": "text", "position": "integer", "hash": "text", "record": "text", **ALL_COLUMNS}
"""Name -> kind of every value in a file: the facts of the log about a row, then the columns of the audit's tables.

A block is a row of the kind `block`, whose record is its header and signature as JSON.
"""


@contextmanager
def duck(memory: str = MEMORY) -> Iterator[Any]:
    """Yield a connection that has no database, no network and no extension beyond those built in. Raises NoDuckDB."""
    try:
        import duckdb
    except ImportError:
        raise NoDuckDB from None
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": 2,
            "memory_limit": memory,
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    try:
        yield connection
    finally:
        connection.close()


def literal(text: str) -> str:
    """Return the text as a literal of SQL: COPY takes no parameters."""
    return "'" + text.replace("'", "''") + "'"


def errors() -> type[Exception]:
    """Return the class of DuckDB's errors."""
    import duckdb

    found: type[Exception] = duckdb.Error
    return found
