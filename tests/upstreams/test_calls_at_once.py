"""How many calls an upstream has at once."""

from __future__ import annotations

from pathlib import Path

from tests import operations
from tests.servers import Hub, until
from tests.upstreams.conftest import Operator
from tests.wire.conftest import TOOLBOX
from tests.wire.speech import Speaker
from tests.wire.toolbox import Apart, Box, text_of

LINK = "tools_catalog.McpConnectionLink"


def test_a_call_beyond_the_bound_waits_for_the_one_before(operator: Operator, speaker: Speaker, tmp_path: Path) -> None:
    far = Hub(tmp_path, flags=["--allow-anonymous"], environment={"MCPHUB_APPS": "tests.toolbox"}, **TOOLBOX)
    with far:
        box = Box(far)
        operator.connect("narrow", url=f"{far.url}/mcp", max_concurrent=1)
        until(lambda: "narrow.hold" in speaker.modern("tools/list").text)
        first = Apart(lambda: speaker.modern_call("narrow.hold", {"name": box.name}))
        until(lambda: box.has("began"))
        with Speaker(speaker.url, speaker.key) as other:
            second = Apart(lambda: other.modern_call("narrow.count", {"name": box.name}))
            until(lambda: operator.hub.operate(operations.values, LINK, "calls", connection__slug="narrow") == [2])
            assert not box.has("counted")
            box.release()
            assert text_of(first.answer()) == f"{box.name} was released"
            assert text_of(second.answer()) == "call number 1"
        operator.change("narrow", enabled=False)
