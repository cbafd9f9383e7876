"""Python functions that produce content for clients: `@resource`, `@prompt`, `@completion`, and their registries.

Like `@tool` functions they register when their module is imported, under `module:qualname`; a row may only name a
registered one. Arguments arrive as text and are converted by the type hints.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sessions_app import bus
from sessions_app.protocol import errors, mcp_apps, schemas, uritemplate
from tools_catalog.backends.context import Context, reading_for
from tools_catalog.backends.python import ToolError
from tools_catalog.backends.signatures import Parameters, ToolDefinitionError, describe_parameters, description_of
from tools_catalog.backends.threads import SyncContext, shared_threads
from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])
Completions = Mapping[str, "list[str] | Callable[..., Any]"]
"""Variable -> its values, or the function that finds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """One registered function, with its catalogue values by column."""

    reference: str
    function: Callable[..., Any]
    is_async: bool
    parameters: Parameters
    accepts: schemas.Validator
    columns: dict[str, Json]

    async def call(self, values: Mapping[str, str], context: ToolContext) -> Any:
        """Call the function with texts by name; return its result.

        Raises InvalidParams for values that its types refuse, ExecutionError for whatever it raised; a HubError
        and CancelledError pass through.
        """
        properties = self.parameters.schema.get("properties", {})
        keywords: dict[str, Any] = {
            name: _typed(text, properties.get(name, {}).get("type")) for name, text in values.items()
        }
        if not self.accepts.is_valid(keywords):
            raise errors.InvalidParams(self.accepts.explain(keywords).sentence)
        slot = self.parameters.context_parameter
        try:
            with reading_for(context):
                if not self.is_async:
                    return await shared_threads().call(self.function, keywords, slot=slot, context=context)
                if slot is not None:
                    keywords[slot] = Context(context)
                return await self.function(**keywords)
        except errors.HubError:
            raise
        except ToolError as exc:
            raise errors.ExecutionError(str(exc) or "The function behind it failed.") from exc
        # SystemExit in a task would end the whole process; a function may end only its own request.
        except (Exception, SystemExit) as exc:
            logger.exception("The function %s failed", self.reference)
            kind = type(exc).__name__
            raise errors.ExecutionError(
                f"The function behind it failed with {kind}. Check what you asked for; if it is right, tell the "
                "operator.",
                exception=kind,
            ) from exc


resources: dict[str, Offered] = {}
prompts: dict[str, Offered] = {}
completions: dict[str, Offered] = {}
"""Reference -> function. Filled by imports, see `python.discover`."""


def resource(
    uri: str,
    *,
    name: str | None = None,
    title: str = "",
    description: str | None = None,
    mime_type: str = "",
    annotations: dict[str, Json] | None = None,
    completions: Completions | None = None,
    icons: list[dict[str, Json]] | None = None,
    meta: dict[str, Json] | None = None,
    timeout_seconds: float = 30.0,
) -> Callable[[Function], Function]:
    """Register a function that gives the contents of `uri`, or of every URI of a template (RFC 6570).

    It takes the template's variables by name and gives text, bytes, `content.Resource`, a list with such, or any
    value, which is sent as JSON; None where the URI names nothing. Raises `ToolDefinitionError` for a function with
    unsuitable parameters.
    """

    def register(target: Function) -> Function:
        entry = _described("@resource", target)
        try:
            variables = set(uritemplate.parse(uri).names)
        except ValueError as error:
            raise ToolDefinitionError(f"@resource {entry.reference}: {error}") from error
        if not entry.parameters.required <= variables <= (entry.parameters.names or set()):
            raise ToolDefinitionError(
                f"@resource {entry.reference}: its parameters must be the variables of {uri}: "
                f"{', '.join(sorted(variables)) or 'none'}."
            )
        entry.columns.update(
            uri=uri,
            name=name or target.__name__,
            title=title,
            mime_type=mime_type or (mcp_apps.MIME_TYPE if mcp_apps.is_view(uri) else ""),
            annotations=annotations or {},
            description=description_of(target) if description is None else description,
            completions=_completions(entry, completions),
            icons=icons or [],
            meta=meta or {},
            timeout_seconds=timeout_seconds,
        )
        _keep(resources, "@resource", entry)
        return target

    return register


