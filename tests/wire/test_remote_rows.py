"""What the row of a connection of the remote profile says, for every process to read."""

from __future__ import annotations

from typing import Any

from tests import operations
from tests.servers import Hub, until
from tests.wire.remote import connect
from tests.wire.speech import Speaker, request
from tests.wire.toolbox import Box

_NOTHING_ASKED = ["", "", False, False, "remote", True]


def row_of(hub: Hub, connection_id: str) -> list[Any]:
    def told(field: str) -> Any:
        [value] = hub.operate(operations.values, "sessions_app.RemoteConnection", field, pk=connection_id)
        return value

    times = [told("received_at") is not None, told("finished_at") is not None]
    is_newer = told("seen_at") >= told("session__created_at")
    return [told("request_id"), told("method"), *times, told("session__transport"), is_newer]


def test_the_request_under_way_stands_in_the_row(hub: Hub, speaker: Speaker) -> None:
    box = Box(hub)
    with connect(speaker) as line:
        assert row_of(hub, line.id) == _NOTHING_ASKED
        call = request("tools/call", {"name": "hold", "arguments": {"name": box.name}}, "one")
        assert line.post(call).status_code == 202
        assert row_of(hub, line.id) == ['"one"', "tools/call", True, False, "remote", True]
        until(lambda: box.has("began"))
        box.release()
        assert line.hear()[2]["id"] == "one"
        assert row_of(hub, line.id) == ['"one"', "tools/call", True, True, "remote", True]
        assert line.ask(request("tools/list", {}, 2))[0] == "message"
        assert row_of(hub, line.id)[:2] == ["2", "tools/list"]


def test_what_is_refused_is_not_stored(hub: Hub, speaker: Speaker) -> None:
    with connect(speaker) as line:
        for method in ("ping", "initialize", "resources/list"):
            assert line.post(request(method, {}, 1)).status_code == 400
        assert row_of(hub, line.id) == _NOTHING_ASKED
        assert hub.rows(session=line.id) == []
