"""A transaction of a raw connection (`sqlite3` or `psycopg`, in autocommit mode). Needs no Django: the sealing process
has none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def transaction_on(raw: Any, is_sqlite: bool) -> Iterator[None]:
    """Run the block in one transaction of a raw connection; SQLite's takes the right to write at its beginning."""
    if not is_sqlite:
        with raw.transaction():
            yield
        return
    raw.execute("BEGIN IMMEDIATE")
    try:
        yield
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise
