"""A hub that is killed while it keeps results: no answer and no record names one that is not there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests import operations
from tests.features.fitting_results import operations as sizes
from tests.servers import Hub, until
from tests.wire.speech import Speaker

pytestmark = [pytest.mark.program, pytest.mark.slow]

CALLERS, BEFORE_THE_END = 4, 12


def test_what_is_named_is_there_after_a_kill(tmp_path: Path) -> None:
    environment = {"MCPHUB_APPS": "tests.features.fitting_results"}
    bundle = Path(__file__).parent / "bundle.json"
    hub = Hub(tmp_path, bundle=bundle, environment=environment)
    hub.__enter__()
    hub.operate(sizes.fit, "story", most_characters=1000)
    key = hub.operate(operations.issue_key, "killed", ["tools:list", "tools:call"])
    with Speaker(hub.url, key) as first:
        until(lambda: first.modern_call("story", {"lines": 500}).json()["result"]["content"][2:])
    with ThreadPoolExecutor(CALLERS) as threads:
        counted: list[str] = []
        work = [threads.submit(_call_until_it_ends, hub.url, key, counted) for _ in range(CALLERS)]
        until(lambda: len(counted) >= BEFORE_THE_END)
        hub.kill()
        received = [uri for each in work for uri in each.result()]
    with Hub(tmp_path, environment=environment) as again, Speaker(again.url, key) as speaker:
        until(lambda: speaker.modern("server/discover").status_code == 200)
        recorded = again.operate(operations.values, "invocations.McpToolInvocation", "result", tool_name="story")
        named = {uri for result in recorded for uri in _uris(json.dumps(result))}
        assert len(received) >= BEFORE_THE_END
        assert set(received) <= named
        for uri in named:
            assert speaker.modern("resources/read", {"uri": uri}).status_code == 200, uri


def _call_until_it_ends(url: str, key: str, counted: list[str]) -> list[str]:
    received: list[str] = []
    with Speaker(url, key) as speaker:
        while True:
            try:
                answer = speaker.modern_call("story", {"lines": 500})
            except httpx2.TransportError:
                return received
            if answer.status_code == 200:
                received.extend(_uris(answer.text))
                counted.append(answer.text)


def _uris(text: str) -> Iterator[str]:
    return (found[0] for found in re.finditer(r"mcphub://results/[\w-]{32}", text))
