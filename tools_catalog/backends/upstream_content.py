"""Content of another MCP server beside tools: its resources, its prompts, and its completions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sessions_app.protocol import errors, mcp_apps
from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream import bridge, foreign, results

if TYPE_CHECKING:
    from tools_catalog.upstream.link import Offer
    from tools_catalog.upstream.pool import Pool

_NOT_FOUND: Final = -32002
_INVALID_PARAMS: Final = -32602
_MOST_VALUES: Final = 100


@dataclass(frozen=True, slots=True)
class Source:
    """Which offer of which connection. `pool` gives the connections of the running process."""

    connection: str
    offer: Offer
    pool: Callable[[], Pool]

    async def ask(self, method: str, params: dict[str, Json], context: ToolContext | None) -> dict[str, Json]:
        assert context is not None
        if meta := bridge.passed_on(context.call.meta, context.call.log_level):
            params["_meta"] = meta
        return await self.pool().request(self.connection, method, params, context, self.offer)


class UpstreamContents:
    """A resource of an upstream, or all that a template of it names."""

    is_static = False

    def __init__(self, source: Source, *, is_apart: bool = False) -> None:
        """`is_apart`: its URI here is that of a view, with the connection's name put in front."""
        self.source = source
        self._is_apart = is_apart

    async def read(self, uri: str, values: Mapping[str, str], context: ToolContext | None) -> dict[str, Json]:
        asked = mcp_apps.at_upstream(self.source.connection, uri) if self._is_apart else uri
        try:
            result = await self.source.ask("resources/read", {"uri": asked}, context)
        except errors.UpstreamError as error:
            if _code(error) in (_NOT_FOUND, _INVALID_PARAMS):
                return {"contents": []}  # as the hub says of what is not there
            raise
        contents = result.get("contents")
        if not isinstance(contents, list) or not all(results.is_contents(part) for part in contents):
            raise errors.ResultInvalid("The upstream's answer is not what a resource reads as.")
        if self._is_apart:
            contents = [{**part, "uri": mcp_apps.apart(self.source.connection, part["uri"])} for part in contents]
        return foreign.result_of(result, "contents", contents)


class UpstreamMessages:
    """A prompt of an upstream."""

    is_static = False

    def __init__(self, source: Source) -> None:
        self.source = source

    async def get(self, arguments: Mapping[str, str], context: ToolContext | None) -> dict[str, Json]:
        params = {"name": self.source.offer.name, "arguments": dict(arguments)}
        result = await self.source.ask("prompts/get", params, context)
        messages = result.get("messages")
        if not isinstance(messages, list):
            raise errors.ResultInvalid("The upstream's answer holds no messages.")
        for message in messages:
            if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
                raise errors.ResultInvalid("The upstream's prompt holds what is no message.")
            results.check({"content": [message.get("content")]})
        return foreign.result_of(result, "messages", messages)


class UpstreamCompletion:
    """The upstream's completions for one argument of its prompt, or one variable of its template."""

    is_static = False

    def __init__(self, source: Source, argument: str) -> None:
        self._source = source
        self._argument = argument

    async def complete(self, typed: str, others: Mapping[str, str], context: ToolContext | None) -> list[str]:
        kind, name = self._source.offer.kind, self._source.offer.name
        ref = {"type": "ref/prompt", "name": name} if kind == "prompt" else {"type": "ref/resource", "uri": name}
        params: dict[str, Any] = {"ref": ref, "argument": {"name": self._argument, "value": typed}}
        if others:
            params["context"] = {"arguments": dict(others)}
        try:
            result = await self._source.ask("completion/complete", params, context)
        except errors.UpstreamError as error:
            if _code(error) == -32601:
                return []  # it completes nothing
            raise
        completion = result.get("completion")
        values = completion.get("values") if isinstance(completion, dict) else None
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise errors.ResultInvalid("The upstream's completion is no list of texts.")
        return values[:_MOST_VALUES]


def _code(error: errors.UpstreamError) -> Any:
    told = error.details.get("upstream")
    return told.get("code") if isinstance(told, dict) else None
