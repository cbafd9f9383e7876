"""A task as django.tasks makes them, and its backend: a thread works it off, as a worker of a project would."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from typing import Any

from tests.toolbox.tools import _folder, _leave
from tests.waiting import until
from tools_catalog.backends.python import ToolError, tool

_stored: dict[str, tuple[str, Any]] = {}
"""What the backend keeps: status and outcome of each task, by its id."""


class StoredResult:
    """A task as it stood at the last look."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.refresh()

    def refresh(self) -> None:
        self.status, self._outcome = _stored[self.id]

    @property
    def is_finished(self) -> bool:
        return self.status in ("SUCCESSFUL", "FAILED")

    @property
    def return_value(self) -> Any:
        return self._outcome

    @property
    def errors(self) -> list[StoredFailure]:
        return [StoredFailure(self._outcome)]


class StoredFailure:
    def __init__(self, error: Exception) -> None:
        self.exception_class_path = f"{type(error).__module__}.{type(error).__qualname__}"
        self.traceback = f"Traceback:\n  somewhere\n{self.exception_class_path}: {error}\n"


class WorkedOff:
    """A function that is a task, and the backend that keeps its results."""

    takes_context = False
    supports_get_result = True

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def get_backend(self) -> WorkedOff:
        return self

    def get_result(self, id: str) -> StoredResult:
        return StoredResult(id)

    def enqueue(self, **arguments: Any) -> StoredResult:
        id = uuid.uuid4().hex
        _stored[id] = ("READY", None)
        threading.Thread(target=self._work, args=(id, arguments), daemon=True).start()
        return self.get_result(id)

    def _work(self, id: str, arguments: dict[str, Any]) -> None:
        _stored[id] = ("RUNNING", None)
        try:
            _stored[id] = ("SUCCESSFUL", self.func(**arguments))
        except Exception as error:
            _stored[id] = ("FAILED", error)


@tool(open_world=False, timeout_seconds=300)
@WorkedOff
def export_orders(name: str, year: int) -> dict[str, int]:
    """Export the orders of a year once a file `<name>.release` appears."""
    folder = _folder()
    _leave(folder, name, "began")
    asyncio.run(until((folder / f"{name}.release").exists))
    if year < 2000:
        raise ToolError("There are no orders before 2000.")
    return {"rows": year - 2000}
