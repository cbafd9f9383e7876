"""Forwards calls to another process of the hub: the one that runs the child, or that keeps the suspended call.

Each process listens on a Unix socket, and on a port for other machines where the deployment names one. Each call is one
connection. So the end of either process ends the connection: the
calling process learns at once that the other is gone, and the running one that nobody waits for the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import Any, Final, cast

from sessions_app.protocol import errors
from tools_catalog.call.base import Json
from tools_catalog.call.context import CallInfo, ToolContext
from tools_catalog.call.input_requests import Relayed, Url
from tools_catalog.upstream import bridge, frames, peers
from tools_catalog.upstream.frames import Frame, FrameStream
from tools_catalog.upstream.link import Offer
from tools_catalog.upstream.peers import PeerPort
from tools_catalog.upstream.received_calls import NotThere, Perform, ReceivedCall

logger = logging.getLogger(__name__)

_CONNECT_SECONDS: Final = 2.0
_FIRST_FRAME_SECONDS: Final = 10.0
_LAST_WORD_SECONDS: Final = 2.0
"""For a call that is given up: to be kept until its client has answered, or to be stopped."""
_ENDING: Final = ".sock"
_OLD_SECONDS: Final = 60
"""A younger socket may be one that its process does not listen on yet."""
_LONGEST_PATH_BYTES: Final = 100
"""The maximum length of a socket's name on every system."""
_CALL_INFO: Final = tuple(field.name for field in dataclasses.fields(CallInfo))


