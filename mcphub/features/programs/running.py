"""Starts the child of one program, answers its questions, and ends the child in every case."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from mcphub.features.programs import child
from mcphub.features.programs.outcome import (
    LineRejected,
    ProgramAnswer,
    ProgramFailed,
    ProgramFailure,
    ProgramMessage,
    ProgramPrinted,
    ProgramQuestion,
    ProgramReturned,
    said,
)
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.upstream import children
from tools_catalog.upstream.confinement import launcher, machine, paths, seccomp

logger = logging.getLogger(__name__)

ENGINE = "_quickjs"
_BASE_BYTES = 256 * 2**20
"""Address space of the interpreter and the engine themselves, beside the program's memory."""
_LONGEST_COMPLAINT = 2000
_LOST = "Run it again; the hub's log has the reason."


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """Bounds of one program."""

    seconds: float = 60.0
    """From its start to its end, with all calls."""
    processor_seconds: int = 5
    memory_bytes: int = 64 * 2**20
    output_characters: int = 50_000
    """Of its prints and its returned value together."""
    line_bytes: int = 1 * 2**20
    """Of one message, such as the arguments of a call."""
    answer_bytes: int = 4 * 2**20
    calls: int = 100
    questions: int = 1000
    """Calls, searches and descriptions together."""
    calls_at_once: int = 8


@dataclass(slots=True)
class ProgramOutput:
    """The printed text of a program and, at its end, its returned value: JSON, or None for nothing."""

    printed: list[str] = field(default_factory=list)
    value: str | None = None
    characters: int = 0
    calls: int = 0
    failed_calls: int = 0

    @property
    def text(self) -> str:
        return "".join(self.printed)


def within(limits: ProgramLimits, seconds: float) -> ProgramLimits:
    """Return the limits with no more time than there is."""
    return replace(limits, seconds=max(0.0, min(limits.seconds, seconds)))


ProgramAsks = Callable[[ProgramQuestion], Awaitable[ProgramAnswer]]


class ProgramUnavailable(Exception):
    """Programs cannot run here. The text has the next step."""


def engine_folder(engine: str = ENGINE) -> str:
    """Return the folder that holds an engine. Raises ProgramUnavailable where it is not installed."""
    found = importlib.util.find_spec(engine)
    if found is None or not found.origin:
        raise ProgramUnavailable(
            "Programs need a JavaScript engine, which is not installed. The hub's operator installs quickjs-ng "
            "(the extra `code` of the hub's wheel), and starts the hub again."
        )
    return os.path.dirname(found.origin)


def command(limits: ProgramLimits) -> tuple[str, ...]:
    """Return the command line of a child. Raises ProgramUnavailable. Blocks for an instant."""
    engine = engine_folder()
    here = machine.this_machine()
    if not here.can_confine or not here.filters_calls:
        raise ProgramUnavailable(
            "This machine cannot confine programs: they need Linux 5.13 or newer with Landlock and seccomp on x86-64 "
            "or ARM64. Run the hub on such a machine, or take the tool out of the catalogue."
        )
    script, packages = str(Path(child.__file__)), str(Path(children.__file__).parents[2])
    words = (*(packages, engine, str(os.getpid())), *(str(limits.processor_seconds), str(limits.memory_bytes)))
    # For its start: it gives all of them up before it reads the program.
    read = (*paths.read_only(sys.executable, (), {}, ()), engine, packages)
    return (
        *(sys.executable, "-I", "-S", str(Path(launcher.__file__))),
        *("core=0", f"memory={_BASE_BYTES + 2 * limits.memory_bytes + limits.answer_bytes}"),
        *(f"cpu={limits.processor_seconds + 1}", "files=64", "file-size=0", "processes=64"),
        *("confined", f"sockets={seccomp.NO_NETWORK}", *(f"read={path}" for path in read), "folder=/", "--"),
        *(sys.executable, sys.executable, "-I", "-S", "-B", script, *words),
    )


