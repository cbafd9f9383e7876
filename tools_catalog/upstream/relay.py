"""Calls that one process of the hub passes on to another: the one that runs the child, or keeps the waiting call.

A socket of each process, and one connection for each call. So the end of either process is the end of the connection:
who called learns at once that the other is gone, and who runs the call that nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from sessions_app.protocol import errors
from tools_catalog.backends import addresses
from tools_catalog.backends.base import Json, ToolContext
from tools_catalog.backends.questions import Question, Relayed, Url
from tools_catalog.upstream import bridge, frames
from tools_catalog.upstream.frames import Frame, Stream
from tools_catalog.upstream.link import Approval, Offer

logger = logging.getLogger(__name__)

Perform = Callable[[str, str, dict[str, Any], ToolContext, Offer], Awaitable[dict[str, Any]]]
"""Makes a request here: connection, method, params, context, offer."""

_CONNECT_SECONDS: Final = 2.0
_FIRST_FRAME_SECONDS: Final = 10.0
_LAST_WORD_SECONDS: Final = 2.0
"""For a call that is given up: to be kept until its client has answered, or to be stopped."""
_ENDING: Final = ".sock"
_OLD_SECONDS: Final = 60
"""A younger socket may be one that its process does not listen on yet."""
_LONGEST_PATH_BYTES: Final = 100
"""What every system takes as the name of a socket."""


class NotThere(Exception):
    """The other process does not make the call, and nothing ran."""


class Relay:
    """One a process. `start` it to take calls; passing them on needs no start."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self._server: asyncio.Server | None = None
        self._path = Path()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_draining = False
        self.address = ""
        """Where other processes of this machine reach it; empty where they cannot."""

    async def start(self, folder: Path, name: str) -> None:
        """Take calls on a socket in `folder`, which only this user can enter."""
        try:
            self._path = await asyncio.to_thread(_place, folder, f"{name}{_ENDING}")
            self._server = await asyncio.start_unix_server(self._serve, str(self._path))
            self._path.chmod(0o600)
        except (OSError, NotImplementedError, AttributeError) as error:
            logger.warning("Other processes of the hub cannot pass calls on to this one: %s", error)
            return
        self.address = str(self._path)

    async def drain(self, seconds: float) -> None:
        """Take nothing new, and let what was taken end in time."""
        self._is_draining = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def stop(self) -> None:
        self._is_draining = True
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(OSError):
                self._path.unlink()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Passing a call on ---------------------------------------------------------------------------------

    async def request(
        self, address: str, slug: str, method: str, params: dict[str, Any], context: ToolContext, offer: Offer
    ) -> dict[str, Any]:
        """Have the process at `address` send the request; give its result. Raises what it raised there, NotThere
        where it does not, TransportError where it ended within the call."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                stream = Stream(*await asyncio.open_unix_connection(address))
        except (OSError, TimeoutError, NotImplementedError) as error:
            raise NotThere(str(error)) from error
        passing = _Passing(stream, context)
        try:
            return await passing.make(slug, method, params, offer)
        finally:
            stream.close()

    # Taking one ----------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        stream = Stream(reader, writer)
        self._tasks.add(task)
        try:
            async with asyncio.timeout(_FIRST_FRAME_SECONDS):
                frame = await stream.receive()
            if self._is_draining:
                await stream.send("elsewhere")
            else:
                await _Taken(stream, frame, self._perform).run()
        except (OSError, EOFError, TimeoutError):
            pass  # whoever called is gone
        except Exception:
            logger.exception("A call that another process passed on failed")
        finally:
            self._tasks.discard(task)
            stream.close()


class _Passing:
    """A call on its way to another process: whatever comes back before the result goes to the call's client."""

    def __init__(self, stream: Stream, context: ToolContext) -> None:
        self._stream = stream
        self._context = context
        self._asking: set[asyncio.Task[None]] = set()

    async def make(self, slug: str, method: str, params: dict[str, Any], offer: Offer) -> dict[str, Any]:
        has_begun = False
        try:
            await self._stream.send("request", slug=slug, method=method, params=params, offer=_words(offer),
                                    context=_told(self._context))  # fmt: skip
            while True:
                frame = await self._stream.receive()
                kind = frame["kind"]
                if kind == "begun":
                    has_begun = True
                elif kind == "elsewhere":
                    raise NotThere("It does not run it any more.")
                elif kind == "result":
                    return cast("dict[str, Any]", frame["result"])
                elif kind == "error":
                    raise frames.unpacked(frame)
                else:
                    await self._hear(kind, frame)
        except asyncio.CancelledError:
            await self._give_up()
            raise
        except (OSError, EOFError) as error:
            if not has_begun and isinstance(error, EOFError):
                raise NotThere("It ended before it began.") from error
            raise errors.TransportError(
                "The process of the hub that made the call ended before it was over. It may have taken effect."
            ) from error
        finally:
            for task in self._asking:
                task.cancel()

    async def _hear(self, kind: str, frame: Frame) -> None:
        if kind == "progress":
            await self._context.progress(frame["progress"], frame["total"], frame["message"])
        elif kind == "log":
            await self._context.log(frame["level"], frame["data"], frame["logger"])
        elif kind == "park":
            self._context.park(frame["name"])
        elif kind == "complete":
            await self._context.elicitation_complete(frame["id"])
        elif kind in ("ask", "require"):
            task = asyncio.create_task(self._ask(frame))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, frame: Frame) -> None:
        told: dict[str, Json]
        try:
            if frame["kind"] == "require":
                await self._context.require({key: Url(*words) for key, words in frame["questions"].items()})
            asked = {key: Relayed(method, params) for key, (method, params) in frame["questions"].items()}
            answers = await self._context.ask(asked)
        except errors.HubError as error:
            told = {"error": frames.packed(error)}
        except ValueError as error:
            told = {"used": str(error)}
        else:
            told = {"answers": answers}
        with contextlib.suppress(OSError):
            await self._stream.send("told", id=frame["id"], remaining=_left(self._context), **told)

    async def _give_up(self) -> None:
        """Say why nobody waits any more, and wait until a call that asks is kept: its client may be quick."""
        is_kept = self._context.is_suspended
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(_LAST_WORD_SECONDS):
                await self._stream.send("keep" if is_kept else "stop", remaining=_left(self._context))
                while is_kept and (await self._stream.receive())["kind"] != "kept":
                    pass


