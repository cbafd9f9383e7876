"""`POST /v1/responses`, and `GET` and `DELETE /v1/responses/{id}`: OpenAI's Responses over the engine."""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import Collection, Mapping

from channels.db import database_sync_to_async
from django.conf import settings

from mcphub.chat import approvals, conversations, extension, history, selection
from mcphub.chat.door import ChatDoor
from mcphub.chat.errors import ChatError
from mcphub.chat.events import ApprovalNeeded, ClientToolCalls, Event, Finished, TextDelta, ToolFinished, ToolStarted
from mcphub.chat.models_conversations import Query
from mcphub.chat.models_responses import ChatApproval, ChatResponse
from mcphub.chat.responses import requests, store
from mcphub.chat.responses.items import Composer, JsonObject, new_id
from mcphub.chat.responses.requests import Asked, Decision
from mcphub.chat.servers import Server
from mcphub.chat.turn import Decided, Limits, Turn
from sessions_app.protocol import json, sse
from tools_catalog.catalog import Tool


class Responses(ChatDoor):
    """Makes a response."""

    allowed_methods = ("POST",)

    async def answer(self) -> None:
        asked = requests.read(await self.read_object(), most_characters=settings.MCPHUB_CHAT_MAX_CONTENT)
        await self.draw()
        principal = self.caller.principal
        previous = await database_sync_to_async(_previous)(asked.previous_id, principal) if asked.previous_id else None
        choice = self.chat.providers().choose(asked.model or (previous.model if previous else None))
        chosen = selection.select(self.hub.catalog(), self.caller, asked.servers)
        messages = [*(previous.messages if previous else []), *asked.messages]
        decided, approvals_of = await self._decide(asked.decisions, messages, chosen, principal)
        turn_id = str(uuid.uuid4())
        instructions = [{"role": "system", "content": asked.instructions}] if asked.instructions else []
        turn = Turn(
            turn_id=turn_id, origin=await self.origin(), choice=choice, messages=[*instructions, *messages],
            tools=[tool for tool, _ in chosen.values()], client_tools=asked.functions, may_mix=asked.store,
            parameters=asked.parameters, stream=asked.stream, limits=_limits(asked), decided=decided,
            gate=approvals.RowGate(
                self.caller, turn_id, self.chat.approval_policies(), lambda tool: _wanted(chosen, tool)
            ),
            idempotency_key=self.idempotency_key(), request_id=self.request_id(),
        )  # fmt: skip
        composer = Composer(
            new_id("resp"), choice.asked_for, {name: server.label for name, (_, server) in chosen.items()}, asked.echo
        )
        composer.approved = {each.call_id: approvals_of[each.call_id] for each in decided if each.approve}
        run = _Run(self, asked, turn, composer, approvals_of)
        listed = previous.labels if previous else []
        run.labels = [*listed, *(server.label for server in asked.servers if server.label not in listed)]
        run.skip = len(instructions)
        new = [server.label for server in asked.servers if server.label not in listed]
        await run.go([(label, [t.definition for t, s in chosen.values() if s.label == label]) for label in new])

    async def _decide(
        self, decisions: list[Decision], messages: list[JsonObject], offered: Collection[str], principal: str
    ) -> tuple[list[Decided], dict[str, str]]:
        """Give what was decided, for the engine, and the id of the approval by the call's."""
        decided: list[Decided] = []
        ids: dict[str, str] = {}
        waiting = {message.get("tool_call_id") for message in messages if message.get("role") == "tool"}
        for decision in decisions:
            row = await database_sync_to_async(approvals.find)(decision.approval_id, principal)
            call_id = next((each for each in (row.call_id, row.pk) if each in waiting), None)
            if call_id is None:
                raise ChatError(
                    "INVALID_QUERY",
                    f"The approval {row.pk} belongs to a call that is not in this conversation. Send "
                    "previous_response_id, or the mcp_approval_request before the answer to it.",
                    param="input",
                )
            if decision.approve:
                self._check_unchanged(row)
                if row.tool_name not in offered:
                    raise ChatError(
                        "INVALID_QUERY",
                        f"The tool {row.tool_name} of the approved call is not among the tools of this request. Send "
                        "its mcp tool again.",
                        param="tools",
                    )
            await database_sync_to_async(approvals.decide)(
                row.pk,
                approve=decision.approve,
                reason=decision.reason,
                actor=principal,
                by=self.caller.label,
                principal=principal,
            )
            ids[call_id] = row.pk
            decided.append(
                Decided(
                    call_id=call_id,
                    name=row.tool_name,
                    arguments=row.arguments,
                    approve=decision.approve,
                    reason=decision.reason,
                )
            )
        return decided, ids

    def _check_unchanged(self, row: ChatApproval) -> None:
        tool = self.hub.catalog().find(row.tool_name, self.caller)
        if approvals.binding(tool, row.arguments) != row.binding:
            raise ChatError(
                "INVALID_QUERY", f"The tool {tool.name} has changed since its call was to be approved. Ask again.",
                param="input", http_status=409, openai_code="approval_outdated",
            )  # fmt: skip


