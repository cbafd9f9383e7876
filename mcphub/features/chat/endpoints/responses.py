"""`POST /v1/responses`, and `GET` and `DELETE /v1/responses/{id}`: OpenAI's Responses over the engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from functools import partial

from channels.db import database_sync_to_async
from django.conf import settings

from invocations.redaction.records import RecordRedaction
from mcphub.features.approvals.asking import policies_of
from mcphub.features.approvals.models import McpApproval
from mcphub.features.chat import approvals
from mcphub.features.chat import messages as chat_messages
from mcphub.features.chat.conversations import responses as stored_responses
from mcphub.features.chat.endpoints import response_requests
from mcphub.features.chat.endpoints.base import ChatEndpoint
from mcphub.features.chat.endpoints.response_items import ResponseBuilder, new_id
from mcphub.features.chat.endpoints.response_requests import ApprovalDecision, ResponseRequest
from mcphub.features.chat.engine import tool_selection
from mcphub.features.chat.engine.events import (
    ApprovalNeeded,
    ClientToolCalls,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from mcphub.features.chat.engine.turn import DecidedCall, Turn, TurnLimits
from mcphub.features.chat.errors import ChatError, invalid
from mcphub.features.chat.models.conversations import Query
from mcphub.features.chat.models.responses import ChatResponse
from sessions_app.protocol import json, sse
from sessions_app.protocol.json import Json


class ResponsesEndpoint(ChatEndpoint):
    """Makes a response."""

    allowed_methods = ("POST",)

    async def answer(self) -> None:
        request = response_requests.read(await self.read_object(), most_characters=settings.MCPHUB_CHAT_MAX_CONTENT)
        await self.draw()
        principal = self.caller.principal
        previous = (
            await database_sync_to_async(_previous)(request.previous_id, principal) if request.previous_id else None
        )
        choice = self.chat.providers.choose(request.model or (previous.model if previous else None))
        chosen = tool_selection.select(self.hub.configuration.catalog, self.caller, request.servers)
        messages = [*(previous.said() if previous else []), *request.messages]
        decided = [await self._decide(each, messages, chosen.labels()) for each in request.decisions]
        instructions = [{"role": "system", "content": request.instructions}] if request.instructions else []
        turn = Turn(
            source=await self.turn_source(Query.EntryPoint.RESPONSES),
            choice=choice,
            asked_for=request.model or "",
            messages=[*instructions, *messages],
            tools=[tool for tool, _ in chosen.offered.values()],
            reached=[tool for tool, _ in chosen.reached.values()],
            searched=chosen.searched,
            client_tools=request.functions,
            may_mix_calls=request.store,
            parameters=request.parameters,
            stream=request.stream,
            limits=_limits(request),
            decided=decided,
            gate=approvals.StoredApprovalGate(
                policies_of(self.hub.configuration), partial(chosen.needs_approval, default=True)
            ),
        )
        listed = previous.labels if previous else []
        new = [server.label for server in request.servers if server.label not in listed]
        builder = ResponseBuilder(new_id("resp"), choice.asked_for, chosen.labels(), request.echo, request.namespaces)
        builder.approved = {each.call_id: each.approval_id for each in decided if each.approve}
        writer = _ResponseWriter(self, request, turn, builder, labels=[*listed, *new], skip=len(instructions))
        writer.begin([(label, [t.definition for t, s in chosen.offered.values() if s.label == label]) for label in new])
        try:
            async with self.attended(turn), self.chat.turn(turn) as events:
                async for event in events:
                    await writer.write(event)
        except ChatError as error:
            if not self.has_begun:
                raise
            await writer.fail(error)

    async def _decide(
        self, decision: ApprovalDecision, messages: list[dict[str, Json]], offered: Collection[str]
    ) -> DecidedCall:
        """Record the client's decision about a call of this conversation."""
        principal = self.caller.principal
        row = await database_sync_to_async(approvals.find)(decision.approval_id, principal)
        waiting = {message.get("tool_call_id") for message in messages if message.get("role") == "tool"}
        call_id = next((each for each in (row.call_id, row.pk) if each in waiting), None)
        if call_id is None:
            raise invalid(
                "input",
                f"The approval {row.pk} belongs to a call that is not in this conversation. Send "
                "previous_response_id, or the mcp_approval_request before the answer to it.",
            )
        arguments = approvals.asked(row)
        if decision.approve:
            if approvals.may_be_used(row):
                self._check_unchanged(row, arguments)
            if row.tool_name not in offered:
                raise invalid(
                    "tools",
                    f"The tool {row.tool_name} of the approved call is not among the tools of this request. Send "
                    "its mcp tool again.",
                )
        await database_sync_to_async(approvals.decide)(
            row.pk,
            RecordRedaction(self.hub.configuration.redaction),
            approve=decision.approve,
            reason=decision.reason,
            actor=principal,
            by=self.caller.label,
            principal=principal,
        )
        return DecidedCall(
            approval_id=row.pk,
            call_id=call_id,
            name=row.tool_name,
            arguments=arguments,
            approve=decision.approve,
            reason=decision.reason,
        )

    def _check_unchanged(self, row: McpApproval, arguments: dict[str, Json]) -> None:
        tool = self.hub.configuration.catalog.find(row.tool_name, self.caller)
        if approvals.binding(tool, arguments) != row.binding:
            raise invalid(
                "input",
                f"The tool {tool.name} has changed since its call was to be approved. Ask again.",
                http_status=409,
                openai_code="approval_outdated",
            )
        if not row.needs_another and approvals.operator_demands(tool, policies_of(self.hub.configuration)):
            raise invalid(
                "input",
                f"The operator demands an approval of {tool.name} since this one was asked for. Ask again.",
                http_status=409,
                openai_code="approval_outdated",
            )


