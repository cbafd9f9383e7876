"""The log of the audit, opened for a command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from invocations.chain.log import Log
    from sessions_app.kit.database import Dedicated


@contextlib.contextmanager
def open_log() -> Iterator[tuple[Log, Dedicated]]:
    from invocations.chain import service
    from sessions_app.kit.database import Dedicated

    database = Dedicated()
    try:
        yield service.log_of(database), database
    finally:
        database.close()
