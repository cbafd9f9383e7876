"""A hub whose requests leave through a proxy: upstreams of every era work as without, and none is reached past it.

The proxy is `proxy.py`, a program that others wrote.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.behind import everything
from tests.servers import Hub, free_port, until
from tests.upstreams import connecting
from tests.upstreams.bridging import YES, Asked
from tests.upstreams.conftest import Operator, Peer, old_python
from tests.waiting import PATIENCE_SECONDS
from tests.wire.input_requests import ALL, answer_to, calling
from tests.wire.speech import Speaker
from tests.wire.toolbox import text_of
from tools_catalog.egress.guard import PROXY

pytestmark = pytest.mark.rig

KINDS = ("modern", "legacy", "events")
PASSWORD = "se:cret"
NAMES = (*(f"{kind}.echo" for kind in KINDS), "jobs.slow_compute")


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Proxy:
    """The program; what it passed on stands in its log."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.log = folder / "proxy.log"

    def start(self, password: str = PASSWORD) -> None:
        words = [
            "--hostname",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--num-workers",
            "1",
            "--num-acceptors",
            "1",
            "--timeout",
            "120",
            "--basic-auth",
            f"hub:{password}",
        ]
        with self.log.open("a") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "proxy", *words], stdout=log, stderr=log)
        until(lambda: is_open(self.port))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    made = Proxy(tmp_path_factory.mktemp("proxy"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def hub(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {
        "MCPHUB_EGRESS_ALLOW": "127.0.0.1",
        "MCPHUB_EGRESS_PROXY": f"http://hub:se%3Acret@127.0.0.1:{proxy.port}",
    }
    with Hub(tmp_path_factory.mktemp("behind-proxy"), environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def upstreams(hub: Hub, proxy: Proxy, sdk_peers: tuple[Peer, Peer]) -> Iterator[None]:
    modern, legacy = sdk_peers
    with everything() as jobs, Peer("sdk_v1.py", "sse", python=old_python(), path="/sse") as events:
        Operator(hub).connect_all(
            {
                "modern": {"url": modern.url},
                "legacy": {"url": legacy.url},
                "events": {"url": events.url, "transport": "sse"},
                "jobs": {"url": f"http://127.0.0.1:{jobs}/mcp"},
            }
        )
        yield


@pytest.fixture
def speaker(hub: Hub, upstreams: None) -> Iterator[Speaker]:
    with Speaker(hub.url, hub.key) as made:
        until(lambda: all(name in made.modern("tools/list").text for name in NAMES))
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_comes_through(kind: str, speaker: Speaker) -> None:
    assert text_of(speaker.modern_call(f"{kind}.echo", {"text": "ünchanged"})) == "ünchanged"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_during_a_call_comes_through(kind: str, speaker: Speaker) -> None:
    session = speaker.open_session(**ALL)
    with calling(speaker, session, f"{kind}.confirm") as (_, heard):
        speaker.post(answer_to(next(heard), {"action": "accept", "content": {"sure": True}}), mcp_session_id=session)
        assert next(heard)["result"]["content"][0]["text"] == "accept True"


def test_a_task_is_followed_asked_and_cancelled(speaker: Speaker) -> None:
    client = Asked(speaker)
    ended = client.end(client.call("jobs.slow_compute", seconds=0.3, label="proxied")["taskId"])
    assert ended["result"]["content"][0]["text"] == "Computed in 0.3 s."
    made = client.call("jobs.confirm_delete", filename="proxied")
    until(lambda: client.get(made["taskId"]).get("inputRequests"))
    client.ask("tasks/update", taskId=made["taskId"], inputResponses={"confirm": YES})
    assert client.end(made["taskId"])["result"]["content"][0]["text"] == "proxied was deleted."
    made = client.call("jobs.slow_compute", seconds=60, label="cancelled")
    client.ask("tasks/cancel", taskId=made["taskId"])
    assert client.end(made["taskId"])["status"] == "cancelled"


@pytest.mark.parametrize("password", ["", "other"], ids=["no proxy", "another password"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_the_proxy_nothing_is_reached(
    kind: str, password: str, proxy: Proxy, hub: Hub, speaker: Speaker
) -> None:
    words = f"{PROXY} {'refuses the hub' if password else 'takes no connections'}"

    def refused() -> dict[str, Any] | None:
        told: dict[str, Any] = speaker.modern_call(f"{kind}.echo", {"text": "a"}).json()["result"]
        return told if words in told["content"][0]["text"] else None

    proxy.stop()
    try:
        if password:
            proxy.start(password)
            hub.operate(connecting.refresh, kind)  # else the pause after failures goes on, up to a minute
        answer = until(refused)  # until the hub tries again it may say that the stream broke
    finally:
        proxy.stop()
        proxy.start()
        hub.operate(connecting.refresh, kind)
    assert answer["isError"] is True
    assert answer["_meta"]["mcphub/error"]["errorCode"] == "connection_failed"
    until(lambda: not speaker.modern_call(f"{kind}.echo", {"text": "a"}).json()["result"].get("isError"))
