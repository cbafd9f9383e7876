"""`mcphub chat`: one question, or a conversation, over the hub's own data. Answers go to standard output alone."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

from mcphub.commands.stop import Stop, database_or_stop, start_django
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from mcphub.features.chat.errors import ChatError
    from mcphub.features.chat.library import LocalChat

_PROMPT = "> "


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "question",
        nargs="*",
        help="the question; without it the command reads standard input, or begins a conversation in a terminal",
    )
    parser.add_argument("--provider", metavar="NAME", help="the provider to ask (default: the hub's)")
    parser.add_argument("--model", metavar="ID", help="the model to ask, as GET /v1/models names it")
    parser.add_argument("--session", metavar="ID", help="go on with this conversation")
    parser.add_argument(
        "--tool", action="append", metavar="NAME", help="let the model call this tool; may be repeated (all of them)"
    )
    parser.add_argument("--no-tools", action="store_true", help="let the model call none")
    parser.add_argument("--json", action="store_true", help="print the whole answer as JSON")


def run(options: argparse.Namespace) -> int:
    question = " ".join(options.question).strip()
    is_talk = not question and sys.stdin.isatty()
    if not question and not is_talk:
        question = sys.stdin.read().strip()
        if not question:
            raise Stop("mcphub chat: there is nothing to ask. Write the question after the command.", status=2)
    if options.tool and options.no_tools:
        raise Stop("mcphub chat: --tool and --no-tools exclude each other.", status=2)
    os.environ.setdefault("MCPHUB_LOG_LEVEL", "WARNING")  # a person reads along
    start_django()

    import uvloop

    with database_or_stop():
        return uvloop.run(_main(options, question))


async def _main(options: argparse.Namespace, question: str) -> int:
    from mcphub.features.chat.library import LocalChat

    async with LocalChat(entry_point="command") as here:
        chat = _Chat(here, options)
        if question:
            return await chat.answer(question)
        return await chat.talk()


class _Chat:
    def __init__(self, here: LocalChat, options: argparse.Namespace) -> None:
        self._here = here
        self._options = options
        self._session: str | None = options.session

    async def talk(self) -> int:
        """Send a person's lines to the model, one by one, until the end of the input."""
        from mcphub.features.chat.errors import ChatError

        if self._session is None:
            try:
                self._session = await self._here.open_session()
            except ChatError as error:
                raise Stop(f"mcphub chat: {error}") from error
        _aside(f"Conversation {self._session}. An empty line or Ctrl-D ends it.")
        while True:
            try:
                line = await asyncio.to_thread(input, _PROMPT)
            except EOFError:
                print()
                return 0
            if not line.strip():
                return 0
            try:
                await self.answer(line)
            except Stop as stop:
                _aside(str(stop))

    async def answer(self, question: str) -> int:
        """Print the answer to one question as it comes; Ctrl-C gives it up."""
        work = asyncio.ensure_future(self._answer(question))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            _aside("Given up.")
            return 130
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        return 0

    async def _answer(self, question: str) -> None:
        from mcphub.features.chat.engine.events import ApprovalNeeded, TextDelta, ToolFinished
        from mcphub.features.chat.errors import ChatError
        from mcphub.features.chat.queries import QueryResponse

        try:
            async with contextlib.aclosing(self._here.events(question, stream=True, **self._wanted())) as events:
                async for event in events:
                    if isinstance(event, TextDelta) and not self._options.json:
                        print(event.text, end="", flush=True)
                    elif isinstance(event, ToolFinished):
                        outcome = "failed" if event.is_error else "done"
                        _aside(
                            f"[{event.name} {outcome} in {event.duration_ms} ms, {event.invocation_id or 'not made'}]"
                        )
                    elif isinstance(event, ApprovalNeeded):
                        _aside(f"[{event.name} waits for an approval: {event.approval_id}]")
                    elif isinstance(event, QueryResponse):
                        print(json.dumps(event.wire(), ensure_ascii=False) if self._options.json else "", flush=True)
        except ChatError as error:
            raise Stop(f"mcphub chat: {_explained(error)}") from error

    def _wanted(self) -> dict[str, Json]:
        options = self._options
        return {
            "session_id": self._session,
            "provider": options.provider,
            "model": options.model,
            "tools": [] if options.no_tools else options.tool,
        }


def _explained(error: ChatError) -> str:
    from django.conf import settings

    if error.code == "PROVIDER_UNAVAILABLE" and not error.should_retry:
        page = f"{settings.MCPHUB_PUBLIC_URL}/admin/chat/chatprovider/"
        return f"{error.message} `mcphub provider add` adds one; the console changes them at {page}."
    return str(error.message)


def _aside(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
