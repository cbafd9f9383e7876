"""A kind of tool is one file: created, listed, called, exported and edited, and nothing else knows of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Hub, until
from tests.shouting import shouts
from tests.wire.speech import Speaker


@pytest.fixture(scope="module")
def shouting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("shouting"), environment={"MCPHUB_APPS": "tests.shouting"}) as running:
        yield running


def submit(hub: Hub, mark: str) -> tuple[int, str]:
    status, page = hub.operate(shouts.submit_form, mark)
    return status, page


def names(speaker: Speaker) -> list[str]:
    return [tool["name"] for tool in speaker.modern("tools/list", {}).json()["result"]["tools"]]


def said(speaker: Speaker) -> str:
    params = {"name": "loud", "arguments": {"text": "hello"}}
    answer = speaker.modern("tools/call", params).json()
    return str(answer["result"]["content"][0]["text"])


def test_a_tool_of_an_own_kind_is_created_listed_called_exported_and_edited(shouting: Hub) -> None:
    status, page = submit(shouting, "no mark")
    assert (status, "write ! or ?" in page) == (200, True)
    assert submit(shouting, "!") == (302, "")
    with Speaker(shouting.url, shouting.key) as speaker:
        until(lambda: "loud" in names(speaker))
        assert said(speaker) == "HELLO!"
        row = shouting.row(tool="loud")
        assert (row["status"], row["connection"]) == ("ok", None)

        seen = shouting.operate(shouts.look)
        assert "with !" in seen["list"]
        assert 'name="mark" value="!"' in seen["page"].replace("  ", " ")
        assert (seen["label"], seen["versions"]) == ("Shouts", 1)
        assert (seen["entry"]["backend"], seen["entry"]["configuration"]) == ("shout", {"mark": "!"})
        assert not seen["refused"]
        assert "loud" in seen["unchanged"]

        assert submit(shouting, "?") == (302, "")
        until(lambda: said(speaker) == "HELLO?")
    assert shouting.operate(shouts.look)["versions"] == 2