def prompt(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    title: str = "",
    description: str | None = None,
    completions: Completions | None = None,
    icons: list[dict[str, Json]] | None = None,
    meta: dict[str, Json] | None = None,
    timeout_seconds: float = 30.0,
) -> Any:
    """Register a function that gives the messages of a prompt; its parameters are the prompt's arguments.

    It gives text, a content block, a `sources.Message`, or a list of such. Raises `ToolDefinitionError` for a
    function that cannot be described.
    """

    def register(target: Function) -> Function:
        entry = _described("@prompt", target)
        arguments = []
        for argument, schema in entry.parameters.schema.get("properties", {}).items():
            words = {"description": schema["description"]} if schema.get("description") else {}
            arguments.append({"name": argument, **words, "required": argument in entry.parameters.required})
        entry.columns.update(
            name=name or target.__name__,
            title=title,
            arguments=arguments,
            description=description_of(target) if description is None else description,
            completions=_completions(entry, completions),
            icons=icons or [],
            meta=meta or {},
            timeout_seconds=timeout_seconds,
        )
        _keep(prompts, "@prompt", entry)
        return target

    return register if function is None else register(function)


def completion(function: Function) -> Function:
    """Register a function that completes a variable: from the text so far, `value`, it returns the matching texts.

    The values of the other variables are given by name to parameters of their names, which need a default.
    """
    entry = _described("@completion", function)
    if "value" not in (entry.parameters.names or ()) or not entry.parameters.required <= {"value"}:
        raise ToolDefinitionError(
            f"@completion {entry.reference}: it takes value, what is typed so far; other parameters need a default."
        )
    _keep(completions, "@completion", entry)
    return function


def updated(uri: str) -> None:
    """Notify subscribers of `uri` that its content has changed, although no row did. Not from async code."""
    bus.publish(bus.RESOURCE_UPDATED, uri)


def _completions(entry: Offered, given: Completions | None) -> dict[str, Json]:
    """The row's values: the author's, and those of parameters with a closed list."""
    found: dict[str, Json] = {}
    for name, schema in entry.parameters.schema.get("properties", {}).items():
        if isinstance(schema.get("enum"), list):
            found[name] = [str(value) for value in schema["enum"]]
    for name, source in (given or {}).items():
        if callable(source):
            if _reference(source) not in completions:
                completion(source)
            found[name] = {"function": _reference(source)}
        else:
            found[name] = list(source)
    return found


def _described(decorator: str, target: Callable[..., object]) -> Offered:
    reference = _reference(target)
    try:
        parameters = describe_parameters(target, override=None, context_types=(Context, SyncContext))
    except ToolDefinitionError as error:
        raise ToolDefinitionError(str(error).replace("@tool", decorator, 1)) from error
    for name, schema in parameters.schema.get("properties", {}).items():
        if schema.get("type", "string") in ("object", "array", "null") or parameters.model is not None:
            raise ToolDefinitionError(
                f"{decorator} {reference}: values come as text; write the type of '{name}' as str, int, float or bool."
            )
    return Offered(
        reference=reference,
        function=target,
        is_async=inspect.iscoroutinefunction(target),
        parameters=parameters,
        accepts=schemas.compile(parameters.schema),
        columns={"backend": "python", "function": reference},
    )


def _keep(registry: dict[str, Offered], decorator: str, entry: Offered) -> None:
    earlier = registry.get(entry.reference)
    if earlier is not None:
        before, now = inspect.unwrap(earlier.function).__code__, inspect.unwrap(entry.function).__code__
        if (before.co_filename, before.co_firstlineno) != (now.co_filename, now.co_firstlineno):
            raise ToolDefinitionError(f"{decorator} {entry.reference}: two functions have this name. Rename one.")
    registry[entry.reference] = entry


def _reference(target: Callable[..., object]) -> str:
    return f"{target.__module__}:{target.__qualname__}"


def _typed(text: str, kind: object) -> Any:
    """Return the value that the text writes; the text itself where it writes none, for the schema to refuse."""
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            return value if math.isfinite(value := float(text)) else text
    except ValueError:
        return text
    if kind == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text
