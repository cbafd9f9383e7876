"""How many calls an upstream has at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.upstreams.conftest import Operator
from tests.waiting import PATIENCE_SECONDS
from tests.wire.conftest import TOOLBOX
from tests.wire.speech import Speaker
from tests.wire.toolbox import Apart, Box, text_of

LINK = "tools_catalog.McpConnectionLink"
TOOL = "tools_catalog.McpToolDefinition"


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The upstream: another hub."""
    environment = {"MCPHUB_APPS": "tests.toolbox"}
    folder = tmp_path_factory.mktemp("far")
    with Hub(folder, flags=["--allow-anonymous"], environment=environment, **TOOLBOX) as running:
        running.operate(operations.change, TOOL, {"name": "hold"}, timeout_seconds=PATIENCE_SECONDS)
        yield running


def test_a_call_beyond_the_bound_waits_for_the_one_before(operator: Operator, speaker: Speaker, far: Hub) -> None:
    box = Box(far)
    operator.connect("narrow", url=f"{far.url}/mcp", max_concurrent=1)
    operator.limit("narrow.", PATIENCE_SECONDS)  # what is held waits for what the test looks at
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


def test_a_caller_who_holds_his_share_of_an_upstream_leaves_a_place_to_others(
    operator: Operator, speaker: Speaker, far: Hub
) -> None:
    with contextlib.ExitStack() as stack:
        box = Box(far)
        operator.connect("shared", url=f"{far.url}/mcp", max_concurrent=4)
        operator.limit("shared.", PATIENCE_SECONDS)
        until(lambda: "shared.hold" in speaker.modern("tools/list").text)
        greedy = [stack.enter_context(Speaker(speaker.url, speaker.key)) for _ in range(6)]
        held = [Apart(lambda one=one: one.modern_call("shared.hold", {"name": box.name})) for one in greedy]
        until(lambda: operator.hub.operate(operations.values, LINK, "calls", connection__slug="shared") == [6])
        other = operator.hub.operate(operations.issue_key, "other caller", ["tools:list", "tools:call"])
        with Speaker(speaker.url, other) as beside:
            until(lambda: beside.modern("server/discover").status_code == 200)
            assert text_of(beside.modern_call("shared.count", {"name": box.name})) == "call number 1"
        assert all(call.is_alive() for call in held)
        box.release()
        assert {text_of(call.answer()) for call in held} == {f"{box.name} was released"}
        operator.change("shared", enabled=False)