class _Taken:
    """A call that another process passed on. Towards the upstream it is the context of the call."""

    def __init__(self, stream: Stream, frame: Frame, perform: Perform) -> None:
        self._stream = stream
        self._frame = frame
        self._perform = perform
        told = frame["context"]
        self.invocation_id: str = told["invocation_id"]
        self.tool_name: str = told["tool_name"]
        self.caller_label: str = told["caller_label"]
        self.caller_principal: str = told["caller_principal"]
        self.caller_scopes = frozenset(told["caller_scopes"])
        self.client_capabilities: Mapping[str, Json] = told["client_capabilities"]
        self.meta: Mapping[str, Json] | None = told["meta"]
        self.log_level: str | None = told["log_level"]
        self.parked: str = told["parked"]
        self.names_addresses_by: tuple[str, str] = tuple(told["names_addresses_by"])
        self.is_suspended = False
        self.may_be_task = self.is_task = False  # whoever passed it on looks after the client's task
        self._abilities = frozenset(told["abilities"])
        self._can_park: bool = told["can_park"]
        self._deadline = time.monotonic() + told["remaining"]
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._asked = 0

    async def run(self) -> None:
        work = asyncio.create_task(self._work())
        hearing = asyncio.create_task(self._hear(work))
        try:
            await asyncio.wait({work})
            if not work.cancelled():
                work.result()
        finally:
            hearing.cancel()
            work.cancel()  # this process stops
            await asyncio.gather(hearing, work, return_exceptions=True)

    async def _work(self) -> None:
        frame = self._frame
        offer = Offer(frame["offer"]["kind"], frame["offer"]["name"], Approval(**frame["offer"]["approval"]))
        await self._stream.send("begun")
        try:
            result = await self._perform(
                frame["slug"], frame["method"], frame["params"], cast(ToolContext, self), offer
            )
            await self._stream.send("result", result=result)
        except NotThere:
            await self._stream.send("elsewhere")
        except errors.HubError as error:
            await self._stream.send("error", **frames.packed(error))
        except ValueError:
            invalid = errors.ResultInvalid("The upstream's answer cannot be written as JSON.")
            await self._stream.send("error", **frames.packed(invalid))
        except asyncio.CancelledError:
            if self.is_suspended:
                await self._stream.send("kept")
            raise

    async def _hear(self, work: asyncio.Task[None]) -> None:
        try:
            while True:
                frame = await self._stream.receive()
                self._deadline = time.monotonic() + frame["remaining"]
                if frame["kind"] == "told":
                    waiting = self._waiting.pop(frame["id"], None)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(frame)
                    continue
                self.is_suspended = frame["kind"] == "keep"
                break
        except (OSError, EOFError):
            pass  # whoever called is gone, and its client with it
        work.cancel()

    # As the context of the call -------------------------------------------------------------------------

    def remaining_seconds(self) -> float:
        return float("inf") if self._waiting else max(0.0, self._deadline - time.monotonic())

    def can_ask(self, question: Question) -> bool:
        return any(probe == question and name in self._abilities for name, probe in bridge.PROBES.items())

    def park(self, name: str) -> bool:
        if self._can_park:
            self._stream.put("park", name=name)  # before whatever is asked
        return self._can_park

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        await self._say("progress", progress=progress, total=total, message=message)

    async def log(self, level: str, data: Json, logger: str | None = None) -> None:
        await self._say("log", level=level, data=data, logger=logger)

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        asked = {key: [question.method, question.given] for key, question in questions.items()
                 if isinstance(question, Relayed)}  # fmt: skip
        return await self._put("ask", asked)

    async def require(self, addresses_to_open: Mapping[str, Url]) -> NoReturn:
        await self._put("require", {key: [each.message, each.url, each.elicitation_id]
                                    for key, each in addresses_to_open.items()})  # fmt: skip
        raise AssertionError("whoever called raises")

    def elicitation_id(self, name: str = "") -> str:
        return addresses.seal(*self.names_addresses_by, name)

    async def elicitation_complete(self, elicitation_id: str) -> None:
        await self._say("complete", id=elicitation_id)

    async def _put(self, kind: str, questions: Frame) -> dict[str, Any]:
        self._asked += 1
        number = self._asked
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._say(kind, id=number, questions=questions)
            frame = await waiting
        finally:
            self._waiting.pop(number, None)
        if "error" in frame:
            raise frames.unpacked(frame["error"])
        if "used" in frame:
            raise ValueError(frame["used"])
        return cast("dict[str, Any]", frame["answers"])

    async def _say(self, kind: str, **members: Json) -> None:
        with contextlib.suppress(OSError):  # `_hear` sees the end and stops the call
            await self._stream.send(kind, **members)


