"""Servers on the SDKs of several years behind a hub: each generation over each transport that it has.

Each is connected, listed, approved and called, and answers through the hub as it answers directly.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients import install
from tests.servers import free_port, until
from tests.upstreams import direct
from tests.upstreams.conftest import PEERS, Operator, generations_needed
from tests.wire.speech import Speaker

pytestmark = pytest.mark.rig

STDIO, SSE, HTTP = "stdio", "sse", "streamable-http"
PYTHON = {
    "1.2.0": (STDIO, SSE),
    "1.3.0": (STDIO, SSE),
    "1.6.0": (STDIO, SSE),
    "1.8.1": (STDIO, SSE, HTTP),
    "1.9.4": (STDIO, SSE, HTTP),
    "1.12.4": (STDIO, SSE, HTTP),
    "1.30.0": (STDIO, SSE, HTTP),
    "2.3.0": (STDIO, SSE, HTTP),
    "fastmcp-2": (STDIO, SSE, HTTP),
    "fastmcp-3": (STDIO, SSE, HTTP),
    "fastmcp": (STDIO, SSE, HTTP),
}
"""Environment of `tests.clients.install` -> the transports of its servers."""
TYPESCRIPT = {
    "sdk-1.0": (STDIO, SSE),
    "sdk-1.8": (STDIO, SSE),
    "sdk-1.12": (STDIO, SSE, HTTP),
    "sdk-1.20": (STDIO, SSE, HTTP),
    "sdk-1.32": (STDIO, SSE, HTTP),
    "server-2": (STDIO, HTTP),
}
UNPROBED = {"1.2.0", "1.3.0", "1.6.0", "1.8.1"}
"""Whose servers do not survive `server/discover`."""
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("turn", {"text": "Grüße", "times": 2}),
    ("order", {"zebra": 3}),
    ("fail", {"words": "no luck"}),
)


@dataclass(frozen=True)
class Generation:
    name: str
    transport: str

    @property
    def slug(self) -> str:
        return f"g-{self.name}-{self.transport.partition('-')[0]}".replace(".", "-")

    def command(self, *words: str) -> list[str]:
        if self.name in PYTHON:
            python = install.needed(self.name)
            library = "fastmcp" if self.name.startswith("fastmcp") else "mcp"
            return [str(python), str(PEERS / "generation.py"), library, self.transport, *words]
        folder = generations_needed()
        scripts = install.scripts(folder, install.GENERATIONS.parent)
        return [str(folder / "node_modules/.bin/node"), str(scripts / "serve.mjs"), self.name, self.transport, *words]

    @property
    def readable(self) -> list[str]:
        """What a child may read beyond its program."""
        return [str(Path(self.command()[1]).parent)] if self.name in PYTHON else [str(install.CACHE)]


ALL = [Generation(name, each) for table in (PYTHON, TYPESCRIPT) for name, ways in table.items() for each in ways]


@contextlib.contextmanager
def listening(generation: Generation, port: int = 0, *words: str) -> Iterator[str]:
    """The address of a server that runs for the test."""
    port = port or free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(generation.command(str(port), *words), **quiet)
    try:
        until(lambda: _is_open(port))
        yield f"http://127.0.0.1:{port}/{'sse' if generation.transport == SSE else 'mcp'}"
    finally:
        server.kill()
        server.wait()


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def connected(operator: Operator, generation: Generation) -> Iterator[Any]:
    """The generation's server behind the hub; gives what opens a session with it without one."""
    slug = generation.slug
    with contextlib.ExitStack() as stack:
        if generation.transport == STDIO:
            command, *words = generation.command()
            profile = {"name": slug, "command": command, "arguments": words, "readable": generation.readable}
            operator.connect(slug, transport=STDIO, profile=profile, policy="hold_all")
            direct_way = direct.over_stdio(generation.command())
        else:
            url = stack.enter_context(listening(generation))
            operator.connect(slug, transport=generation.transport, url=url, policy="hold_all")
            direct_way = direct.over_sse(url) if generation.transport == SSE else direct.over_http(url)
        stack.callback(operator.change, slug, enabled=False)
        yield direct_way


def through(speaker: Speaker, session: str, name: str, arguments: dict[str, Any]) -> direct.Message:
    """Return the result of a call through the hub, without what the hub adds."""
    return direct.without_the_hubs(speaker.call(session, name, arguments).json()["result"])


@pytest.mark.parametrize("generation", ALL, ids=lambda generation: generation.slug)
def test_a_server_of_each_generation_answers_through_the_hub_as_without_it(
    generation: Generation, operator: Operator, speaker: Speaker
) -> None:
    slug = generation.slug
    with connected(operator, generation) as way:
        row = until(lambda: (row := operator.row(slug))["discovered"] and row)  # a slow start may take a second attempt
        assert row["error"] == ""
        operator.approve(slug)
        prefix = row["prefix"]
        until(lambda: f'"{prefix}turn"' in speaker.modern("tools/list").text)
        session = speaker.open_session()
        answers = [json.dumps(through(speaker, session, prefix + name, words)) for name, words in CALLS]
        with way as alone:
            assert answers == [json.dumps(alone.call(name, words)) for name, words in CALLS]
        is_unprobed = generation.name in UNPROBED and generation.transport == STDIO
        assert bool(operator.row(slug)["unprobed"]) is is_unprobed


def test_a_server_that_stays_broken_after_the_probe_is_connected_once_somebody_restarts_it(
    operator: Operator, speaker: Speaker
) -> None:
    generation, port, slug = Generation("1.8.1", HTTP), free_port(), "g-broken"
    with listening(generation, port, "alone") as url:
        operator.connect(slug, url=url)
        assert not operator.row(slug)["discovered"]
    with listening(generation, port, "alone"):
        until(lambda: operator.row(slug)["discovered"])
        operator.approve(slug)
        name = f"{operator.row(slug)['prefix']}turn"
        until(lambda: f'"{name}"' in speaker.modern("tools/list").text)
        assert "ba" in speaker.modern_call(name, {"text": "ab"}).text
        assert operator.row(slug)["unprobed"] == "generation 1.8.1"
    operator.change(slug, enabled=False)
