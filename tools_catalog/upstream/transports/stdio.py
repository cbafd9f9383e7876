"""A child process as the way to an upstream: one JSON-RPC message a line, both ways, all of it bounded."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import signal
from collections import deque
from typing import Final

from sessions_app.protocol import errors, lines
from tools_catalog.backends.http.template import Secrets
from tools_catalog.upstream import children
from tools_catalog.upstream.confinement import hints, plan
from tools_catalog.upstream.confinement.folders import ChildFolders
from tools_catalog.upstream.limits import TOO_MANY
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.transports.base import MessageHandler
from tools_catalog.upstream.transports.shared import SharedStream

logger = logging.getLogger(__name__)

_CHUNK: Final = 64 * 1024
_LAST_WORDS_BYTES: Final = 8 * 1024
"""Size of a child's stderr that is kept: the end, which explains its death."""
_TALKATIVE_BYTES: Final = 256 * 1024
_PAUSE_SECONDS: Final = 0.001
"""After each read from a child that has written so much to stderr: its pipe fills meanwhile, and few reads of much
take less time than many of little. It may still write tens of megabytes a second."""
_GARBAGE_LINES: Final = 100
"""Lines in a row that are no message before the child is taken for no MCP server. Some print a greeting."""
_WAITING_BYTES: Final = 1024 * 1024
"""Unread output to the child above which cancellations are no longer queued."""
_SHOWN_BYTES: Final = 200
"""Of a line that is no message, which is kept with what the child wrote to stderr."""
_LAST_WORDS_SECONDS: Final = 0.5
"""How long stderr output before the end of stdout is awaited, and then the end of the process."""


class LastWords:
    """The end of a child's stderr."""

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


class Stdio(SharedStream):
    """One child. `close` stops it, and all that it started."""

    def __init__(self, spec: ConnectionSpec, secret: Secrets, handler: MessageHandler, last_words: LastWords) -> None:
        super().__init__(handler, spec.max_notifications)
        self._spec = spec
        self._secret = secret
        self._last_words = last_words
        self._process: asyncio.subprocess.Process | None = None
        self._folders: ChildFolders | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._is_unfit = False
        """The child broke a bound, so it is killed at once: it may not heed anything else."""

    async def open(self) -> None:
        """Start the command. One that is not there is a child that ends with status 127."""
        try:
            self._process = await self._started()
        except OSError as error:
            raise errors.ConnectionFailed(f"The command cannot be started: {error.strerror}.") from error
        logger.info("The upstream %s runs as process %d", self._spec.slug, self._process.pid)
        name, nobodys = f"mcphub-upstream-{self._spec.slug}", contextvars.Context
        self._readers = [
            asyncio.create_task(self._read(self._process), name=f"{name}-stdout", context=nobodys()),
            asyncio.create_task(self._overhear(self._process), name=f"{name}-stderr", context=nobodys()),
        ]

    async def send(self, message: bytes) -> None:
        stdin = self._stdin()
        stdin.write(message + b"\n")
        if stdin.transport.get_write_buffer_size():
            try:
                await stdin.drain()
            except OSError as error:
                raise errors.TransportError("The connection broke within the call.") from error

    def send_soon(self, message: bytes) -> None:
        """Whoever gives a call up is not held by a child that hangs."""
        with contextlib.suppress(errors.TransportError):
            stdin = self._stdin()
            if stdin.transport.get_write_buffer_size() <= _WAITING_BYTES:
                stdin.write(message + b"\n")

    def abort(self) -> None:
        self.end("The connection ended.")

    async def close(self) -> None:
        self.abort()
        if self._process is not None:
            await self._stop(self._process)
        if self._folders is not None:
            await asyncio.to_thread(self._folders.remove)

    def _stdin(self) -> asyncio.StreamWriter:
        stdin = self._process.stdin if self._process is not None else None
        if stdin is None or stdin.is_closing():
            raise errors.TransportError("The connection broke within the call. The upstream takes no messages.")
        return stdin

    async def _started(self) -> asyncio.subprocess.Process:
        profile = self._spec.launch
        assert profile is not None
        start = await asyncio.to_thread(plan.start_of, profile, profile.rendered_environment(self._secret))
        self._folders = start.folders
        return await asyncio.create_subprocess_exec(
            *start.words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",  # the launcher enters the child's own folder, and says where it cannot
            env=start.environment,
            start_new_session=True,
        )

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        await children.stop(process, at_once=self._is_unfit)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        # A grandchild that left the group may hold the pipes open; nobody waits for it.
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()
        logger.info("The upstream %s ended, process %d, status %s", self._spec.slug, process.pid, process.returncode)

    def _refuse(self, why: str) -> None:
        logger.warning("The upstream %s: %s", self._spec.slug, why)
        self._is_unfit = True
        self.end(why)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        reader = lines.LineReader(self._spec.max_response_bytes)
        garbage = 0
        while chunk := await process.stdout.read(_CHUNK):
            for line in reader.feed(chunk):
                if isinstance(line, lines.TooLong):
                    self._refuse(f"The upstream sent a message of more than {self._spec.max_response_bytes} bytes.")
                    return
                messages = await self.read(line)
                if not messages:
                    garbage += 1
                    self._last_words.add(b"(on its standard output) " + line[:_SHOWN_BYTES] + b"\n")
                    if garbage > _GARBAGE_LINES:
                        self._refuse("The upstream writes what is no MCP.")
                        return
                    continue
                garbage = 0
                if self.is_too_much(messages):
                    self._refuse(TOO_MANY)
                    return
                if self.flood.is_pausing:
                    await self.flood.pause()
                for message in messages:
                    await self.route(message)
        # What it wrote last says why; a grandchild may hold its stderr open.
        await asyncio.wait(self._readers[1:], timeout=_LAST_WORDS_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await process.wait()
        assert self._spec.launch is not None
        hint = hints.hint(str(self._last_words), self._spec.launch)
        self.end(" ".join(filter(None, [_how_ended(process.returncode), hint])))

    async def _overhear(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        heard = 0
        while chunk := await process.stderr.read(_CHUNK):
            self._last_words.add(chunk)
            heard += len(chunk)
            await asyncio.sleep(0 if heard < _TALKATIVE_BYTES else _PAUSE_SECONDS)


def _how_ended(status: int | None) -> str:
    """Return a sentence about a child whose standard output ended; None is the status of one that still runs."""
    if status is None:
        return "The upstream's program closed its standard output."
    if status >= 0:
        return f"The upstream's program ended with status {status}."
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    return f"The upstream's program was ended by {name}."
