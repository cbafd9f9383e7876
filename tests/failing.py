"""A database that fails at chosen statements."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from django.db import OperationalError, connection


def failing(words: str) -> AbstractContextManager[None]:
    """Fail the statements that contain these words."""

    def run(execute: Any, sql: str, values: Any, many: bool, context: Any) -> Any:
        if words in sql:
            raise OperationalError("the test says so")
        return execute(sql, values, many, context)

    return connection.execute_wrapper(run)
