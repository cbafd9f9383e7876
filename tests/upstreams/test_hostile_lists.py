"""Lists of tools as a hostile upstream may give them: without an end, too large, different at each request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import until
from tests.upstreams.conftest import Operator, Peer
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker
from tests.wire.toolbox import text_of

TOOL = {"description": "Give the arguments back.", "inputSchema": {"type": "object"}}


@pytest.fixture
def connected(
    operator: Operator, running: Callable[..., Peer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., str]]:
    """Connect to an upstream in this state; give its slug."""
    made: list[str] = []

    def connect(slug: str, era: str, refresh_seconds: int = 300, policy: str = "trust", **state: Any) -> str:
        (tmp_path / "state.json").write_text(json.dumps(state))
        monkeypatch.setenv("CHAOS_STATE", str(tmp_path / "state.json"))
        made.append(slug)
        url = running("chaos.py", era).url
        words = {"refresh_seconds": refresh_seconds, "policy": policy, "connect_seconds": PATIENCE_SECONDS}
        operator.connect(slug, url=url, **words)
        return slug

    yield connect
    for slug in made:
        operator.change(slug, enabled=False)


@pytest.mark.parametrize(
    ("pages", "era"),
    [("repeats", "http"), ("repeats", "modern"), ("empty", "modern"), ("many", "http"), ("large", "modern")],
)
def test_of_a_list_without_an_end_is_served_what_came(pages: str, era: str, operator: Operator, connected: Any) -> None:
    slug = connected(f"endless-{pages}-{era}", era, policy="hold_all", pages=pages)
    row = until(lambda: (row := operator.row(slug))["status"] == "connected" and row)
    words = {"large": "has more than", "repeats": "repeat", "many": "the hub takes", "empty": "does not end"}
    assert words[pages] in row["error"]


def test_what_cannot_be_served_of_a_list_is_refused_and_the_rest_is_served(
    operator: Operator, connected: Any, speaker: Speaker
) -> None:
    names = {"fine": "fine", "bell": "be\x07ll\u202e", "wordy": "wordy"}
    tools = [{**TOOL, "name": name} for name in names.values()]
    tools[2]["description"] = "x" * 2_000_000
    slug = connected("oddities", "http", tools=tools)
    until(lambda: f"{slug}.fine" in speaker.modern("tools/list").text)
    assert json.loads(text_of(speaker.modern_call(f"{slug}.fine", {"a": 1})))["arguments"] == {"a": 1}
    listed = [tool["name"] for tool in speaker.modern("tools/list").json()["result"]["tools"]]
    assert all(name.isprintable() for name in listed)
    assert operator.row(slug)["states"]["wordy"] == "refused"


@pytest.mark.parametrize("era", ["http", "modern"])
def test_a_tool_that_changes_at_each_list_is_called_where_the_operator_trusts_it(
    era: str, operator: Operator, connected: Any, speaker: Speaker
) -> None:
    slug = connected(f"shifting-{era}", era, refresh_seconds=0, pages="shifts")
    until(lambda: f"{slug}.echo" in speaker.modern("tools/list").text)
    for number in range(5):
        told = json.loads(text_of(speaker.modern_call(f"{slug}.echo", {"n": number})))
        assert told["arguments"] == {"n": number}
    operator.change(slug, policy="hold_all")
    until(lambda: "tool_disabled" in speaker.modern_call(f"{slug}.echo", {}).text)
