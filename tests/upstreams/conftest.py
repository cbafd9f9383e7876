"""Upstreams in processes of their own, and a hub before them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
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
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    def start(self) -> None:
        """Start, again on the same port where there was one."""
        again = [str(self.port)] if self.port else []
        self.process = subprocess.Popen(
            [*self.words, *again],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environment,
        )
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


class Operator:
    """What an operator does about connections, in a process of its own."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def connect(self, slug: str, **words: Any) -> None:
        """Add a connection and wait until its tools are known."""
        words = {"slug": slug, "policy": "trust", "transport": "streamable-http", **words}
        self.hub.shell(_CONNECT.format(words=json.dumps(words)))
        until(lambda: self.row(slug)["discovered"] or self.row(slug)["status"] == "error", 40)

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


@pytest.fixture
def running() -> Iterator[Callable[..., Peer]]:
    """Start peers that end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *words, **options: stack.enter_context(Peer(*words, **options))
