"""Tools written as Python functions: the `@tool` decorator, its registry, and the backend that runs them.

A function enters the registry when its module is imported, under the reference `module:qualname`. The
catalogue may only name a registered reference; a database row is never an import path.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, Literal, TypeVar, overload

from pydantic import ValidationError

from sessions_app.protocol import errors, mcp_apps
from sessions_app.protocol.tasks import TaskSupport
from tools_catalog.backends import queued
from tools_catalog.backends.context import Context as Context  # as tools import it
from tools_catalog.backends.context import reading_for
from tools_catalog.backends.signatures import (
    NO_SCHEMA,
    Parameters,
    Returned,
    ToolDefinitionError,
    describe_parameters,
    describe_result,
    description_of,
)
from tools_catalog.backends.threads import SyncContext, ToolThreads, shared_threads
from tools_catalog.call.base import Json, ToolResult
from tools_catalog.call.content import result_from
from tools_catalog.call.context import ToolContext

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any] | queued.QueuedTask)

_MAX_REPORTED_PROBLEMS = 5


class ToolError(Exception):
    """Raise it in a tool to give the model the problem and the next step. The text is sent as it is; of any other
    exception the model learns only the type.
    """


class UnknownFunction(LookupError):
    """A reference that nothing registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTool:
    """One registered function with everything that is known of it without calling it."""

    reference: str
    function: Callable[..., Any]
    is_async: bool
    name: str
    title: str
    description: str
    parameters: Parameters
    returned: Returned
    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool
    version: str
    timeout_seconds: float | None
    task: str
    begins_task: bool
    meta: dict[str, Json] | None


registry: dict[str, PythonTool] = {}
"""Reference -> tool. Filled by imports, see `discover`; read by everybody else."""


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(
    *,
    name: str | None = ...,
    title: str | None = ...,
    description: str | None = ...,
    input_schema: dict[str, Json] | None = ...,
    output_schema: dict[str, Json] | type | None = ...,
    read_only: bool = ...,
    destructive: bool | None = ...,
    idempotent: bool | None = ...,
    open_world: bool = ...,
    version: str = ...,
    timeout_seconds: float | None = ...,
    task: Literal["forbidden", "optional", "required"] | None = ...,
    begins_task: bool = ...,
    meta: dict[str, Json] | None = ...,
    view: str = ...,
    visible_to: Iterable[Literal["model", "app"]] = ...,
) -> Callable[[Function], Function]: ...
def tool(
    function: Callable[..., object] | queued.QueuedTask | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    input_schema: dict[str, Json] | None = None,
    output_schema: dict[str, Json] | type | None = None,
    read_only: bool = False,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool = True,
    version: str = "1",
    timeout_seconds: float | None = None,
    task: Literal["forbidden", "optional", "required"] | None = None,
    begins_task: bool = False,
    meta: dict[str, Json] | None = None,
    view: str = "",
    visible_to: Iterable[Literal["model", "app"]] = ("model", "app"),
) -> Any:
    """Register a function as a tool and give it back unchanged.

    The name defaults to the function's, the description to its docstring, the schemas to its type hints (see
    docs/integrate/tools.md). `read_only` means that a call changes nothing anywhere; then `destructive` defaults to
    False and `idempotent` to True, otherwise to True and False, which are MCP's own defaults. `output_schema` may be
    a type. `task` is whether it may run as a task, `begins_task` that it decides itself, by `context.begin_task()`,
    when: see docs/integrate/tasks.md, also for functions with `@task` of django.tasks, whose default is "optional".
    `view` is the `ui://` address of the resource that shows its results, `visible_to` its permitted callers: models,
    views, or both (see docs/integrate/views.md). Raises `ToolDefinitionError` for a function that cannot be described.
    """

    def register(target: Any) -> Any:
        is_queued = queued.is_queued(target)
        shown = queued.described(target) if is_queued else target
        reference = f"{shown.__module__}:{shown.__qualname__}"
        words = description or description_of(shown)
        if not words:
            raise ToolDefinitionError(
                f"@tool {reference}: it has no description. Write a docstring; a model chooses tools by it."
            )
        own_name = name or shown.__name__
        _refuse_second(reference, shown)
        contexts = (Context, SyncContext)
        schema = input_schema
        if is_queued and schema is None:
            schema = describe_parameters(shown, override=None, context_types=()).schema
        called = queued.calling(target) if is_queued else target
        registry[reference] = PythonTool(
            reference=reference,
            function=called,
            is_async=inspect.iscoroutinefunction(called),
            name=own_name,
            title=title or own_name.replace("_", " ").strip().capitalize(),
            description=words,
            parameters=describe_parameters(called, override=schema, context_types=contexts),
            returned=NO_SCHEMA
            if is_queued and not queued.has_results(target)
            else describe_result(shown, override=output_schema),
            read_only=read_only,
            destructive=not read_only if destructive is None else destructive,
            idempotent=read_only if idempotent is None else idempotent,
            open_world=open_world,
            version=version,
            timeout_seconds=timeout_seconds,
            task=TaskSupport(task or ("optional" if is_queued else "forbidden")).value,
            begins_task=begins_task,
            meta=_with_view(reference, meta, view, list(visible_to)),
        )
        return target

    return register if function is None else register(function)


