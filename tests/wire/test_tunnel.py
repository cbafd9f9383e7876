"""A hub without an open port behind a reverse tunnel: its public address is the relay's, in all that clients read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.features.events import operations as events
from tests.forking import ROOT
from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS
from tests.wire.signing_in import Client, Person
from tests.wire.speech import Speaker

pytestmark = pytest.mark.program


@dataclass
class Tunnelled:
    """The hub as the world sees it."""

    hub: Hub
    url: str

    def operate(self, *words: Any, **more: Any) -> Any:
        return self.hub.operate(*words, **more)


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tunnelled]:
    hub = Hub(tmp_path_factory.mktemp("hub"), packs=["starter"])
    words = [sys.executable, "-m", "tests.tunnel", str(hub.port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT, text=True) as tunnel:
        assert tunnel.stdout is not None
        url = f"http://127.0.0.1:{tunnel.stdout.readline().strip()}"
        hub.environment["MCPHUB_PUBLIC_URL"] = url
        with hub:
            yield Tunnelled(hub, url)
        tunnel.kill()


@pytest.fixture
def speaker(reached: Tunnelled) -> Iterator[Speaker]:
    key = reached.operate(operations.issue_key, "far", ["tools:list", "tools:call"])
    with Speaker(reached.url, key) as made:
        yield made


def test_a_client_signs_in_and_calls_by_the_relays_address_alone(reached: Tunnelled) -> None:
    with httpx2.Client(base_url=reached.url, timeout=PATIENCE_SECONDS) as http:
        challenge = http.post("/mcp", json={}).headers["www-authenticate"]
        document = f"{reached.url}/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{document}"' in challenge
        found = http.get(document).json()
        assert found["resource"] == f"{reached.url}/mcp"
        assert found["authorization_servers"] == [reached.url]
    with Person(reached, "anna") as anna, Client(reached) as client:
        token = client.sign_in(anna)["access_token"]
    with Speaker(reached.url, token) as speaker:
        answer = speaker.modern_call("add", {"a": 1, "b": 2}).json()
    assert answer["result"]["content"][0]["text"] == "3"
    (row,) = reached.hub.rows(client=speaker.name)
    assert row["principal"] == anna.principal


def test_large_bodies_pass_whole_in_both_directions(speaker: Speaker) -> None:
    text = "ж" * 100_000
    assert speaker.modern_call("echo", {"text": text}).json()["result"]["content"][0]["text"] == text


def test_an_event_arrives_while_its_stream_is_open(reached: Tunnelled) -> None:
    key = reached.operate(operations.issue_key, "watching", ["tools:list", "audit:read"])
    params = {"name": "connection.changed"}
    with Speaker(reached.url, key) as speaker:
        body, headers = speaker.modern_body("events/stream", params), speaker.modern_headers("events/stream", params)
        with speaker.streaming("POST", body, **headers) as (_, stream):
            assert next(stream)["method"] == "notifications/events/active"
            reached.operate(events.note, "connection.changed", "one", {"connection": "shop"})
            assert next(stream)["params"]["data"]["subject"] == "one"


def test_the_doctor_reaches_the_hub_through_the_tunnel(reached: Tunnelled) -> None:
    assert "ok    public address" in reached.hub.command("doctor")
