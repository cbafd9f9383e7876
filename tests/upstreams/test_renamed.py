"""A connection gets another prefix while clients use its tools."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.servers import Hub, until
from tests.upstreams.conftest import Operator, Peer
from tests.wire.speech import Speaker
from tests.wire.toolbox import text_of


def test_a_call_by_the_former_name_is_made_and_recorded_under_the_present_one(
    operator: Operator, speaker: Speaker, upstream_hub: Hub, running: Callable[..., Peer]
) -> None:
    slug = "renamed"
    operator.connect(slug, url=running("sdk_v2.py", "http").url)
    until(lambda: f'"{slug}.echo"' in speaker.modern("tools/list").text)
    assert text_of(speaker.modern_call(f"{slug}.echo", {"text": "before"})) == "before"
    operator.change(slug, prefix=f"{slug}_")
    until(lambda: f'"{slug}_echo"' in speaker.modern("tools/list").text)
    names = [tool["name"] for tool in json.loads(speaker.modern("tools/list").text)["result"]["tools"]]
    assert f"{slug}.echo" not in names
    for name in (f"{slug}.echo", f"{slug}_echo"):
        assert text_of(speaker.modern_call(name, {"text": name})) == name
        row = upstream_hub.row(client=speaker.name, method="tools/call", arguments=f'$.text="{name}"')
        assert (row["tool_name"], row["status"], row["connection"]) == (f"{slug}_echo", "ok", slug)
    wrong = speaker.modern_call(f"{slug}.echo", {"text": 5})
    assert "invalid_arguments" in wrong.text
    operator.change(slug, enabled=False)
