"""One turn of a conversation as its door holds it: begun, told of the engine's events, and ended whatever happens.

async with chat.talks.begin(asked) as talk:
    async with contextlib.aclosing(engine.run(Turn(messages=talk.messages, …))) as events:
        async for event in events:
            await talk.hear(event)      # before the client is told
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from channels.db import database_sync_to_async

from mcphub import runtime
from mcphub.chat import conversations
from mcphub.chat.conversations import Asked, Begun, Conversations, Said
from mcphub.chat.errors import ChatError
from mcphub.chat.events import ClientToolCalls, Event, Finished, MessageAdded, ToolFinished, ToolStarted
from mcphub.chat.models_conversations import AIResponse, ChatMessage, ChatSession, ChatToolCall, Query
from sessions_app.caller import Caller

logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 10

Given = TypeVar("Given")


class Talk:
    """A turn under way. `hear` every event of the engine before acting on it."""

    def __init__(self, asked: Asked, begun: Begun, rows: Conversations) -> None:
        self.asked = asked
        self.messages = begun.messages
        self.session = begun.session
        self.calls: list[ChatToolCall] = []
        """Those that have ended, in that order; the link to the audit."""
        self.results: list[ToolFinished] = []
        self.response: AIResponse | None = None
        """The answer, once it is stored."""
        self._rows = rows
        self._unstored: list[ChatToolCall] = []
        self._stored = 0
        self._began = time.monotonic()
        self._started: dict[str, float] = {}
        self._clients: list[str] = []

    async def hear(self, event: Event) -> None:
        """Store what the event adds; return when it is committed. Raises ChatError where the turn lost its session."""
        if isinstance(event, ToolStarted):
            self._started[event.call_id] = time.time()
        elif isinstance(event, ToolFinished):
            self._note(event)
        elif isinstance(event, MessageAdded):
            self._stored += 1
            calls, self._unstored = self._unstored, []
            await _in_thread(self._rows.add, self.asked, [self._said(event.message)], calls)
        elif isinstance(event, ClientToolCalls):
            self._clients = [call["id"] for call in event.calls]
        elif isinstance(event, Finished):
            await self._finish(event)

    def _note(self, event: ToolFinished) -> None:
        started = self._started.get(event.call_id, time.time() - event.duration_ms / 1000)
        call = ChatToolCall(
            round=event.round, call_id=event.call_id, tool_name=event.name, invocation_id=event.invocation_id,
            is_error=event.is_error, started_at=datetime.fromtimestamp(started, UTC), duration_ms=event.duration_ms,
        )  # fmt: skip
        self.calls.append(call)
        self.results.append(event)
        self._unstored.append(call)

    async def _finish(self, event: Finished) -> None:
        usage = event.usage
        response = AIResponse(
            content=event.text, provider_used=event.provider, model=event.model, finish_reason=event.reason,
            stop_reason=event.stop_reason or "", rounds=event.rounds,
            prompt_tokens=usage.prompt_tokens if usage else None,
            completion_tokens=usage.completion_tokens if usage else None,
            duration_ms=int((time.monotonic() - self._began) * 1000),
        )  # fmt: skip
        said = [self._said(message) for message in event.messages_added[self._stored :]]
        await _in_thread(self._rows.finish, self.asked, said, self._unstored, response)
        self.response = response

    def _said(self, message: dict[str, Any]) -> Said:
        calls = message.get("tool_calls") or ()
        names = self.asked.client_functions
        return Said(
            message=message,
            client_calls=[
                call["id"] for call in calls if call["id"] in self._clients or call["function"]["name"] in names
            ],
        )


class Talks:
    """The conversations of one process."""

    def __init__(self, hub: runtime.Hub) -> None:
        self._running: set[uuid.UUID] = set()
        self._rows = Conversations(hub.process_id, hub.host, hub.errors, self._running)
        self._endings: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._sweeper = asyncio.create_task(self._sweep(), name="mcphub-conversations")

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await asyncio.gather(*self._endings, return_exceptions=True)

    # Sessions --------------------------------------------------------------------------------------

    async def open(
        self, caller: Caller, *, preference: str = "", max_messages: int = 20, context: dict[str, Any] | None = None
    ) -> ChatSession:
        """Begin a conversation of the caller's."""
        make = database_sync_to_async(self._rows.open)
        return await make(caller, preference=preference, max_messages=max_messages, context=context or {})

    async def find(self, caller: Caller, session_id: str) -> tuple[ChatSession, list[ChatMessage]]:
        """Give a session and its messages; raise ChatError for one that is unknown, foreign, or over."""
        return await database_sync_to_async(self._rows.find)(caller, session_id)

    async def close(self, caller: Caller, session_id: str) -> None:
        """End a session; raise ChatError as `find` does, and while it answers."""
        await database_sync_to_async(self._rows.close)(caller, session_id)

    # Turns -----------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def begin(self, asked: Asked) -> AsyncIterator[Talk]:
        """Claim the session and record the query; raise ChatError. Left without an answer, the turn has failed."""
        self._running.add(asked.query_id)
        try:
            begun = await _in_thread(self._rows.begin, asked)
        except asyncio.CancelledError:
            self._end(asked, Query.State.CANCELLED, "cancelled")  # it may have been committed
            raise
        except BaseException:
            self._running.discard(asked.query_id)
            raise
        talk = Talk(asked, begun, self._rows)
        state, code = Query.State.FAILED, "SERVER_ERROR"
        try:
            yield talk
        except ChatError as error:
            code = error.code
            raise
        except (asyncio.CancelledError, GeneratorExit):
            state, code = Query.State.CANCELLED, "cancelled"
            raise
        finally:
            if talk.response is None:
                ending = self._end(asked, state, code)
                if state == Query.State.FAILED:
                    await asyncio.shield(ending)  # the client that asks again must not find its session busy
            else:
                self._running.discard(asked.query_id)

    def _end(self, asked: Asked, state: str, code: str) -> asyncio.Task[None]:
        async def end() -> None:
            try:
                await database_sync_to_async(self._rows.fail)(asked, state, code)
            except Exception:
                logger.exception("A turn that failed could not be ended; the next sweep does it")
            finally:
                self._running.discard(asked.query_id)

        task = asyncio.create_task(end(), name="mcphub-turn-ends")
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task

    # Housekeeping ----------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        while True:
            try:
                settled = await database_sync_to_async(self._rows.sweep)()
                if settled:
                    logger.warning("%d turns of processes that are gone were ended as interrupted", settled)
                await database_sync_to_async(conversations.purge)()
            except Exception as error:
                logger.warning("Conversations could not be swept: %s", error)
            await asyncio.sleep(_SWEEP_SECONDS)


async def _in_thread(deed: Callable[..., Given], *arguments: Any) -> Given:
    """Run a deed of the database and say what fails in it as the chat doors say it."""
    try:
        return await database_sync_to_async(deed)(*arguments)
    except ChatError:
        raise
    except Exception as error:
        logger.exception("What was said could not be stored")
        raise ChatError(
            "AUDIT_UNAVAILABLE", "What was said could not be stored. Try again.", retry_after=1, should_retry=False
        ) from error