def discover(packs: Iterable[str] = ()) -> None:
    """Import `tools.py` of every installed app, and of the named packs, so that their functions register.

    A pack is a folder of `tools_catalog.packs`; any other name raises `UnknownFunction`.
    """
    from django.utils.module_loading import autodiscover_modules

    from tools_catalog import packs as shelf

    autodiscover_modules("tools")
    known = {module.name for module in iter_modules(shelf.__path__) if module.ispkg}
    for pack in packs:
        if pack not in known:
            raise UnknownFunction(f"There is no pack '{pack}'. Packs: {', '.join(sorted(known))}.")
        if find_spec(f"tools_catalog.packs.{pack}.tools") is not None:  # some packs have no functions
            import_module(f"tools_catalog.packs.{pack}.tools")


def find(reference: str) -> PythonTool:
    """Return the tool registered under `reference`; raises `UnknownFunction`, and never imports anything."""
    try:
        return registry[reference]
    except KeyError:
        raise UnknownFunction(
            f"No function is registered as '{reference}'. "
            "Decorate it with @tool in the tools.py of an installed app or pack."
        ) from None


def definition(reference: str) -> dict[str, Json]:
    """Return the catalogue values of a registered function.

    Wire names for members visible to clients (name, title, description, inputSchema, outputSchema, annotations,
    _meta), column names for the hub's own (read_only, destructive, idempotent, open_world, version, timeout_seconds,
    backend, configuration). `outputSchema` and `_meta` are absent when there is none.
    """
    entry = find(reference)
    described: dict[str, Json] = {
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "inputSchema": entry.parameters.schema,
        "annotations": {
            "title": entry.title,
            "readOnlyHint": entry.read_only,
            "destructiveHint": entry.destructive,
            "idempotentHint": entry.idempotent,
            "openWorldHint": entry.open_world,
        },
        "read_only": entry.read_only,
        "destructive": entry.destructive,
        "idempotent": entry.idempotent,
        "open_world": entry.open_world,
        "version": entry.version,
        "timeout_seconds": entry.timeout_seconds,
        "task_support": entry.task,
        "backend": "python",
        "configuration": {"function": reference},
    }
    if entry.returned.schema is not None:
        described["outputSchema"] = entry.returned.schema
    if entry.meta is not None:
        described["_meta"] = entry.meta
    return described


