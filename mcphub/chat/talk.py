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
from typing import Any, TypeVar

from channels.db import database_sync_to_async

from mcphub import runtime
from mcphub.chat import approvals, conversations
from mcphub.chat.conversations import Asked, Begun, Conversations, Said
from mcphub.chat.errors import ChatError
from mcphub.chat.events import ClientToolCalls, Event, Finished, MessageAdded
from mcphub.chat.models_conversations import AIResponse, ChatMessage, ChatSession, Query
from mcphub.chat.responses import store
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
        self.response: AIResponse | None = None
        """The answer, once it is stored."""
        self._rows = rows
        self._waiting: list[Said] = []
        """Results of a round whose others are not there yet."""
        self._expected = 0
        self._told = 0
        self._began = time.monotonic()
        self._clients: list[str] = []

    async def hear(self, event: Event) -> None:
        """Store what the event adds; return when it is committed. Raises ChatError where the turn lost its session."""
        if isinstance(event, MessageAdded):
            await self._add(event.message)
        elif isinstance(event, ClientToolCalls):
            self._clients = [call["id"] for call in event.calls]
        elif isinstance(event, Finished):
            await self._finish(event)

    async def _add(self, message: dict[str, Any]) -> None:
        """Store the calls of a round before they are made, and their results together."""
        self._told += 1
        said = self._said(message)
        self._waiting.append(said)
        if message["role"] == "tool":
            self._expected -= 1
        else:
            self._expected = len(message.get("tool_calls") or ()) - len(said.client_calls)
        if message["role"] != "tool" or self._expected <= 0:
            waiting, self._waiting = self._waiting, []
            await _in_thread(self._rows.add, self.asked, waiting)

    async def _finish(self, event: Finished) -> None:
        usage = event.usage
        response = AIResponse(
            content=event.text, provider_used=event.provider, model=event.model, finish_reason=event.reason,
            stop_reason=event.stop_reason or "", rounds=event.rounds,
            prompt_tokens=usage.prompt_tokens if usage else None,
            completion_tokens=usage.completion_tokens if usage else None,
            duration_ms=int((time.monotonic() - self._began) * 1000),
        )  # fmt: skip
        said = [*self._waiting, *(self._said(message) for message in event.messages_added[self._told :])]
        await _in_thread(self._rows.finish, self.asked, said, response)
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
                await database_sync_to_async(store.sweep)()
                await database_sync_to_async(approvals.sweep)()
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