def _told(context: ToolContext) -> Frame:
    """Give what another process must know of the call."""
    parked = context.parked if context.client_capabilities else ""
    return {
        "invocation_id": context.invocation_id, "tool_name": context.tool_name,
        "caller_label": context.caller_label, "caller_principal": context.caller_principal,
        "caller_scopes": sorted(context.caller_scopes), "client_capabilities": context.client_capabilities,
        "meta": context.meta, "log_level": context.log_level, "remaining": _left(context), "parked": parked,
        "names_addresses_by": context.names_addresses_by, "abilities": sorted(bridge.abilities(context)),
        "can_park": bool(context.client_capabilities) and (bool(parked) or context.park("")),
    }  # fmt: skip


def _left(context: ToolContext) -> float:
    return min(context.remaining_seconds(), 1e9)  # JSON has no infinity


def _words(offer: Offer) -> Frame:
    approval = offer.approval
    return {
        "kind": offer.kind, "name": offer.name,
        "approval": {
            "digest": approval.digest, "schema_digest": approval.schema_digest,
            "keeps_serving": approval.keeps_serving, "trusts": approval.trusts,
        },
    }  # fmt: skip


def _place(folder: Path, name: str) -> Path:
    """Give a path for the socket, in a folder of this user's alone. What sockets of dead processes left is removed."""
    if len(os.fsencode(folder / name)) > _LONGEST_PATH_BYTES:
        folder = Path(tempfile.gettempdir()) / f"mcphub-{os.getuid()}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.lstat()
    if not folder.is_dir() or folder.is_symlink() or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not this user's own folder")
    folder.chmod(0o700)
    for path in folder.glob(f"*{_ENDING}"):
        if time.time() - path.lstat().st_mtime > _OLD_SECONDS and not _is_heard(path):
            path.unlink(missing_ok=True)
    return folder / name


def _is_heard(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True
