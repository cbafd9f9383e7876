"""Upstreams in processes of their own, and a hub before them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clients import install
from tests.servers import ROOT, Hub, until
from tests.wire.speech import Speaker

PEERS = Path(__file__).parent / "peers"


class Peer:
    """An upstream over HTTP. Enter it: it accepts connections."""

    def __init__(
        self, script: str, *words: str, python: str = sys.executable, path: str = "/mcp",
        environment: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
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
        again = [str(self.port)] if self.port else []
        self.process = subprocess.Popen(
            [*self.words, *again],
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
        assert line.startswith("ready "), line
        self.port = int(line.split()[1])

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


_CONNECT = """
import json
from tools_catalog.models import LaunchProfile, McpConnection
words = json.loads({words!r})
profile = words.pop("profile", None)
if profile is not None:
    row = LaunchProfile(**profile)
    row.full_clean()
    row.save()
    words["profile"] = row
row = McpConnection(**words)
row.full_clean()
row.save()
"""

_UNKNOWN = """
from tools_catalog.models import McpConnection
rows = McpConnection.objects.filter(slug__in={slugs!r}, discovered_at=None)
print(sum(row.status != "error" for row in rows))
"""


class Operator:
    """What an operator does about connections, in a process of its own."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def connect(self, slug: str, **words: Any) -> None:
        """Add a connection and wait until its tools are known."""
        self.connect_all({slug: words})

    def connect_all(self, connections: Mapping[str, Mapping[str, Any]]) -> None:
        """Add connections, which the hub makes at the same time, and wait until the tools of all are known."""
        for slug, words in connections.items():
            named = {"slug": slug, "policy": "trust", "transport": "streamable-http", **words}
            self.hub.shell(_CONNECT.format(words=json.dumps(named)))
        until(lambda: not int(self.hub.shell(_UNKNOWN.format(slugs=list(connections)))), 120)

    def change(self, slug: str, **words: Any) -> None:
        self.hub.shell(
            "from tools_catalog.models import McpConnection\n"
            f"row = McpConnection.objects.get(slug={slug!r})\n"
            f"for name, value in {words!r}.items(): setattr(row, name, value)\n"
            "row.full_clean(); row.save()"
        )

    def row(self, slug: str) -> dict[str, Any]:
        """The connection as the admin shows it."""
        found: dict[str, Any] = json.loads(
            self.hub.shell(
                "import json\nfrom tools_catalog.models import McpConnection\n"
                f"row = McpConnection.objects.get(slug={slug!r})\n"
                "link = row.links.first()\n"
                "print(json.dumps({'status': row.status, 'discovered': row.discovered_at is not None,\n"
                "  'links': row.links.count(), 'error': link.error_message if link else '',\n"
                "  'version': link.protocol_version if link else '', 'restarts': link.restarts if link else 0,\n"
                "  'stderr': link.stderr if link else '',\n"
                "  'states': {tool.upstream_name: tool.state for tool in row.tools.all()}}))"
            )
        )
        return found


@pytest.fixture(scope="session")
def upstream_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that may reach upstreams on this machine."""
    environment = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
    with Hub(tmp_path_factory.mktemp("upstreams"), environment=environment) as running:
        yield running


@pytest.fixture(scope="session")
def operator(upstream_hub: Hub) -> Operator:
    return Operator(upstream_hub)


@pytest.fixture
def speaker(upstream_hub: Hub) -> Iterator[Speaker]:
    with Speaker(upstream_hub.url, upstream_hub.key) as made:
        yield made


@pytest.fixture(scope="session")
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
