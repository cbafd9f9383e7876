"""What each process of a hub serves, read by others: HTTP by the workers, stdio by the program that a client starts."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS

HTTP = {"streamable-http", "sse", "remote"}


def processes(hub: Hub, **query: str) -> list[dict[str, Any]]:
    headers = {"authorization": f"Bearer {hub.key}"}
    answer = httpx2.get(f"{hub.url}/api/processes/", params=query, headers=headers, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def active(process: dict[str, Any]) -> set[str]:
    return {each["type"] for each in process["transports"] if each["is_active"]}


def test_the_transports_of_each_process_are_told_with_their_last_error(tmp_path: Any) -> None:
    hub = Hub(tmp_path)
    hub.__enter__()  # it is not left as others are
    [serving] = processes(hub, status="running")
    assert (serving["pid"], active(serving)) == (hub.pid, HTTP)
    told = {each["type"]: each["configuration"] for each in serving["transports"]}
    assert (told["streamable-http"]["path"], told["sse"]["messages_path"]) == ("/mcp", "/messages")
    assert told["remote"]["max_clients"] == 10

    httpx2.post(f"{hub.url}/mcp", json={}, timeout=PATIENCE_SECONDS)  # without a key
    words = until(lambda: _last_error(hub, "streamable-http"))
    assert words.startswith("unauthorized: ")
    assert _last_error(hub, "sse") == ""

    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    hub.command("stdio", stdin=line + "\n{not json\n")
    [piped] = [each for each in processes(hub, status="stopped") if each["pid"] != hub.pid]
    [stdio] = piped["transports"]
    assert (stdio["type"], stdio["is_active"]) == ("stdio", False)
    assert stdio["last_error"].startswith("parse_error: ")
    hub.kill()
    with Hub(tmp_path) as again:
        again.key = hub.key
        [dead] = processes(again, status="error")
        assert (dead["process_id"], active(dead)) == (serving["process_id"], set())
        assert dead["transports"][0]["last_error"] == "The process ended without a word."


def _last_error(hub: Hub, transport: str) -> str:
    [serving] = processes(hub, status="running")
    return str(next(each["last_error"] for each in serving["transports"] if each["type"] == transport))


@pytest.mark.rig
def test_each_worker_says_what_it_serves_and_any_tells_of_both(pair: Hub) -> None:
    running = processes(pair, status="running")
    assert [active(each) for each in running] == [HTTP, HTTP]
