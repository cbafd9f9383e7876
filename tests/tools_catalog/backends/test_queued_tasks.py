"""Tasks of django.tasks as tools: enqueued at the project's backend, which the call waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import pytest
from backend_peers import ScriptedContext, reference_of
from django.test import override_settings

from sessions_app.protocol.errors import ExecutionError
from tools_catalog.backends import python
from tools_catalog.backends.python import PythonBackend, ToolError, definition, tool


@dataclass
class Failure:
    exception_class_path: str
    traceback: str


@dataclass
class Enqueued:
    """What a backend knows of one task: it ends at the refresh that `ends_after` counts."""

    arguments: dict[str, Any]
    work: Callable[..., Any]
    ends_after: int
    id: str = "t-1"
    status: str = "READY"
    errors: list[Failure] = field(default_factory=list)
    return_value: Any = None

    @property
    def is_finished(self) -> bool:
        return self.status in ("SUCCESSFUL", "FAILED")

    def refresh(self) -> None:
        self.ends_after -= 1
        if self.ends_after > 0:
            return
        try:
            self.return_value, self.status = self.work(**self.arguments), "SUCCESSFUL"
        except Exception as error:
            path = f"{type(error).__module__}.{type(error).__qualname__}"
            said = f"{path}: {error}" if str(error) else path  # as traceback.format_exception writes it
            self.errors.append(Failure(path, f"Traceback:\n  somewhere\n{said}\n"))
            self.status = "FAILED"


@dataclass
class Queue:
    """A task of django.tasks, by its shape, and its backend."""

    func: Callable[..., Any]
    ends_after: int = 2
    takes_context: bool = False
    supports_get_result: bool = True

    def get_backend(self) -> Queue:
        return self

    def enqueue(self, **arguments: Any) -> Enqueued:
        return Enqueued(arguments, self.func, self.ends_after)


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(python.registry)
    yield
    python.registry.clear()
    python.registry.update(before)


def export(year: int, note: str = "") -> dict[str, int]:
    """Export the orders of a year.

    Args:
        year: Of the orders.
    """
    if year < 2000:
        raise ToolError("There are no orders\nbefore 2000.")
    return {"rows": 10_000 // (year - 2000)}


def called(function: Any, context: ScriptedContext | None = None, **arguments: Any) -> Any:
    result = asyncio.run(PythonBackend(reference_of(function)).call(arguments, context or ScriptedContext()))
    return result.structured if isinstance(result.structured, dict) else result.content[0]["text"]


def test_a_task_is_described_as_its_function_is() -> None:
    task = Queue(export)
    assert tool(timeout_seconds=600)(task) is task
    made = definition(reference_of(export))
    assert made["description"] == "Export the orders of a year."
    assert made["inputSchema"]["required"] == ["year"]
    assert made["inputSchema"]["properties"]["year"] == {"type": "integer", "description": "Of the orders."}
    assert made["outputSchema"]["additionalProperties"] == {"type": "integer"}
    assert (made["task_support"], made["timeout_seconds"]) == ("optional", 600)


def test_a_call_waits_for_the_end_of_its_task() -> None:
    tool(Queue(export))
    assert called(export, year=2010) == {"rows": 1000}


def test_a_failed_task_has_the_words_of_its_tool_error_and_of_others_the_type() -> None:
    tool(Queue(export))
    with pytest.raises(ExecutionError, match=r"^There are no orders\nbefore 2000\.$"):
        called(export, year=1999)
    with pytest.raises(ExecutionError, match="failed with ZeroDivisionError"):
        called(export, year=2000)


def test_a_call_without_time_left_names_the_task_that_goes_on() -> None:
    tool(Queue(export))
    with pytest.raises(ExecutionError, match="t-1 still runs"):
        called(export, ScriptedContext(seconds=0.5), year=2010)


def test_a_tool_error_without_words_does_not_return_its_traceback() -> None:
    def silent() -> str:
        """Fail."""
        raise ToolError

    tool(Queue(silent))
    with pytest.raises(ExecutionError) as caught:
        called(silent)
    assert str(caught.value) == ExecutionError.sentence


def test_a_failed_task_without_errors_has_its_state() -> None:
    @dataclass
    class GivenUp(Enqueued):
        def refresh(self) -> None:
            self.status = "FAILED"

    class Short(Queue):
        def enqueue(self, **arguments: Any) -> Enqueued:
            return GivenUp(arguments, self.func, 1)

    tool(Short(export))
    with pytest.raises(ExecutionError, match="failed with FAILED"):
        called(export, year=2010)


def test_a_result_that_vanishes_does_not_ask_for_a_second_start() -> None:
    class Gone(Enqueued):
        def refresh(self) -> None:
            raise LookupError("no such result")

    class Forgetful(Queue):
        def enqueue(self, **arguments: Any) -> Enqueued:
            return Gone(arguments, self.func, 1)

    tool(Forgetful(export))
    with pytest.raises(ExecutionError, match=r"t-1 cannot be read \(LookupError\)\. Do not start it again"):
        called(export, year=2010)


def test_a_backend_without_results_is_said_to_have_none() -> None:
    tool(Queue(export, supports_get_result=False))
    assert "outputSchema" not in definition(reference_of(export))
    assert "enqueued as t-1" in called(export, year=2010)


if find_spec("django.tasks"):  # Django 6

    def doubled(context: Any, number: int) -> int:
        """Double a number."""
        return 2 * number + int(context.attempt) - 1

    @override_settings(TASKS={"default": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"}})
    def test_a_task_of_django_with_its_context() -> None:
        from django.tasks import task

        tool(task(takes_context=True)(doubled))
        assert definition(reference_of(doubled))["inputSchema"]["properties"].keys() == {"number"}
        assert called(doubled, number=4) == {"result": 8}