class PythonBackend:
    """Runs one registered function: an async one in the loop, a sync one in the tool threads."""

    def __init__(self, reference: str, *, threads: ToolThreads | None = None) -> None:
        self._tool = find(reference)
        self._threads = threads
        self.begins_task = self._tool.begins_task

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        """Call the function with arguments that were already checked against its input schema.

        Raises `ArgumentsInvalid` for arguments that only the function's types can refuse, `ExecutionError` for any
        exception of the function; a `HubError` and `CancelledError` pass through.
        """
        entry = self._tool
        keywords = _keywords(entry.parameters, arguments)
        slot = entry.parameters.context_parameter
        try:
            with reading_for(context):
                if entry.is_async:
                    if slot is not None:
                        keywords[slot] = Context(context)
                    value = await entry.function(**keywords)
                else:
                    threads = self._threads or shared_threads()
                    value = await threads.call(entry.function, keywords, slot=slot, context=context)
        except errors.HubError:
            raise
        except ToolError as exc:
            raise errors.ExecutionError(str(exc) or None) from exc
        # SystemExit in a task would end the whole process; a tool may end only its own call.
        except (Exception, SystemExit) as exc:
            logger.exception("Tool %s failed in invocation %s", entry.reference, context.call.invocation_id)
            kind = type(exc).__name__
            raise errors.ExecutionError(
                f"The tool failed with {kind}. Check the arguments; if they are right, tell the operator.",
                exception=kind,
            ) from exc
        returned = entry.returned
        return result_from(value, has_schema=returned.schema is not None, is_wrapped=returned.is_wrapped)

    async def aclose(self) -> None:
        """Nothing to release: the threads are shared."""


def _with_view(
    reference: str, meta: dict[str, Json] | None, view: str, visible_to: list[str]
) -> dict[str, Json] | None:
    """Return the `_meta` of a tool, including its view."""
    made = mcp_apps.with_view(meta or {}, view, visible_to)
    try:
        mcp_apps.check(made)
    except ValueError as error:
        raise ToolDefinitionError(f"@tool {reference}: {error}") from error
    return made if made or meta is not None else None


def _refuse_second(reference: str, target: Callable[..., object]) -> None:
    earlier = registry.get(reference)
    if earlier is None:
        return
    before, now = inspect.unwrap(earlier.function).__code__, inspect.unwrap(target).__code__
    if (before.co_filename, before.co_firstlineno) != (now.co_filename, now.co_firstlineno):
        raise ToolDefinitionError(f"@tool {reference}: two functions have this name. Rename one.")


def _keywords(parameters: Parameters, arguments: dict[str, Json]) -> dict[str, object]:
    # The catalogue may serve an older schema than the function has now, so names are checked here too.
    if parameters.names is not None and not arguments.keys() <= parameters.names:
        unknown = ", ".join(sorted(arguments.keys() - parameters.names))
        raise errors.ArgumentsInvalid(f"The tool has no argument named {unknown}. Leave it out.")
    if not parameters.required <= arguments.keys():
        missing = ", ".join(sorted(parameters.required - arguments.keys()))
        raise errors.ArgumentsInvalid(f"The argument {missing} is missing. Add it.")
    if parameters.model is None:
        keywords = dict(arguments)
        for name in parameters.integers:
            if type(keywords.get(name)) is float:
                keywords[name] = int(keywords[name])
        return keywords
    try:
        values = parameters.model.model_validate(arguments)
    except ValidationError as exc:
        raise errors.ArgumentsInvalid(_explain(exc)) from exc
    return {
        parameter: getattr(values, field)
        for field, parameter in parameters.field_to_parameter.items()
        if field in values.model_fields_set
    }


def _explain(failure: ValidationError) -> str:
    problems = failure.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        f"{'.'.join(str(step) for step in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in problems[:_MAX_REPORTED_PROBLEMS]
    ]
    if len(problems) > _MAX_REPORTED_PROBLEMS:
        lines.append(f"and {len(problems) - _MAX_REPORTED_PROBLEMS} more")
    return f"The arguments do not fit the tool: {'; '.join(lines)}."
