"""Conversations as endpoints use them: a turn claims its session, stores messages, and always ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import ParamSpec, TypeVar

from channels.db import database_sync_to_async

from invocations.redaction.records import RecordRedaction
from mcphub.features.chat.conversations import responses
from mcphub.features.chat.conversations.store import ConversationStore, forget_clear, purge
from mcphub.features.chat.engine.events import MessagesAdded, TurnEvent, TurnFinished
from mcphub.features.chat.engine.turn import Turn
from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.models.conversations import AIResponse, ChatMessage, ChatSession, Query
from mcphub.process import runtime
from sessions_app.caller import Caller
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 10

Parameters = ParamSpec("Parameters")
Given = TypeVar("Given")


class Conversations:
    """The conversations of one process."""

    def __init__(self, hub: runtime.Hub) -> None:
        self._hub = hub
        self._running: set[uuid.UUID] = set()
        self._store = ConversationStore(
            hub.process_id,
            hub.host,
            lambda: hub.configuration.errors,
            lambda: hub.configuration.redaction,
            self._running,
        )
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
        self, caller: Caller, *, preference: str = "", max_messages: int = 20, context: dict[str, Json] | None = None
    ) -> ChatSession:
        """Begin a conversation of the caller."""
        make = database_sync_to_async(self._store.open)
        return await make(caller, preference=preference, max_messages=max_messages, context=context or {})

    async def find(self, caller: Caller, session_id: str) -> tuple[ChatSession, list[ChatMessage]]:
        """Return a session and its messages; raise ChatError for one that is unknown, of another caller, or over."""
        return await database_sync_to_async(self._store.find)(caller, session_id)

    async def close(self, caller: Caller, session_id: str) -> None:
        """End a session; raise ChatError as `find` does, and while a turn of it is under way."""
        await database_sync_to_async(self._store.close)(caller, session_id)

    # Turns -----------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def turn(self, turn: Turn) -> AsyncIterator[None]:
        """Claim the session, record the query, and give the turn its messages; raise ChatError.

        Left without a response, the turn has failed.
        """
        self._running.add(turn.id)
        turn.record = RecordRedaction(self._hub.configuration.redaction)
        try:
            await _in_thread(self._store.begin, turn)
        except asyncio.CancelledError:
            self._end(turn, Query.State.CANCELLED, "cancelled")  # it may have been committed
            raise
        except BaseException:
            self._running.discard(turn.id)
            raise
        state, code = Query.State.FAILED, "SERVER_ERROR"
        try:
            yield
        except ChatError as error:
            code = error.code
            raise
        except (asyncio.CancelledError, GeneratorExit):
            state, code = Query.State.CANCELLED, "cancelled"
            raise
        finally:
            if turn.response is None:
                ending = self._end(turn, state, code)
                if state == Query.State.FAILED:
                    await asyncio.shield(ending)  # the client that asks again must not find its session busy
            else:
                self._running.discard(turn.id)

    async def store(self, turn: Turn, event: TurnEvent) -> None:
        """Store the event's additions; return once they are committed. Raises ChatError where the turn lost its
        session.
        """
        if isinstance(event, MessagesAdded):
            await _in_thread(self._store.add, turn, event.messages, event.error_codes)
        elif isinstance(event, TurnFinished):
            usage = event.usage
            response = AIResponse(
                content=event.text,
                provider_used=event.provider,
                model=event.model,
                finish_reason=event.reason,
                stop_reason=event.stop_reason or "",
                rounds=event.rounds,
                prompt_tokens=usage.prompt_tokens if usage else None,
                completion_tokens=usage.completion_tokens if usage else None,
                duration_ms=int((time.monotonic() - turn.began) * 1000),
            )
            await _in_thread(self._store.finish, turn, event.last_messages, response)
            turn.response = response

    def _end(self, turn: Turn, state: str, code: str) -> asyncio.Task[None]:
        async def end() -> None:
            try:
                await database_sync_to_async(self._store.fail)(turn, state, code)
            except Exception:
                logger.exception("A turn that failed could not be ended; the next sweep ends it")
            finally:
                self._running.discard(turn.id)

        task = asyncio.create_task(end(), name="mcphub-turn-ends")
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task

    # Housekeeping ----------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        while True:
            try:
                settled = await database_sync_to_async(self._store.sweep)()
                if settled:
                    logger.warning("%d turns of processes that are gone were ended as interrupted", settled)
                for sweep in (purge, forget_clear, responses.sweep):
                    await database_sync_to_async(sweep)()
            except Exception as error:
                logger.warning("Conversations could not be swept: %s", error)
            await asyncio.sleep(_SWEEP_SECONDS)


async def _in_thread(
    change: Callable[Parameters, Given], *arguments: Parameters.args, **more: Parameters.kwargs
) -> Given:
    """Change the database; failures become a ChatError."""
    try:
        return await database_sync_to_async(change)(*arguments, **more)
    except ChatError:
        raise
    except Exception as error:
        logger.exception("What was said could not be stored")
        raise ChatError(
            "AUDIT_UNAVAILABLE", "What was said could not be stored. Try again.", retry_after=1, should_retry=False
        ) from error