class Relay:
    """One a process. `start` it to receive calls; forwarding them needs no start."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self._server: asyncio.Server | None = None
        self._port: asyncio.Server | None = None
        self._secret = ""
        self._path = Path()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_draining = False
        self.address = ""
        """Where other processes of this machine reach it; empty where they cannot."""
        self.peer_address = ""
        """Where processes of other machines reach it; empty where they cannot."""

    async def start(self, folder: Path, name: str, secret: str = "") -> None:
        """Take calls on a socket in `folder`, which only this user can enter. `secret` lets into other machines."""
        self._secret = secret
        try:
            self._path = await asyncio.to_thread(_place, folder, f"{name}{_ENDING}")
            self._server = await asyncio.start_unix_server(self._serve, str(self._path))
            self._path.chmod(0o600)
        except (OSError, NotImplementedError, AttributeError) as error:
            logger.warning("Other processes of the hub cannot pass calls on to this one: %s", error)
            return
        self.address = str(self._path)

    async def open_port(self, port: PeerPort) -> None:
        """Take calls of other machines, too. Raises OSError where the port cannot be had."""
        self._port = await asyncio.start_server(
            self._serve,
            port.host,
            port.port,
            ssl=peers.listening(port.secret),
            ssl_handshake_timeout=_CONNECT_SECONDS,
            ssl_shutdown_timeout=_CONNECT_SECONDS,
        )
        self.peer_address = port.address

    async def drain(self, seconds: float) -> None:
        """Accept nothing new, and let accepted calls end in time."""
        self._is_draining = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def stop(self) -> None:
        self._is_draining = True
        if self._port is not None:
            self._port.close()
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(OSError):
                self._path.unlink()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Passing a call on ---------------------------------------------------------------------------------

    async def request(
        self, address: str, slug: str, method: str, params: dict[str, Json], context: ToolContext, offer: Offer
    ) -> dict[str, Json]:
        """Have the process at `address` send the request; give its result. Raises the same errors as there, NotThere
        if it is absent, TransportError if it ended within the call.
        """
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                stream = FrameStream(*await self._connected(address))
        except (OSError, TimeoutError, NotImplementedError) as error:
            raise NotThere(str(error)) from error
        forwarded = _ForwardedCall(stream, context)
        try:
            return await forwarded.make(slug, method, params, offer)
        finally:
            stream.close()

    async def _connected(self, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not address.startswith(peers.SCHEME):
            return await asyncio.open_unix_connection(address)
        host, port = peers.parted(address)
        return await asyncio.open_connection(host, port, ssl=peers.calling(self._secret), server_hostname=host)

    # Taking one ----------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        stream = FrameStream(reader, writer)
        self._tasks.add(task)
        try:
            async with asyncio.timeout(_FIRST_FRAME_SECONDS):
                frame = await stream.receive()
            if self._is_draining:
                await stream.send("elsewhere")
            else:
                await ReceivedCall(stream, frame, self._perform).run()
        except (OSError, EOFError, TimeoutError):
            pass  # whoever called is gone
        except Exception:
            logger.exception("A call that another process passed on failed")
        finally:
            self._tasks.discard(task)
            stream.close()


class _ForwardedCall:
    """A call forwarded to another process: notifications that come back before the result go to the call's client."""

    def __init__(self, stream: FrameStream, context: ToolContext) -> None:
        self._stream = stream
        self._context = context
        self._asking: set[asyncio.Task[None]] = set()

    async def make(self, slug: str, method: str, params: dict[str, Json], offer: Offer) -> dict[str, Json]:
        has_begun = False
        try:
            await self._stream.send(
                "request",
                slug=slug,
                method=method,
                params=params,
                offer=_words(offer),
                context=_described(self._context),
            )
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
                    await self._take(kind, frame)
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

    async def _take(self, kind: str, frame: Frame) -> None:
        if kind == "progress":
            await self._context.notifier.progress(frame["progress"], frame["total"], frame["message"])
        elif kind == "log":
            await self._context.notifier.log(frame["level"], frame["data"], frame["logger"])
        elif kind == "resume_with":
            self._context.suspension.resume_with(frame["name"])
        elif kind == "complete":
            await self._context.notifier.elicitation_complete(frame["id"])
        elif kind == "begin_task":
            await self._context.task.begin()
        elif kind in ("ask", "require"):
            task = asyncio.create_task(self._ask(frame))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, frame: Frame) -> None:
        given: dict[str, Json]
        try:
            if frame["kind"] == "require":
                await self._context.input.require({key: Url(*words) for key, words in frame["questions"].items()})
            asked = {key: Relayed(method, params) for key, (method, params) in frame["questions"].items()}
            answers = await self._context.input.ask(asked)
        except errors.HubError as error:
            given = {"error": frames.packed(error)}
        except ValueError as error:
            given = {"used": str(error)}
        else:
            given = {"answers": answers}
        with contextlib.suppress(OSError):
            await self._stream.send("response", id=frame["id"], remaining=_left(self._context), **given)

    async def _give_up(self) -> None:
        """Send the reason why nobody waits any more, and wait until a call that asks is kept: its client may be
        quick.
        """
        is_kept = self._context.suspension.is_suspended
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(_LAST_WORD_SECONDS):
                await self._stream.send("keep" if is_kept else "stop", remaining=_left(self._context))
                while is_kept and (await self._stream.receive())["kind"] != "kept":
                    pass


def _described(context: ToolContext) -> Frame:
    """Return the facts about the call for another process."""
    call, suspension = context.call, context.suspension
    token = suspension.resume_token if call.client_capabilities else ""
    return {
        "call": {**{name: getattr(call, name) for name in _CALL_INFO}, "caller_scopes": sorted(call.caller_scopes)},
        "remaining": _left(context),
        "resume_token": token,
        "may_be_task": context.task.is_possible,
        "is_task": context.task.has_begun,
        "elicitation_seed": context.input.elicitation_seed,
        "abilities": sorted(bridge.abilities(context)),
        "can_resume": bool(call.client_capabilities) and (bool(token) or suspension.resume_with("")),
    }


def _left(context: ToolContext) -> float:
    return min(context.deadline.remaining_seconds(), 1e9)  # JSON has no infinity


def _words(offer: Offer) -> Frame:
    approval = offer.approval
    return {
        "kind": offer.kind,
        "name": offer.name,
        "approval": {
            "digest": approval.digest,
            "schema_digest": approval.schema_digest,
            "keeps_serving": approval.keeps_serving,
            "trusts": approval.trusts,
        },
    }


def _place(folder: Path, name: str) -> Path:
    """Return a path for the socket, in a folder of this user's alone. Sockets left by dead processes are removed."""
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