class _Run:
    """One response on its way: the engine's events in, the client's out."""

    def __init__(
        self, door: Responses, asked: Asked, turn: Turn, composer: Composer, approvals_of: Mapping[str, str]
    ) -> None:
        self._door = door
        self._asked = asked
        self._turn = turn
        self._composer = composer
        self._approvals_of = approvals_of
        self._denied = {each.call_id for each in turn.decided if not each.approve}
        self.labels: list[str] = []
        self._waiting: list[JsonObject] = []
        """What is told with the engine's first event: a provider that refuses is an HTTP error until then."""
        self.skip = 0
        """Messages at the beginning that the next response does not take over: the instructions."""

    async def go(self, listings: list[tuple[str, list[JsonObject]]]) -> None:
        composer = self._composer
        self._waiting = composer.begin()
        for label, tools in listings:
            self._waiting += composer.listed(label, tools)
        chat, turn = self._door.chat, self._turn
        try:
            async with (
                self._door.attended(turn),
                chat.talks.begin(self._recorded()) as talk,
                contextlib.aclosing(chat.engine.run(turn)) as events,
            ):
                await self._settle()
                async for event in events:
                    await talk.hear(event)
                    await self._take(event)
        except ChatError as error:
            if not self._door.has_begun:
                raise
            await self._send(composer.fail(error.say_as(chat.hub.errors())), last=True)

    async def _settle(self) -> None:
        """Use up what was approved: only now, as nothing but the calls themselves can keep them from being made."""
        if self._turn.decided:
            used = [self._approvals_of[each.call_id] for each in self._turn.decided if each.approve]
            told = [self._approvals_of[each.call_id] for each in self._turn.decided if not each.approve]
            await database_sync_to_async(approvals.settle)(used, told, self._door.caller.principal)

    def _recorded(self) -> conversations.Asked:
        """Give the turn as the record of what was asked takes it."""
        turn = self._turn
        return conversations.Asked(
            caller=self._door.caller, door=Query.Door.RESPONSES.value, messages=turn.messages,
            provider=self._asked.model or "", metadata=self._door.metadata(),
            client_functions=frozenset(str(each["function"]["name"]) for each in turn.client_tools),
            query_id=uuid.UUID(turn.turn_id),
        )  # fmt: skip

    async def _take(self, event: Event) -> None:
        composer = self._composer
        if isinstance(event, ToolFinished):
            # The next response is to know the result, not that the call waited.
            self._turn.messages = history.with_result(self._turn.messages, event.call_id, event.content)
        if isinstance(event, ToolStarted | ToolFinished) and event.call_id in self._denied:
            return  # it was told by the client itself
        match event:
            case TextDelta():
                await self._send(composer.text(event.text))
            case ToolStarted():
                await self._send(composer.tool_started(event))
            case ToolFinished():
                await self._send(composer.tool_finished(event))
            case ClientToolCalls():
                await self._send(composer.client_calls(event))
            case ApprovalNeeded():
                await self._send(composer.approval_needed(event))
            case Finished():
                told = composer.finish(
                    event, extension.of(self._turn, event, self._door.elapsed_ms(), self._asked.ignored)
                )
                await self._keep(event)
                if self._asked.stream:
                    await self._send(told, last=True)
                else:
                    await self._door.give(composer.response)

    async def _keep(self, event: Finished) -> None:
        """Before the client hears of the end, so that its next request finds it."""
        if self._asked.store:
            messages = [*self._turn.messages[self.skip :], *event.messages_added]
            await database_sync_to_async(store.save)(
                self._composer.response, principal=self._door.caller.principal,
                previous_id=self._asked.previous_id or "", messages=messages, labels=self.labels,
            )  # fmt: skip

    async def _send(self, events: list[JsonObject], *, last: bool = False) -> None:
        if not self._asked.stream or not events:
            return
        if not self._door.has_begun:
            await self._door.begin_stream(self._door.own_headers())
        events, self._waiting = [*self._waiting, *events], []
        frames = b"".join(sse.frame(json.dumps(event), event=event["type"]) for event in events)
        await self._door.write(frames, last=last)


class Stored(ChatDoor):
    """A response that was kept."""

    allowed_methods = ("GET", "DELETE")

    async def answer(self) -> None:
        id_ = self.scope["path"].removeprefix("/v1/responses/").strip("/")
        row = await database_sync_to_async(store.load)(id_, self.caller.principal)
        if self.scope["method"] == "DELETE":
            await database_sync_to_async(store.delete)(id_, self.caller.principal)
            await self.give({"id": id_, "object": "response", "deleted": True})
        else:
            await self.give(row.body)


def _previous(id_: str, principal: str) -> ChatResponse:
    try:
        return store.load(id_, principal)
    except ChatError as error:
        error.http_status = 400  # as OpenAI answers it; 404 would say that the address is wrong
        raise


def _wanted(chosen: dict[str, tuple[Tool, Server]], tool: Tool) -> bool:
    found = chosen.get(tool.name)
    return found is not None and found[1].needs_approval(tool, unsaid=True)


def _limits(asked: Asked) -> Limits:
    limits = Limits.from_settings()
    if asked.max_calls is not None:
        limits = dataclasses.replace(limits, calls=min(limits.calls, asked.max_calls))
    return limits
