"""Questions asked in Python: `ask`, and its asynchronous twin `aask` (seed 003).

    from mcphub.chat.library import ask
    print(ask("What is 2 + 3?").content)

A hub runs in this process meanwhile, over the same data as `mcphub serve` (`MCPHUB_DATA_DIR`), beside it if that runs.
Where this process serves already, as in a view, its hub is used. For several questions enter a `Here` once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcphub import runtime
    from mcphub.chat.answering import Answer
    from mcphub.chat.events import Event
    from sessions_app.caller import Caller


def ask(content: str, **options: Any) -> Answer:
    """Answer one question and return when the answer is whole. Options and errors are those of `aask`.

    Raises RuntimeError inside a running event loop, which it would hold up: await `aask` there.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("ask() would hold up the event loop that runs here. Await aask() instead.")
    serving = _serving()
    if serving is not None:
        return asyncio.run_coroutine_threadsafe(aask(content, **options), serving.loop).result()
    return asyncio.run(aask(content, **options))


async def aask(
    content: str,
    *,
    session_id: str | None = None,
    provider: str | None = None,
    model: str | None = None,
    transport: str | None = None,
    tools: Sequence[str] | None = None,
    metadata: dict[str, Any] | None = None,
    key: str | None = None,
) -> Answer:
    """Answer one question.

    `tools`: names that the model may call; None: all that the caller may. `key`: who asks; else `MCPHUB_API_KEY`, else
    whoever runs this process. Raises `mcphub.chat.errors.ChatError`, whose `code` is one of seed 003's error states.
    """
    async with Here(key) as here:
        return await here.ask(
            content, session_id=session_id, provider=provider, model=model, transport=transport, tools=tools,
            metadata=metadata,
        )  # fmt: skip


class Here:
    """The hub of this process and one caller of it. Enter it with `async with`; started for that if none runs."""

    def __init__(self, key: str | None = None, *, door: str = "python") -> None:
        self._key = key
        self._door = door
        self._is_own = False
        self.hub: runtime.Hub

    async def __aenter__(self) -> Here:
        if _serving() is None:
            await asyncio.to_thread(_prepare)
            self._is_own = True
        from mcphub import runtime

        self.hub = await runtime.ensure()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._is_own:
            from mcphub import runtime

            await runtime.stop()

    async def ask(self, content: str, **options: Any) -> Answer:
        """Answer one question; options and errors are those of `aask`, but for the key."""
        from mcphub.chat.answering import Answer

        async with contextlib.aclosing(self.events(content, **options)) as events:
            async for event in events:
                if isinstance(event, Answer):
                    return event
        raise AssertionError("a turn ends with its answer")

    async def events(
        self, content: str, *, stream: bool = False, tools: Sequence[str] | None = None, **options: Any
    ) -> AsyncGenerator[Event | Answer, None]:
        """Give what happens on the way to the answer, and last the answer."""
        from mcphub.chat import allowance, questions, service
        from mcphub.chat.answering import Answering
        from mcphub.chat.errors import ChatError
        from sessions_app.protocol.errors import HubError

        wanted = {"content": content, "stream": stream, **options}
        if tools is not None:
            wanted["tools"] = list(tools)
        question = questions.read_question({name: value for name, value in wanted.items() if value is not None})
        try:
            caller = self.caller()
            caller.need("chat")
            if caller.key_id is not None:
                allowance.check(await allowance.draw(self.hub.ledger, caller, ""))
            chat = await service.of(self.hub)
            origin = await service.origin(self.hub, caller, client_name=f"mcphub {self._door}")
        except HubError as error:
            raise ChatError.of(error) from error
        run = Answering(chat, origin, question, door=self._door, metadata={})
        async with contextlib.aclosing(run.events()) as events:
            async for event in events:
                yield event

    async def open_session(
        self, *, provider_preference: str = "", max_messages: int = 20, context: dict[str, Any] | None = None
    ) -> str:
        """Begin a conversation; give its id."""
        from mcphub.chat import questions, service

        chat = await service.of(self.hub)
        wanted = {"provider_preference": provider_preference or None, "max_messages": max_messages, "context": context}
        opening = questions.read_opening(wanted, chat.providers().providers)
        session = await chat.talks.open(
            self.caller(), preference=opening.provider_preference, max_messages=opening.max_messages,
            context=opening.context,
        )  # fmt: skip
        return str(session.pk)

    def caller(self) -> Caller:
        """Give who asks; raise Unauthenticated. Asked anew each time: a key may be revoked."""
        from django.conf import settings

        from sessions_app.caller import local_caller

        key = self._key or settings.MCPHUB_API_KEY
        return self.hub.keys().caller(f"Bearer {key}") if key else local_caller()


def _serving() -> runtime.Hub | None:
    """Give the hub of this process, where one runs."""
    from django.apps import apps

    if not apps.ready:
        return None
    from mcphub import runtime

    return runtime.current()


def _prepare() -> None:
    """Load the applications, and bring the tables up to date."""
    import django
    from django.apps import apps

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    if not apps.ready:
        django.setup()
    from django.db import connections

    from mcphub import first_run

    try:
        first_run.prepare(credentials=False)
    finally:
        connections.close_all()
