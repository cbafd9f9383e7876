"""`POST /api/query`: a question in, the whole answer out, or a stream of events that ends with it."""

from __future__ import annotations

import contextlib

from mcphub.features.chat import queries, query_requests
from mcphub.features.chat.endpoints.own_api import OwnApiEndpoint
from mcphub.features.chat.engine.events import ApprovalNeeded, TextDelta, ToolFinished, ToolStarted, TurnEvent
from mcphub.features.chat.models.conversations import Query
from mcphub.features.chat.queries import QueryResponse
from sessions_app.protocol import json, sse
from sessions_app.protocol.json import Json


class QueryEndpoint(OwnApiEndpoint):
    async def answer(self) -> None:
        request = query_requests.read_query(await self.read_object())
        await self.draw()
        source = await self.turn_source(Query.EntryPoint.QUERY, request.metadata)
        turn = queries.turn_of(self.chat, source, request)
        async with self.attended(turn), contextlib.aclosing(queries.answer(self.chat, turn)) as events:
            async for event in events:
                if request.stream:
                    await self._tell(event)
                elif isinstance(event, QueryResponse):
                    await self.respond_json(event.wire())

    async def _tell(self, event: TurnEvent | QueryResponse) -> None:
        match event:
            case TextDelta():
                await self._event("delta", {"content": event.text})
            case ToolStarted():
                call = {"call_id": event.call_id, "tool_name": event.name, "arguments": event.arguments}
                await self._event("tool_started", call)
            case ToolFinished():
                outcome = {
                    "call_id": event.call_id,
                    "tool_name": event.name,
                    "id": event.invocation_id or None,
                    "is_error": event.is_error,
                    "error_code": event.error_code or None,
                    "duration_ms": event.duration_ms,
                }
                await self._event("tool_finished", outcome)
            case ApprovalNeeded():
                approval = {"call_id": event.call_id, "tool_name": event.name, "approval_id": event.approval_id}
                await self._event("approval_needed", approval)
            case QueryResponse():
                await self._event("response", event.wire(), last=True)

    async def _event(self, name: str, value: dict[str, Json], *, last: bool = False) -> None:
        await self.begin_stream()
        await self.write(sse.frame(json.dumps(value), event=name), last=last)