async def run(program: str, given: Json, answer: ProgramAsks, limits: ProgramLimits) -> ProgramOutput:
    """Run a program to its end. Raises ProgramFailure with its output so far, or ProgramUnavailable.

    `given` is the program's `input`. The child is dead when this returns, also where its task is cancelled.
    """
    words = await asyncio.to_thread(command, limits)
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={children.MARK: children.own_mark()},
        start_new_session=True,
        limit=limits.line_bytes,
    )
    try:
        return await _Conversation(process, answer, limits).held(program, given)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(_ended(process))


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Reap the child and close its pipes."""
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()


class _Conversation:
    """The messages between the hub and one child. Nothing that the child sends is trusted."""

    def __init__(self, process: asyncio.subprocess.Process, answer: ProgramAsks, limits: ProgramLimits) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._answer = answer
        self._limits = limits
        self._output = ProgramOutput()
        self._seen = 0
        self._asking: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(limits.calls_at_once)
        self._writing = asyncio.Lock()

    async def held(self, program: str, given: Json) -> ProgramOutput:
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._send({"program": program, "input": None if given is None else json.dumps(given).decode()})
                while not await self._heard():
                    pass
                # A call that the program did not await was still made: cancelled, it might be half done.
                await asyncio.gather(*self._asking)
        except TimeoutError:
            raise self._failure(
                ProgramFailed.TIMEOUT, f"It ran longer than {self._limits.seconds:g} seconds. Do less in one program."
            ) from None
        finally:
            for task in self._asking:
                task.cancel()
            await asyncio.gather(*self._asking, return_exceptions=True)
        return self._output

    async def _heard(self) -> bool:
        """Take one message; return whether it was the last."""
        try:
            line = await self._stdout.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            raise self._failure(
                ProgramFailed.OUTPUT,
                f"One message of it is larger than {self._limits.line_bytes} bytes. Print, return and send less.",
            ) from None
        except asyncio.IncompleteReadError:
            raise await self._death() from None
        try:
            message = said(line)
        except LineRejected as error:
            raise self._failure(ProgramFailed.BROKEN, f"Its process sent what it must not: {error} {_LOST}") from None
        return self._taken(message)

    def _taken(self, message: ProgramMessage) -> bool:
        if isinstance(message, ProgramQuestion):
            self._ask(message)
            return False
        if isinstance(message, ProgramPrinted):
            self._count(message.text)
            self._output.printed.append(message.text)
            return False
        if isinstance(message, ProgramReturned):
            self._count(message.value or "")
            self._output.value = message.value
            return True
        raise self._failure(message.kind, message.sentence, code=message.code)

    def _count(self, text: str) -> None:
        self._output.characters += len(text)
        if self._output.characters > self._limits.output_characters:
            raise self._failure(
                ProgramFailed.OUTPUT,
                f"It printed and returned more than {self._limits.output_characters} characters. Select and count in "
                "the program, and return only what is needed.",
            )

    def _ask(self, question: ProgramQuestion) -> None:
        self._seen += 1
        if question.is_call and self._output.calls == self._limits.calls:
            raise self._failure(
                ProgramFailed.CALLS, f"It may make {self._limits.calls} calls. Divide the work among several programs."
            )
        if self._seen > self._limits.questions:
            raise self._failure(
                ProgramFailed.CALLS, f"It asked the hub more than {self._limits.questions} times. Ask less often."
            )
        self._output.calls += question.is_call
        task = asyncio.create_task(self._answered(question), name="mcphub-program-call")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answered(self, question: ProgramQuestion) -> None:
        async with self._slots:
            try:
                answer = await self._answer(question)
            except Exception:
                logger.exception("A question of a program could not be answered")
                answer = ProgramAnswer.failure("server_error", "The hub failed to answer. Its log has the reason.")
        if question.is_call and answer.is_failure:
            self._output.failed_calls += 1
        text = json.dumps(answer.value).decode()
        if len(text) > self._limits.answer_bytes:
            answer = ProgramAnswer.failure(
                "result_too_large",
                f"The result has {len(text)} characters, more than the {self._limits.answer_bytes} that a program can "
                "take. Ask the tool for less.",
            )
            text = json.dumps(answer.value).decode()
        await self._send({"id": question.id, "text": text, "is_failure": answer.is_failure})

    async def _send(self, message: Json) -> None:
        async with self._writing:
            with contextlib.suppress(ConnectionError):  # its end is read from its output
                self._stdin.write(json.dumps(message) + b"\n")
                await self._stdin.drain()

    async def _death(self) -> Exception:
        """Return the reason for which the child ended without a last message."""
        assert self._process.stderr is not None
        complaint = (await self._process.stderr.read(_LONGEST_COMPLAINT)).decode(errors="replace").strip()
        status = await self._process.wait()
        if status == -signal.SIGXCPU:
            return self._failure(
                ProgramFailed.PROCESSOR,
                f"It computed for more than {self._limits.processor_seconds} seconds. Look for a loop without an end.",
            )
        if status in (126, 127):
            return ProgramUnavailable(complaint or "The program's process could not be started.")
        if "MemoryError" in complaint:
            return self._failure(ProgramFailed.MEMORY, "It ran out of memory. Handle fewer data at once.")
        logger.warning("The process of a program ended with status %s: %s", status, complaint)
        return self._failure(ProgramFailed.BROKEN, f"Its process ended unexpectedly (status {status}). {_LOST}")

    def _failure(self, kind: ProgramFailed, sentence: str, *, code: str = "") -> ProgramFailure:
        return ProgramFailure(kind, sentence, self._output, code)
