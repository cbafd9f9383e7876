"""One call of a tool or a prompt of the fixture, and the two ways in which it can ask its client."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

Json = Any
Request = dict[str, Json]
Run = Callable[["Call"], Awaitable[Json]]

_ASKED: Mapping[str, tuple[Any, Any]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}
_CAPABILITIES: Mapping[str, types.ClientCapabilities] = {
    "elicitation/create": types.ClientCapabilities(elicitation=types.ElicitationCapability()),
    "sampling/createMessage": types.ClientCapabilities(sampling=types.SamplingCapability()),
    "roots/list": types.ClientCapabilities(roots=types.RootsCapability()),
}


class InputRequired(Exception):
    """The client must answer first; `result` says what."""

    def __init__(self, result: dict[str, Json]) -> None:
        super().__init__("input required")
        self.result = result


class Call:
    """What a tool knows of its call. `ask` waits for a client of the handshake era, and ends the round of another."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], params: Any) -> None:
        self.ctx = ctx
        self.arguments: dict[str, Json] = params.arguments or {}
        self.is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self._given: Mapping[str, Any] = params.input_responses or {}
        self._settled: dict[str, Json] = json.loads(params.request_state) if params.request_state else {}

    def can_ask(self, method: str) -> bool:
        return self.ctx.session.check_client_capability(_CAPABILITIES[method])

    async def ask(self, **requests: Request) -> dict[str, Any]:
        """Return the client's answers by key, as results of their kind."""
        if not self.is_modern:
            return {key: await self._ask_now(request) for key, request in requests.items()}
        found = {}
        for key, request in requests.items():
            answer = self._settled.get(key, self._given.get(key))
            try:
                found[key] = _ASKED[request["method"]][1].model_validate(_plain(answer))
                self._settled[key] = _plain(answer)
            except ValidationError:
                continue
        missing = {key: request for key, request in requests.items() if key not in found}
        if missing:
            raise InputRequired(
                {"resultType": "input_required", "inputRequests": missing, "requestState": json.dumps(self._settled)}
            )
        return found

    async def _ask_now(self, request: Request) -> Any:
        asked, answered = _ASKED[request["method"]]
        if not self.can_ask(request["method"]):
            raise MCPError(types.INVALID_REQUEST, f"The client does not support {request['method']}.")
        related = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        return await self.ctx.session.send_request(asked.model_validate(request), answered, metadata=related)

    async def log(self, words: str) -> None:
        await self.ctx.session.send_log_message("info", words, related_request_id=self.ctx.request_id)


def form(message: str, schema: dict[str, Json]) -> Request:
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def fields(**properties: dict[str, Json]) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def sampling(prompt: str, max_tokens: int = 100) -> Request:
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": max_tokens}}


def roots() -> Request:
    return {"method": "roots/list", "params": {}}


def _plain(answer: Any) -> Json:
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True) if hasattr(answer, "model_dump") else answer
