"""Calls that another process of the hub forwarded to this one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn, cast

from sessions_app.protocol import errors
from tools_catalog.call import addresses
from tools_catalog.call.base import Json
from tools_catalog.call.context import CallInfo, ToolContext, ToolContextParts
from tools_catalog.call.input_requests import InputRequest, Relayed, Url
from tools_catalog.upstream import bridge, frames
from tools_catalog.upstream.frames import Frame, FrameStream
from tools_catalog.upstream.link import Approval, Offer

Perform = Callable[[str, str, dict[str, Any], ToolContext, Offer], Awaitable[dict[str, Any]]]
"""Makes a request here: connection, method, params, context, offer."""


class NotThere(Exception):
    """The other process does not make the call, and nothing ran."""


class ReceivedCall:
    """A call that another process forwarded. Towards the upstream it implements every part of the call's context."""

    def __init__(self, stream: FrameStream, frame: Frame, perform: Perform) -> None:
        self._stream = stream
        self._frame = frame
        self._perform = perform
        given = frame["context"]
        self._context = ToolContextParts(
            call=CallInfo(**{**given["call"], "caller_scopes": frozenset(given["call"]["caller_scopes"])}),
            deadline=self,
            notifier=self,
            input=self,
            suspension=self,
            task=self,
        )
        self.resume_token: str = given["resume_token"]
        self.elicitation_seed: tuple[str, str] = tuple(given["elicitation_seed"])
        self.is_suspended = False
        self.is_possible: bool = given["may_be_task"]
        self.has_begun: bool = given["is_task"]
        self._abilities = frozenset(given["abilities"])
        self._can_resume: bool = given["can_resume"]
        self._deadline = time.monotonic() + given["remaining"]
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._asked = 0

    async def run(self) -> None:
        work = asyncio.create_task(self._work())
        listening = asyncio.create_task(self._take(work))
        try:
            await asyncio.wait({work})
            if not work.cancelled():
                work.result()
        finally:
            listening.cancel()
            work.cancel()  # this process stops
            await asyncio.gather(listening, work, return_exceptions=True)

    async def _work(self) -> None:
        frame = self._frame
        offer = Offer(frame["offer"]["kind"], frame["offer"]["name"], Approval(**frame["offer"]["approval"]))
        await self._stream.send("begun")
        try:
            result = await self._perform(frame["slug"], frame["method"], frame["params"], self._context, offer)
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

    async def _take(self, work: asyncio.Task[None]) -> None:
        try:
            while True:
                frame = await self._stream.receive()
                self._deadline = time.monotonic() + frame["remaining"]
                if frame["kind"] == "response":
                    waiting = self._waiting.pop(frame["id"], None)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(frame)
                    continue
                self.is_suspended = frame["kind"] == "keep"
                break
        except (OSError, EOFError):
            pass  # whoever called is gone, and its client with it
        work.cancel()

    # As the parts of the call's context -----------------------------------------------------------------

    def remaining_seconds(self) -> float:
        return float("inf") if self._waiting else max(0.0, self._deadline - time.monotonic())

    async def begin(self) -> None:
        """Have the process that passed the call on make a task of it: the client's task is looked after there."""
        if self.is_possible and not self.has_begun:
            self.has_begun = True
            await self._say("begin_task")

    def can_ask(self, request: InputRequest) -> bool:
        return any(probe == request and name in self._abilities for name, probe in bridge.PROBES.items())

    def resume_with(self, token: str) -> bool:
        if self._can_resume:
            self._stream.put("resume_with", name=token)  # before whatever is asked
        return self._can_resume

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        await self._say("progress", progress=progress, total=total, message=message)

    async def log(self, level: str, data: Json, logger: str | None = None) -> None:
        await self._say("log", level=level, data=data, logger=logger)

    async def ask(self, requests: Mapping[str, InputRequest]) -> dict[str, Any]:
        asked = {
            key: [request.method, request.given] for key, request in requests.items() if isinstance(request, Relayed)
        }
        return await self._put("ask", asked)

    async def require(self, wanted: Mapping[str, Url]) -> NoReturn:
        await self._put("require", {key: [each.message, each.url, each.elicitation_id] for key, each in wanted.items()})
        raise AssertionError("whoever called raises")

    def elicitation_id(self, name: str = "") -> str:
        return addresses.seal(*self.elicitation_seed, name)

    async def elicitation_complete(self, elicitation_id: str) -> None:
        await self._say("complete", id=elicitation_id)

    async def close_stream(self) -> None:
        """The stream is of the process that passed the call on."""

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
        with contextlib.suppress(OSError):  # `_take` sees the end and stops the call
            await self._stream.send(kind, **members)