class _ResponseWriter:
    """Writes the events of a turn as a response, whole or as a stream."""

    def __init__(
        self,
        endpoint: ResponsesEndpoint,
        request: ResponseRequest,
        turn: Turn,
        builder: ResponseBuilder,
        *,
        labels: list[str],
        skip: int,
    ) -> None:
        """`labels`: of the servers whose tools the conversation has listed. `skip`: messages at the beginning that
        the next response does not take over, as instructions hold for one.
        """
        self._endpoint = endpoint
        self._request = request
        self._turn = turn
        self._builder = builder
        self._labels = labels
        self._skip = skip
        self._denied = {each.call_id for each in turn.decided if not each.approve}
        self._waiting: list[dict[str, Json]] = []
        """Sent with the first event of the engine: until then the failure of a provider is an HTTP error."""

    def begin(self, listings: list[tuple[str, list[dict[str, Json]]]]) -> None:
        """`listings`: labels of servers that are new in the conversation, with their tools."""
        self._waiting = self._builder.begin()
        for label, tools in listings:
            self._waiting += self._builder.listed(label, tools)

    async def fail(self, error: ChatError) -> None:
        await self._send(self._builder.fail(error.apply_mapping(self._endpoint.hub.configuration.errors)), last=True)

    async def write(self, event: TurnEvent) -> None:
        builder = self._builder
        if isinstance(event, ToolFinished):
            # The next response is to know the result, not that the call waited.
            self._turn.messages = chat_messages.with_result(self._turn.messages, event.call_id, event.content)
        if isinstance(event, ToolStarted | ToolFinished) and event.call_id in self._denied:
            return  # the client itself has decided so
        match event:
            case TextDelta():
                await self._send(builder.text(event.text))
            case ToolStarted():
                await self._send(builder.tool_started(event))
            case ToolFinished():
                await self._send(builder.tool_finished(event))
            case ClientToolCalls():
                await self._send(builder.client_calls(event))
            case ApprovalNeeded():
                await self._send(builder.approval_needed(event))
            case TurnFinished():
                extension = self._endpoint.extension(self._turn, event, self._request.ignored)
                last = builder.finish(event, extension)
                await self._keep(event)
                if self._request.stream:
                    await self._send(last, last=True)
                else:
                    await self._endpoint.respond_json(builder.response)

    async def _keep(self, event: TurnFinished) -> None:
        """Before the client receives the end, so that its next request finds it."""
        if self._request.store:
            messages = [*self._turn.messages[self._skip :], *event.messages_added]
            await database_sync_to_async(stored_responses.save)(
                self._builder.response,
                principal=self._endpoint.caller.principal,
                previous_id=self._request.previous_id or "",
                messages=messages,
                labels=self._labels,
            )

    async def _send(self, events: list[dict[str, Json]], *, last: bool = False) -> None:
        if not self._request.stream or not events:
            return
        if not self._endpoint.has_begun:
            await self._endpoint.begin_stream(self._endpoint.own_headers())
        events, self._waiting = [*self._waiting, *events], []
        frames = b"".join(sse.frame(json.dumps(event), event=event["type"]) for event in events)
        await self._endpoint.write(frames, last=last)


class StoredResponseEndpoint(ChatEndpoint):
    """A response that was kept."""

    allowed_methods = ("GET", "DELETE")

    async def answer(self) -> None:
        id_ = self.scope["path"].removeprefix("/v1/responses/").strip("/")
        row = await database_sync_to_async(stored_responses.load)(id_, self.caller.principal)
        if self.scope["method"] == "DELETE":
            await database_sync_to_async(stored_responses.delete)(id_, self.caller.principal)
            await self.respond_json({"id": id_, "object": "response", "deleted": True})
        else:
            await self.respond_json(row.told())


def _previous(id_: str, principal: str) -> ChatResponse:
    try:
        return stored_responses.load(id_, principal)
    except ChatError as error:
        error.http_status = 400  # as OpenAI answers it; 404 would say that the address is wrong
        raise


def _limits(request: ResponseRequest) -> TurnLimits:
    limits = TurnLimits.from_settings()
    if request.max_calls is not None:
        limits = dataclasses.replace(limits, calls=min(limits.calls, request.max_calls))
    return limits
