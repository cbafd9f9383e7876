"""Prompts over MCP, and completion for prompts and resource templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeGuard

from invocations.call.context import CallContext
from invocations.reading import Reading
from invocations.subject import COMPLETE, PROMPTS_GET, RowSubject
from mcphub.server.reading import read
from mcphub.server.results import IDENTITY, bounded, listed, text
from sessions_app.protocol import json, shapes
from sessions_app.protocol.errors import InvalidParams, ResourceNotFound
from sessions_app.protocol.json import Json
from tools_catalog.catalog.offers import OfferedResource, Prompt

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange, Result

_MOST_VALUES = 100
"""MCP, Completion: values of one answer."""


async def prompts_list(exchange: McpExchange, params: dict[str, Json]) -> Result:
    return listed(exchange, exchange.prompts().listing, params)


async def prompts_get(exchange: McpExchange, params: dict[str, Json]) -> Result:
    return await read(
        exchange,
        params,
        lambda: _prompt_reading(exchange, params),
        asked=params.get("name"),
        arguments=params.get("arguments", {}),
    )


async def completion_complete(exchange: McpExchange, params: dict[str, Json]) -> Result:
    ref = params.get("ref")
    return await read(
        exchange,
        params,
        lambda: _completion_reading(exchange, params),
        asked=(ref.get("name") or ref.get("uri")) if isinstance(ref, dict) else None,
        arguments={name: params[name] for name in ("ref", "argument", "context") if name in params},
        scope="tools:list",
        may_ask=False,
    )


def _prompt_reading(exchange: McpExchange, params: dict[str, Json]) -> Reading:
    prompt = exchange.prompts().find(text(params, "name", "the name of a prompt"), exchange.source.caller)
    arguments = _arguments(prompt, params.get("arguments", {}))
    source = prompt.messages

    async def messages(call: CallContext) -> dict[str, Json]:
        result = await source.get(arguments, call)
        if "description" in prompt.definition:
            result.setdefault("description", prompt.definition["description"])
        return result

    def answer(result: dict[str, Json]) -> Result:
        told = result
        if exchange.revision.result_type:
            told = {**result, "_meta": {**result.get("_meta", {}), **IDENTITY}}
        return bounded(shapes.prompt_result_for(exchange.revision, told))

    return Reading(
        subject=_subject(PROMPTS_GET, prompt),
        label=f"The prompt {prompt.name}",
        seconds=prompt.timeout_seconds,
        is_static=source.is_static,
        work=messages,
        answer=answer,
    )


def _completion_reading(exchange: McpExchange, params: dict[str, Json]) -> Reading:
    entry = _referred(exchange, params.get("ref"))
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

    async def completion(call: CallContext) -> dict[str, Json]:
        values = [] if source is None else await source.complete(typed, others, call)
        found = {"values": values[:_MOST_VALUES], "total": len(values), "hasMore": len(values) > _MOST_VALUES}
        return {"completion": found}

    def answer(result: dict[str, Json]) -> Result:
        told = {**result, "_meta": IDENTITY} if exchange.revision.result_type else result
        return shapes.result_for(exchange.revision, told)

    return Reading(
        subject=_subject(COMPLETE, entry),
        label=f"The completion of {name}",
        seconds=entry.timeout_seconds,
        is_static=source is None or source.is_static,
        work=completion,
        answer=answer,
    )


def _subject(method: str, entry: Prompt | OfferedResource) -> RowSubject:
    return RowSubject(
        method=method,
        target=entry.name if isinstance(entry, Prompt) else entry.uri,
        digest=entry.digest,
        connection=entry.connection,
        definition=entry.definition,
        workspace=entry.workspace,
        variables=tuple(_names(entry)),
    )


def _referred(exchange: McpExchange, ref: Json) -> Prompt | OfferedResource:
    kind = ref.get("type") if isinstance(ref, dict) else None
    if kind == "ref/prompt":
        return exchange.prompts().find(text(ref, "name", "the name of a prompt"), exchange.source.caller)
    if kind == "ref/resource":
        uri = text(ref, "uri", "a URI template of resources/templates/list")
        found = exchange.resources().template(uri, exchange.source.caller)
        if found is None:
            raise ResourceNotFound(uri[:1000], InvalidParams.jsonrpc_code)
        return found
    raise InvalidParams("ref must be an object whose type is ref/prompt or ref/resource.")


def _names(entry: Prompt | OfferedResource) -> list[str]:
    if isinstance(entry, Prompt):
        return [argument["name"] for argument in entry.definition.get("arguments", [])]
    return list(entry.template.names) if entry.template is not None else []


def _arguments(prompt: Prompt, given: Json) -> dict[str, str]:
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


def _others(around: Json) -> dict[str, str]:
    given = around.get("arguments", {}) if isinstance(around, dict) else None
    if not _is_texts(given):
        raise InvalidParams("context.arguments must be an object of texts: the arguments that are typed already.")
    return dict(given)


def _is_texts(value: Json) -> TypeGuard[Mapping[str, str]]:
    return isinstance(value, Mapping) and all(isinstance(word, str) for word in value.values())


def _quoted(name: str) -> str:
    return json.dumps(name[:100]).decode()
