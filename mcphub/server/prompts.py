"""Prompts over MCP, and the completion of what people type for prompts and resource templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from invocations.context import Suspended
from mcphub.server.answers import IDENTITY, bounded, limited, listed, text
from mcphub.server.context import RequestContext, Result
from mcphub.server.functions import perform
from sessions_app.protocol import json, shapes
from sessions_app.protocol.errors import InvalidParams, ResourceNotFound
from tools_catalog.offers import Prompt, Resource

_MOST_VALUES = 100
"""MCP, Completion: values of one answer."""


async def prompts_list(context: RequestContext, params: dict[str, Any]) -> Result:
    return listed(context, context.hub.prompts().listing, params)


async def prompts_get(context: RequestContext, params: dict[str, Any]) -> Result:
    context.origin.caller.need("tools:call")
    await limited(context, "prompts/get")
    prompt = context.hub.prompts().find(text(params, "name", "the name of a prompt"), context.origin.caller)
    arguments = _arguments(prompt, params.get("arguments", {}))
    source = prompt.messages
    if source.is_static:
        messages = await source.get(arguments, None)
    else:
        try:
            messages = await perform(
                context, f"The prompt {prompt.name}", prompt.timeout_seconds,
                lambda call: source.get(arguments, call), asks=("prompts/get", params),
            )  # fmt: skip
        except Suspended as suspended:
            return suspended.wire
    result: dict[str, Any] = {"messages": messages}
    if "description" in prompt.definition:
        result["description"] = prompt.definition["description"]
    if context.revision.result_type:
        result["_meta"] = IDENTITY
    return bounded(shapes.prompt_result_for(context.revision, result))


async def completion_complete(context: RequestContext, params: dict[str, Any]) -> Result:
    context.origin.caller.need("tools:list")
    await limited(context, "completion/complete")
    entry = _referred(context, params.get("ref"))
    argument = params.get("argument")
    if not isinstance(argument, dict):
        raise InvalidParams("argument must be an object with name and value.")
    name, typed = text(argument, "name", "the name of an argument"), argument.get("value")
    if not isinstance(typed, str):
        raise InvalidParams("argument.value must be a text: what is typed so far.")
    known = _names(entry)
    if name not in known:
        raise InvalidParams(f"There is no argument {_quoted(name)}. Arguments: {', '.join(known) or 'none'}.")
    others = _others(params.get("context", {}))
    source = entry.completions.get(name)
    if source is None:
        values: list[str] = []
    elif source.is_static:
        values = await source.complete(typed, others, None)
    else:
        values = await perform(
            context, f"The completion of {name}", entry.timeout_seconds,
            lambda call: source.complete(typed, others, call),
        )  # fmt: skip
    found = {"values": values[:_MOST_VALUES], "total": len(values), "hasMore": len(values) > _MOST_VALUES}
    return shapes.result_for(
        context.revision, {"completion": found, **({"_meta": IDENTITY} if context.revision.result_type else {})}
    )


def _referred(context: RequestContext, ref: Any) -> Prompt | Resource:
    kind = ref.get("type") if isinstance(ref, dict) else None
    if kind == "ref/prompt":
        return context.hub.prompts().find(text(ref, "name", "the name of a prompt"), context.origin.caller)
    if kind == "ref/resource":
        uri = text(ref, "uri", "a URI template of resources/templates/list")
        found = context.hub.resources().template(uri, context.origin.caller)
        if found is None:
            raise ResourceNotFound(uri[:1000], InvalidParams.jsonrpc_code)
        return found
    raise InvalidParams("ref must be an object whose type is ref/prompt or ref/resource.")


def _names(entry: Prompt | Resource) -> list[str]:
    if isinstance(entry, Prompt):
        return [argument["name"] for argument in entry.definition.get("arguments", [])]
    return list(entry.template.names) if entry.template is not None else []


def _arguments(prompt: Prompt, given: Any) -> dict[str, str]:
    if not _is_texts(given):
        raise InvalidParams("arguments must be an object of the prompt's arguments by name, each a text.")
    declared = prompt.definition.get("arguments", [])
    known = [argument["name"] for argument in declared]
    if unknown := sorted(given.keys() - known):
        raise InvalidParams(
            f"The prompt {prompt.name} has no argument {_quoted(unknown[0])}. Arguments: {', '.join(known) or 'none'}."
        )
    missing = [each["name"] for each in declared if each.get("required") and each["name"] not in given]
    if missing:
        raise InvalidParams(f"The prompt {prompt.name} needs the argument {', '.join(missing)}.", missing=missing)
    return dict(given)


def _others(around: Any) -> dict[str, str]:
    given = around.get("arguments", {}) if isinstance(around, dict) else None
    if not _is_texts(given):
        raise InvalidParams("context.arguments must be an object of texts: the arguments that are typed already.")
    return dict(given)


def _is_texts(value: Any) -> TypeGuard[Mapping[str, str]]:
    return isinstance(value, Mapping) and all(isinstance(word, str) for word in value.values())


def _quoted(name: str) -> str:
    return json.dumps(name[:100]).decode()
