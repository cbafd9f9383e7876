"""What a call crosses: how many functions of the product run, in how many files, on all threads of the process.

    python -m benchmarks.journeys [--list JOURNEY]

The application is driven in this process, without HTTP, after some calls that warm it up. A function or a file counts
once however often it runs; functions within functions count, comprehensions and lambdas do not. What runs by the clock
(heartbeats, sealing) is left out: only what each of several journeys crossed is counted.

- *recorded call*: `tools/call` of a stateless client, of a tool that is not read-only.
- *proxied call*: the same of a read-only tool of an upstream over Streamable HTTP, without sessions.
- *chat turn*: `/v1/chat/completions`, in which the model calls one tool and then answers.
- *admin edit*: a tool's description is changed in the admin, until a listening client has its notification.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import uvloop

from benchmarks import wire
from benchmarks.chat import _SET_UP as PROVIDER
from benchmarks.environments import ROOT
from benchmarks.house import PACKAGES
from benchmarks.profile_call import Driver, Exchange
from benchmarks.proxied import CONNECT
from benchmarks.servers import HubPlace, peer, stop
from tests.features.chat.script import calls, say, script

_WARM = 20
_TRACED = 5
_PATIENCE_SECONDS = 60
_FOLDERS = tuple(f"{ROOT / package}{os.sep}" for package in PACKAGES)

Functions = set[tuple[str, int, str]]
"""File, line and name."""


class Tracer:
    """Notes the functions of the product that run while it is on. Install it before other threads begin."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()
        self.is_on = False

    def install(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if self.is_on and event == "call":
            self._codes.add(frame.f_code)

    async def crossed(self, journey: Callable[[], Awaitable[None]]) -> Functions:
        """Make the journey several times; give what each of them crossed."""
        found: Functions = set()
        for number in range(_TRACED):
            self._codes = set()
            self.is_on = True
            await journey()
            self.is_on = False
            ran = {
                (code.co_filename, code.co_firstlineno, code.co_name)
                for code in self._codes
                if code.co_filename.startswith(_FOLDERS) and (code.co_name[0] != "<")
            }
            found = found & ran if number else ran
        return found


class Streamed(Exchange):
    """A request whose response goes on; `grown` is set by each piece."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self.grown = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.answer += message.get("body", b"")
            self.grown.set()

    async def until(self, words: bytes) -> None:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while words not in self.answer:
                self.grown.clear()
                await self.grown.wait()


class Journeys:
    """The four journeys of one hub."""

    def __init__(self, application: Any, key: str) -> None:
        self._application = application
        self._key = key
        self._driver = Driver(application, key, "stateless")

    async def recorded(self) -> None:
        await self._driver.calls("add_recorded", 1, 1)

    async def proxied(self) -> None:
        await self._driver.calls("up_add", 1, 1)

    async def chat(self) -> None:
        body = {
            "model": "up/scripted",
            "messages": [{"role": "user", "content": script(calls(("add", {"a": 20, "b": 22})), say("42."))}],
            "x_mcp": {"tools": ["add"]},
        }
        raw = wire.post(8000, self._key, body, {}, "/v1/chat/completions")
        exchange = Exchange(raw)
        exchange.scope |= {"path": "/v1/chat/completions", "raw_path": b"/v1/chat/completions"}
        await self._application(exchange.scope, exchange.receive, exchange.send)
        if exchange.status != 200 or b"42." not in exchange.answer:
            raise SystemExit(f"Chat, status {exchange.status}: {exchange.answer!r}")

    @asynccontextmanager
    async def edits(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Return the journey of an edit, with a browser that is logged in and a client that listens."""
        from django.contrib.auth.models import User
        from django.test import Client
        from django.test.utils import setup_test_environment

        from tools_catalog.models import McpToolDefinition

        setup_test_environment()
        browser = Client(headers={"host": "127.0.0.1"})
        stream = Streamed(wire.subscribe(8000, self._key, 1))
        listening = asyncio.create_task(self._application(stream.scope, stream.receive, stream.send))
        await stream.until(b"acknowledged")

        def log_in() -> tuple[str, dict[str, Any]]:
            browser.force_login(User.objects.create_superuser("journeys"))
            row = McpToolDefinition.objects.get(name="add_0002")
            address = f"/admin/tools_catalog/mcptooldefinition/{row.pk}/change/"
            form = browser.get(address).context["adminform"].form
            values = {name: form[name].value() for name in form.fields}
            sent = {name: value for name, value in values.items() if value not in (None, False, [])}
            return address, {
                name: field if isinstance(field, str | int | float | list) else json.dumps(field)
                for name, field in sent.items()
            }

        address, form = await asyncio.to_thread(log_in)

        async def edit() -> None:
            form["description"] = f"Add two numbers. Changed at {time.monotonic_ns()}."
            stream.answer = b""
            answer = await asyncio.to_thread(browser.post, address, form)
            if answer.status_code != 302:
                raise SystemExit(
                    f"The edit was refused: {answer.context['errors'] if answer.context else answer.content!r}"
                )
            await stream.until(b"list_changed")

        try:
            yield edit
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


async def measure(key: str, tracer: Tracer) -> dict[str, Functions]:
    from mcphub.asgi import application  # sets Django up, so it comes first

    runtime = import_module("mcphub.process.runtime")
    hub = await runtime.ensure()
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while "up_add" not in hub.configuration.catalog.tools:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    journeys = Journeys(application, key)
    found = {}
    async with journeys.edits() as edit:
        for name, journey in (
            ("recorded call", journeys.recorded),
            ("proxied call", journeys.proxied),
            ("chat turn", journeys.chat),
            ("admin edit", edit),
        ):
            for _ in range(_WARM if journey is not edit else 2):
                await journey()
            found[name] = await tracer.crossed(journey)
    await runtime.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.journeys", description="Count what a call crosses.")
    parser.add_argument("--list", metavar="JOURNEY", help="print the functions of a journey, such as 'chat turn'")
    options = parser.parse_args()
    tracer = Tracer()
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-journeys-")))
        provider = subprocess.Popen(
            [sys.executable, "-m", "tests.features.chat.provider"], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        running.callback(stop, provider)
        assert provider.stdout is not None
        url = provider.stdout.readline().split()[1]
        upstream = running.enter_context(peer("upstream", Path(sys.executable), "sdk.py", folder))
        place = HubPlace(Path(sys.executable), folder / "data")
        place.settings = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1", "MCPHUB_LIMITS": "chat_burst=0, seal_seconds=0"}
        place.furnish()
        place.command("shell", "-c", CONNECT.format(url=f"http://127.0.0.1:{upstream.port}/mcp"))
        place.command("shell", "-c", PROVIDER.format(url=url))
        scopes = [word for scope in ("tools:list", "tools:call", "chat") for word in ("--scope", scope)]
        key = place.command("token", "create", "journeys", *scopes).split()[-1]
        for name in [name for name in os.environ if name.startswith("MCPHUB_")]:
            del os.environ[name]
        os.environ.update(place.variables())
        os.environ["DJANGO_SETTINGS_MODULE"] = "mcphub.settings"
        tracer.install()
        found = uvloop.run(measure(key, tracer))
        sys.setprofile(None)
    for name, functions in found.items():
        print(f"{name:<16} {len(functions):>4} functions in {len({file for file, _, _ in functions}):>3} files")
    if options.list:
        for file, line, name in sorted(found[options.list]):
            print(f"  {Path(file).relative_to(ROOT)}:{line} {name}")


if __name__ == "__main__":
    main()
