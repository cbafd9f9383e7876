"""A child process as the transport of an MCP client: one JSON-RPC message a line, both ways, all of it bounded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, jsonrpc_message_adapter

from tools_catalog.upstream import children
from tools_catalog.upstream.limits import Flood
from tools_catalog.upstream.spec import ConnectionSpec, Secrets

logger = logging.getLogger(__name__)

_CHUNK = 64 * 1024
_LAST_WORDS_BYTES = 8 * 1024
"""How much of a child's stderr is kept: the end, which says why it died."""
_TALKATIVE_BYTES = 256 * 1024
_PAUSE_SECONDS = 0.001
"""After each read from a child that has written so much to stderr: its pipe fills meanwhile, and few reads of much
take less time than many of little. It may still write tens of megabytes a second."""
_GARBAGE_LINES = 100
"""Lines in a row that are no message before the child is taken for no MCP server. Some print a greeting."""
_WAITING_BYTES = 1024 * 1024
"""Unread output to the child above which cancellations are no longer queued."""
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")


class LastWords:
    """The end of what a child wrote to stderr."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk[-_LAST_WORDS_BYTES:])
        self._size += len(self._chunks[-1])
        while self._size - len(self._chunks[0]) >= _LAST_WORDS_BYTES:
            self._size -= len(self._chunks.popleft())

    def __str__(self) -> str:
        return b"".join(self._chunks)[-_LAST_WORDS_BYTES:].decode("utf-8", "replace").strip()


class ToChild:
    """The SDK's write stream: lines into the child's input.

    Waits while the child does not read; a notification then is dropped instead, so that whoever gives a call up
    is not held by a child that hangs.
    """

    def __init__(self, process: asyncio.subprocess.Process, flood: Flood) -> None:
        assert process.stdin is not None
        self._stdin = process.stdin
        self._flood = flood

    async def send(self, item: SessionMessage) -> None:
        is_word = isinstance(item.message, JSONRPCNotification)
        if is_word and self._stdin.transport.get_write_buffer_size() > _WAITING_BYTES:
            return
        if self._stdin.is_closing():
            raise anyio.BrokenResourceError
        self._flood.sent(item.message)
        self._stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        if not is_word:
            try:
                await self._stdin.drain()
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        self._stdin.close()

    async def __aenter__(self) -> ToChild:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@asynccontextmanager
async def child(
    spec: ConnectionSpec, secret: Secrets, last_words: LastWords, lost: Callable[[str], None]
) -> AsyncIterator[tuple[Any, ToChild]]:
    """Start the connection's command and give the SDK's pair of streams; stop it, and all it started, after.

    `lost` is told why a child is not listened to any more; it is then killed at once, as it may not heed anything else.
    Raises OSError where the hub cannot start processes; a command that is not there ends with status 127.
    """
    launch = spec.launch
    assert launch is not None
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment |= launch.rendered_environment(secret)
    environment[children.MARK] = children.own_mark()
    limits = {
        "memory_mb": launch.memory_mb,
        "cpu_seconds": launch.cpu_seconds,
        "open_files": launch.open_files,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py")), json.dumps(limits), launch.command,
        *launch.arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, cwd=launch.directory or None, env=environment, start_new_session=True,
    )  # fmt: skip
    logger.info("The upstream %s runs as process %d: %s", spec.slug, process.pid, launch.command)
    into, out_of = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    unfit = asyncio.Event()
    flood = Flood(spec.max_notifications)

    def refuse(why: str) -> None:
        logger.warning("The upstream %s: %s", spec.slug, why)
        unfit.set()
        lost(why)

    readers = [
        asyncio.create_task(_read(process, into, spec, flood, refuse), name=f"mcphub-upstream-{spec.slug}-stdout"),
        asyncio.create_task(_overhear(process, last_words), name=f"mcphub-upstream-{spec.slug}-stderr"),
    ]
    try:
        yield out_of, ToChild(process, flood)
    finally:
        # To the end, also when this task is cancelled: a child must not outlive its connection.
        ending = asyncio.ensure_future(_end(process, readers, at_once=unfit.is_set()))
        while not ending.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(ending)
        out_of.close()
        logger.info("The upstream %s ended, process %d, status %s", spec.slug, process.pid, process.returncode)


async def _end(process: asyncio.subprocess.Process, readers: list[asyncio.Task[None]], *, at_once: bool) -> None:
    await children.stop(process, at_once=at_once)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    # A grandchild that left the group may hold the pipes open; nobody waits for it.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _read(
    process: asyncio.subprocess.Process,
    into: Any,
    spec: ConnectionSpec,
    flood: Flood,
    refuse: Callable[[str], None],
) -> None:
    assert process.stdout is not None
    line = bytearray()
    garbage = 0
    too_large = f"The upstream sent a message of more than {spec.max_response_bytes} bytes."
    async with into:
        while chunk := await process.stdout.read(_CHUNK):
            *whole, rest = chunk.split(b"\n")
            for part in whole:
                line += part
                text, line = bytes(line), bytearray()
                if len(text) > spec.max_response_bytes:
                    refuse(too_large)
                    return
                if not text.strip():
                    continue
                try:
                    message = jsonrpc_message_adapter.validate_json(text, by_name=False)
                except ValueError:
                    garbage += 1
                    if garbage > _GARBAGE_LINES:
                        refuse("The upstream writes what is no MCP.")
                        return
                    continue
                garbage = 0
                if flood.is_over_with(message):
                    refuse("The upstream sends too many notifications.")
                    return
                await flood.pause()
                await into.send(SessionMessage(message))
            line += rest
            if len(line) > spec.max_response_bytes:
                refuse(too_large)
                return


async def _overhear(process: asyncio.subprocess.Process, last_words: LastWords) -> None:
    assert process.stderr is not None
    heard = 0
    while chunk := await process.stderr.read(_CHUNK):
        last_words.add(chunk)
        heard += len(chunk)
        await asyncio.sleep(0 if heard < _TALKATIVE_BYTES else _PAUSE_SECONDS)
