"""Questions asked in Python: `ask`, and its asynchronous twin `aask`.

    from mcphub.features.chat.library import ask
    print(ask("What is 2 + 3?").content)

A hub runs in this process meanwhile, over the same data as `mcphub serve` (`MCPHUB_DATA_DIR`), beside it if that runs.
Where this process serves already, as in a view, its hub is used. For several questions enter a `LocalChat` once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

if TYPE_CHECKING:
    from mcphub.features.chat.engine.events import TurnEvent
    from mcphub.features.chat.queries import QueryResponse
    from mcphub.process import runtime
    from sessions_app.caller import Caller
    from sessions_app.protocol.json import Json


class QueryOptions(TypedDict, total=False):
    """Options of a question besides its text; None means not given."""

    session_id: str | None
    provider: str | None
    model: str | None
    transport: str | None
    tools: Sequence[str] | None
    """Names that the model may call; None: all that the caller may."""
    metadata: dict[str, Json] | None


class AskOptions(QueryOptions, total=False):
    key: str | None
    """The caller's key; by default `MCPHUB_API_KEY`, or the user of this process."""


def ask(content: str, **options: Unpack[AskOptions]) -> QueryResponse:
    """Answer one question and return when the answer is whole. Options and errors are those of `aask`.

    Raises RuntimeError inside a running event loop, which it would hold up: await `aask` there.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("ask() would hold up the event loop that runs here. Await aask() instead.")
    serving = _serving()
    if serving is not None:
        return asyncio.run_coroutine_threadsafe(aask(content, **options), serving.loop).result()
    return asyncio.run(aask(content, **options))


async def aask(content: str, *, key: str | None = None, **options: Unpack[QueryOptions]) -> QueryResponse:
    """Answer one question: `session_id`, `provider`, `model`, `transport`, `tools`, `metadata`.

    `tools`: names that the model may call; None: all that the caller may. `key`: the caller's; by default
    `MCPHUB_API_KEY`, or the user of this process. Raises `mcphub.features.chat.errors.ChatError` with a `code` of
    `ERROR_CODES`.
    """
    async with LocalChat(key) as here:
        return await here.ask(content, **options)


class LocalChat:
    """The hub of this process and one caller of it. Enter it with `async with`; started for that if none runs."""

    def __init__(self, key: str | None = None, *, entry_point: str = "python") -> None:
        self._key = key
        self._entry_point = entry_point
        self._is_own = False
        self.hub: runtime.Hub

    async def __aenter__(self) -> LocalChat:
        if _serving() is None:
            await asyncio.to_thread(_prepare)
            self._is_own = True
        from mcphub.process import runtime

        self.hub = await runtime.ensure()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._is_own:
            from mcphub.process import runtime

            await runtime.stop()

    async def ask(self, content: str, **options: Unpack[QueryOptions]) -> QueryResponse:
        """Answer one question; options and errors are those of `aask`, but for the key."""
        from mcphub.features.chat.queries import QueryResponse

        async with contextlib.aclosing(self.events(content, **options)) as events:
            async for event in events:
                if isinstance(event, QueryResponse):
                    return event
        raise AssertionError("a turn ends with its answer")

    async def events(
        self, content: str, *, stream: bool = False, **options: Unpack[QueryOptions]
    ) -> AsyncGenerator[TurnEvent | QueryResponse, None]:
        """Yield the events on the way to the answer, and last the answer."""
        from mcphub.features.chat import queries, query_requests, rate_limit, service
        from mcphub.features.chat.engine.turn import TurnSource
        from mcphub.features.chat.errors import ChatError
        from sessions_app.protocol.errors import HubError

        body: dict[str, Json] = {"content": content, "stream": stream, **options}
        if body.get("tools") is not None:
            body["tools"] = list(body["tools"])
        request = query_requests.read_query(body)
        try:
            caller = self.caller()
            caller.need("chat")
            if caller.key_id is not None:
                rate_limit.check(await rate_limit.draw(self.hub.ledger, caller, ""))
            chat = await service.of(self.hub)
            call = await service.call_source(self.hub, caller, client_name=f"mcphub {self._entry_point}")
        except HubError as error:
            raise ChatError.of(error) from error
        source = TurnSource(call=call, entry_point=self._entry_point, metadata=request.metadata)
        async with contextlib.aclosing(queries.answer(chat, queries.turn_of(chat, source, request))) as events:
            async for event in events:
                yield event

    async def open_session(
        self, *, provider_preference: str = "", max_messages: int = 20, context: dict[str, Json] | None = None
    ) -> str:
        """Begin a conversation; give its id."""
        from mcphub.features.chat import query_requests, service

        chat = await service.of(self.hub)
        body = {"provider_preference": provider_preference or None, "max_messages": max_messages, "context": context}
        request = query_requests.read_session(body, chat.providers.providers)
        session = await chat.conversations.open(
            self.caller(),
            preference=request.provider_preference,
            max_messages=request.max_messages,
            context=request.context,
        )
        return str(session.pk)

    def caller(self) -> Caller:
        """Return the caller; raise Unauthenticated. Asked anew each time: a key may be revoked."""
        from django.conf import settings

        from sessions_app.caller import local_caller

        key = self._key or settings.MCPHUB_API_KEY
        return self.hub.configuration.keys.caller(f"Bearer {key}") if key else local_caller()


def _serving() -> runtime.Hub | None:
    """Return the hub of this process, where one runs."""
    from django.apps import apps

    if not apps.ready:
        return None
    from mcphub.process import runtime

    return runtime.current()


def _prepare() -> None:
    """Load the applications, and bring the tables up to date."""
    import django
    from django.apps import apps

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    if not apps.ready:
        django.setup()
    from django.db import connections

    from mcphub.process import first_run

    try:
        first_run.prepare(credentials=False)
    finally:
        connections.close_all()
