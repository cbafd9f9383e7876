"""Sessions with servers that do not take the question for their era well: begun without it, and remembered."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sessions_app.protocol import errors
from tests.upstreams.conftest import PEERS
from tools_catalog.upstream.link import ConnectionEnvironment, Link
from tools_catalog.upstream.negotiation import Probed
from tools_catalog.upstream.opening import SessionOpener
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import ConnectionSpec, LaunchSpec

pytestmark = pytest.mark.program

OLD, NEWEST = "2025-03-26", "2025-11-25"


class Child:
    """A brittle server, and the hub's end of it: what it remembers, and how often the server was started."""

    def __init__(self, folder: Path) -> None:
        self.starts = folder / "starts"
        self.remembered: list[str] = []

    def spec(self, how: str, revision: str = OLD, version: str = "1", **words: object) -> ConnectionSpec:
        arguments = (str(PEERS / "brittle.py"), how, revision, version, str(self.starts))
        launch = LaunchSpec(name="brittle", command=sys.executable, arguments=arguments, is_unconfined=True)
        spec = ConnectionSpec(id=1, slug="brittle", transport="stdio", launch=launch, connect_seconds=20)
        return replace(spec, **words)  # type: ignore[arg-type]

    def opened(self, spec: ConnectionSpec, times: int = 1) -> tuple[Probed, str]:
        """Open a session so many times, one after the other; give what the last one says of probe and revision."""

        async def remember(spec: ConnectionSpec, server: str) -> None:
            self.remembered.append(server)

        async def run() -> tuple[Probed, str]:
            environment = ConnectionEnvironment(secret=lambda name, host: "", unprobed=remember)
            opener = SessionOpener(
                spec,
                environment,
                Scrubber(environment.secret),
                Link(1),
                list_changed=lambda *kinds: None,
                updated=lambda uri: None,
            )
            for attempt in range(times):
                try:
                    session = await opener.main(frozenset())
                except errors.ConnectionFailed:
                    if attempt + 1 == times:
                        raise
                    continue
                said = session.probed, session.era.version
                await session.close()
            return said

        return asyncio.run(run())

    @property
    def started(self) -> int:
        return len(self.starts.read_text().splitlines())


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(tmp_path)


def test_a_child_that_dies_of_the_probe_begins_without_one_and_is_remembered(child: Child) -> None:
    assert child.opened(child.spec("dies")) == (Probed.UNANSWERED, OLD)
    assert (child.started, child.remembered) == (2, ["brittle 1"])


def test_a_child_that_is_remembered_is_started_once(child: Child) -> None:
    assert child.opened(child.spec("dies", unprobed="brittle 1")) == (Probed.NOT, OLD)
    assert (child.started, child.remembered) == (1, [])


def test_a_child_that_dies_of_the_probe_is_probed_once_for_several_sessions(child: Child) -> None:
    child.opened(child.spec("dies"), times=3)
    assert child.started == 4


def test_a_child_that_keeps_silent_begins_all_the_same_and_is_remembered(child: Child) -> None:
    assert child.opened(child.spec("hushes", connect_seconds=8)) == (Probed.UNANSWERED, OLD)
    assert (child.started, child.remembered) == (1, ["brittle 1"])


def test_a_child_that_answers_the_probe_with_an_error_is_asked_each_time(child: Child) -> None:
    assert child.opened(child.spec("answers"), times=2) == (Probed.ANSWERED, OLD)
    assert (child.started, child.remembered) == (2, [])


def test_a_child_of_another_version_than_the_one_that_is_remembered_is_forgotten(child: Child) -> None:
    child.opened(child.spec("dies", version="2", unprobed="brittle 1"))
    assert child.remembered == [""]


def test_a_child_that_does_not_begin_is_forgotten(child: Child) -> None:
    with pytest.raises(errors.ConnectionFailed):
        child.opened(child.spec("broken", unprobed="brittle 1"))
    assert child.remembered == [""]


def test_a_child_that_never_begins_is_started_once_an_attempt_after_the_first(child: Child) -> None:
    with pytest.raises(errors.ConnectionFailed, match=r"^The upstream's program ended with status \d+\."):
        child.opened(child.spec("broken"), times=3)
    assert (child.started, child.remembered) == (4, [])


def test_a_child_that_says_why_it_does_not_begin_is_probed_again(child: Child) -> None:
    with pytest.raises(errors.ConnectionFailed, match="no handshake"):
        child.opened(child.spec("refuses"), times=3)
    assert child.started == 6


def test_a_child_that_may_be_of_both_eras_is_believed_the_second_time(child: Child) -> None:
    child.opened(child.spec("dies", NEWEST))
    assert child.remembered == []
    child.opened(child.spec("dies", NEWEST), times=2)
    assert child.remembered == ["brittle 1"]


@pytest.mark.parametrize(
    ("era", "how", "comes"),
    [("handshake", "dies", (Probed.NOT, OLD)), ("stateless", "answers", "Set the era of the connection")],
)
def test_a_connection_may_name_the_era(child: Child, era: str, how: str, comes: object) -> None:
    if isinstance(comes, str):
        with pytest.raises(errors.ConnectionFailed, match=comes):
            child.opened(child.spec(how, era=era))
    else:
        assert child.opened(child.spec(how, era=era)) == comes
    assert child.started == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: replace(spec, transport="sse"),
        lambda spec: replace(spec, url="http://elsewhere.example"),
        lambda spec: replace(spec, launch=replace(spec.launch, command="other")),
        lambda spec: replace(spec, launch=replace(spec.launch, arguments=("other",))),
        lambda spec: replace(spec, launch=replace(spec.launch, directory="/other")),
    ],
)
def test_what_is_reached_has_a_digest_of_its_own(child: Child, change: Callable[[ConnectionSpec], object]) -> None:
    spec = child.spec("dies")
    assert change(spec).reach != spec.reach  # type: ignore[attr-defined]
    assert replace(spec, idle_seconds=7.0).reach == spec.reach
