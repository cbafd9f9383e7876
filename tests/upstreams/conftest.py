"""Upstreams in processes of their own, and a hub before them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import operations
from tests.clients import install
from tests.servers import ROOT, Hub, free_port, until
from tests.upstreams import connecting
from tests.wire.speech import Speaker

PEERS = Path(__file__).parent / "peers"
EVERYTHING = {"may_sample": True, "may_list_roots": True}
"""Words of a connection that may ask whatever MCP lets a server ask."""


def generations_needed() -> Path:
    """Return the folder of the TypeScript SDKs of several years, as `install.needed` does for other programs."""
    found = install.node(install.GENERATIONS, install=bool(os.environ.get("MCPHUB_TEST_CLIENTS")))
    if found is None:
        pytest.skip("Not installed. Run python -m tests.clients.install, or set MCPHUB_TEST_CLIENTS=1.")
    return found


class Peer:
    """An upstream over HTTP. Enter it: it accepts connections."""

    def __init__(
        self,
        script: str,
        *words: str,
        python: str = sys.executable,
        path: str = "/mcp",
        environment: dict[str, str] | None = None,
    ) -> None:
        self.environment = environment
        self.words = [python, str(PEERS / script), *words]
        self.path = path
        self.port = 0
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Peer:
        if self.process is None:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    def start(self) -> None:
        """Start, again on the same port where there was one."""
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Begin to start; several peers need no longer for that than one."""
        self.port = self.port or free_port()  # one that nobody else gets while the peer is away
        self.process = subprocess.Popen(
            [*self.words, str(self.port)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environment,
        )

    def await_ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == f"ready {self.port}\n", line

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None


def old_python() -> str:
    """The interpreter that has `mcp` 1.x."""
    found = install.python("1.30.0", install=False)
    if found is None:
        pytest.skip("The clients of other years are not installed: python -m tests.clients.install")
    return str(found)


def child(name: str, script: str, python: str, **profile: Any) -> dict[str, Any]:
    """The words of a connection that runs a peer as its child."""
    words = {"name": name, "command": python, "arguments": [str(PEERS / script), "stdio"], **profile}
    return {"transport": "stdio", "profile": words}


class Operator:
    """What an operator does about connections, in a process of its own."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def connect(self, slug: str, **words: Any) -> None:
        """Add a connection and wait until its tools are known."""
        self.connect_all({slug: words})

    def connect_all(self, connections: Mapping[str, Mapping[str, Any]]) -> None:
        """Add connections, which the hub makes at the same time, and wait until each worker knows the tools of all."""
        for slug, words in connections.items():
            named = {"slug": slug, "policy": "trust", "transport": "streamable-http", **words}
            self.hub.operate(connecting.connect, named)
        until(lambda: not self.hub.operate(connecting.unknown, list(connections)))
        if isinstance(self.hub, Hub):  # a rig of several machines settles its hubs itself
            self.hub.settle()

    def change(self, slug: str, **words: Any) -> None:
        assert self.hub.operate(operations.change, "tools_catalog.McpConnection", {"slug": slug}, **words) == 1

    def limit(self, prefix: str, seconds: float) -> None:
        """Return the tools with such names so much time a call."""
        tools = {"name__startswith": prefix}
        self.hub.operate(operations.change, "tools_catalog.McpToolDefinition", tools, timeout_seconds=seconds)

    def approve(self, slug: str) -> None:
        """Approve everything that the connection offers."""
        self.hub.operate(operations.approve_offers, slug)

    def row(self, slug: str) -> dict[str, Any]:
        """The connection as the admin shows it."""
        return self.hub.operate(connecting.row, slug)


@pytest.fixture(scope="package")
def upstream_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that may reach upstreams on this machine."""
    environment = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
    with Hub(tmp_path_factory.mktemp("upstreams"), environment=environment) as running:
        yield running


@pytest.fixture(scope="package")
def operator(upstream_hub: Hub) -> Operator:
    return Operator(upstream_hub)


@pytest.fixture
def speaker(upstream_hub: Hub) -> Iterator[Speaker]:
    with Speaker(upstream_hub.url, upstream_hub.key) as made:
        yield made


@pytest.fixture(scope="package")
def sdk_peers() -> Iterator[tuple[Peer, Peer]]:
    """One upstream on `mcp` 2.x and one on 1.x, for all modules: each takes seconds to import its SDK."""
    peers = Peer("sdk_v2.py", "http"), Peer("sdk_v1.py", "streamable-http", python=old_python())
    with contextlib.ExitStack() as stack:
        for peer in peers:
            stack.callback(peer.kill)
            peer.launch()
        for peer in peers:
            peer.await_ready()
        yield peers


@pytest.fixture
def running() -> Iterator[Callable[..., Peer]]:
    """Start peers that end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *words, **options: stack.enter_context(Peer(*words, **options))
