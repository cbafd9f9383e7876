"""Clients that others wrote, unmodified, against a real hub with a key.

Each does all that it can in one process, from its first word to its last: it lists, calls, sees what it did wrong,
reads a resource, gets a prompt, answers what tools ask, gives a call up, and hears of an edit. What some cannot:

| Client | |
|---|---|
| `mcp` 1.x | gives no call up: it sends nothing when its call is cancelled |
| `mcp` 1.9.4 | answers no forms: its revision has none |
| `mcp` 1.2.0 | answers nothing, and has no Streamable HTTP |
| Inspector CLI 2.12.0 | lists, calls, reads, gets; it ends with the answer, and there is nobody to ask |
"""

from __future__ import annotations

import select

import pytest

from tests.servers import Hub, until
from tests.wire.edits import edited
from tests.wire.programs import Sdk, client, inspector_works, over_http, over_stdio
from tests.wire.sdks import ERAS, SDKS

pytestmark = pytest.mark.rig


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_a_client_does_all_that_it_can(hub: Hub, sdk: Sdk) -> None:
    with client(hub, sdk) as one:
        one.acts()

        def told() -> bool:
            # A session's client cannot say when its stream is open: what it missed it hears the next time.
            with edited(hub, "current_time"):
                return bool(select.select([one.process.stdout], [], [], 1)[0])

        until(told)
        one.heard()


@pytest.mark.parametrize(("era", "version"), ERAS)
def test_the_inspector_lists_calls_reads_gets_and_shows_errors(hub: Hub, era: str, version: str) -> None:
    rows = inspector_works(hub, over_http(hub, era), version)
    assert {row["client_name"] for row in rows} == {"inspector-cli"}


def test_the_inspector_starts_the_hub(hub: Hub) -> None:
    rows = inspector_works(hub, over_stdio(hub, "modern"), "2026-07-28")
    assert {row["transport"] for row in rows} == {"stdio"}
