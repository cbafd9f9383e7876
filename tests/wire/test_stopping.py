"""A hub that is told to stop: what runs is answered, what listens is let go, and the status is 0."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

import pytest

from tests import operations
from tests.servers import Hub, postgres_database, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.conftest import TOOLBOX
from tests.wire.resumption import begin, frames, resume
from tests.wire.speech import Speaker
from tests.wire.toolbox import Apart, Box, text_of
from tests.wire.workers import WAYS, asked


def test_a_stop_lets_calls_finish_and_streams_end(tmp_path: Path) -> None:
    with Hub(tmp_path, environment={"MCPHUB_APPS": "tests.toolbox"}, **TOOLBOX) as hub:
        box = Box(hub)
        with Speaker(hub.url, hub.key) as speaker:
            session = speaker.open_session()
            body = speaker.modern_body("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "s")
            with (
                speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, listening),
                speaker.streaming("GET", path="/sse", content_type=None) as (_, old),
                speaker.streaming("POST", body, **speaker.modern_headers("subscriptions/listen")) as (_, told),
            ):
                assert next(told)["method"] == "notifications/subscriptions/acknowledged"
                assert "endpoint" in next(old)
                call = Apart(lambda: speaker.call(session, "hold", {"name": box.name}))
                until(lambda: box.has("began"))
                stopping = threading.Thread(target=hub.stop)
                stopping.start()
                (last,) = told
                assert (last["id"], last["result"]["resultType"]) == ("s", "complete")
                assert list(listening) == list(old) == []
            box.release()
            assert text_of(call.answer()) == f"{box.name} was released"
        stopping.join(PATIENCE_SECONDS)
        assert hub.stop() == 0
    assert "Traceback" not in hub.log()


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_answers_on_a_stream_before_it_ends_that(tmp_path: Path, way: str) -> None:
    with Hub(tmp_path, environment={"MCPHUB_APPS": "tests.toolbox"}, **TOOLBOX) as hub:
        _answered_at_a_stop(hub, way, streams=2)


@pytest.mark.rig
@pytest.mark.parametrize("way", WAYS)
def test_a_stop_answers_on_streams_that_the_other_worker_holds(tmp_path: Path, way: str) -> None:
    with postgres_database() as address:
        environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_DATABASE_URL": address}
        with Hub(tmp_path, flags=["--workers", "2"], environment=environment, **TOOLBOX) as pair:
            _answered_at_a_stop(pair, way, streams=8)


def _answered_at_a_stop(hub: Hub, way: str, *, streams: int) -> None:
    def status() -> set[str]:
        return set(hub.operate(operations.values, "sessions_app.ServerProcess", "status"))

    assert "running" in status()  # what looks is started here, and not while the time of the stop runs out
    with contextlib.ExitStack() as stack:
        speaker = stack.enter_context(Speaker(hub.url, hub.key))
        waiting = []
        for number in range(streams):
            box = Box(hub)
            waiting.append((box, stack.enter_context(asked(speaker, way, box, number))))
        for box, _ in waiting:
            until(lambda made=box: made.has("began"))  # type: ignore[misc]
        os.kill(hub.pid, signal.SIGTERM)
        until(lambda: status() == {"stopping"})
        for box, answer in waiting:
            # One after another: the stream of each outlives the answers of those before it.
            box.release()
            assert f"{box.name} was released" in answer()
    assert hub.stop() == 0
    assert "Traceback" not in hub.log()


@pytest.mark.parametrize("way", WAYS)
def test_what_a_stop_cuts_off_is_told_on_its_stream(tmp_path: Path, way: str) -> None:
    environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_LIMITS": "drain_seconds=0.5"}
    with Hub(tmp_path, environment=environment, **TOOLBOX) as hub, Speaker(hub.url, hub.key) as speaker:
        box = Box(hub)
        with asked(speaker, way, box, 7) as answer:
            until(lambda: box.has("began"))
            os.kill(hub.pid, signal.SIGTERM)
            assert "cancelled" in answer()
        assert hub.stop() == 0
    assert "Traceback" not in hub.log()


def test_a_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_LIMITS": "drain_seconds=0.5"}
    with Hub(tmp_path, environment=environment, **TOOLBOX) as hub:
        box = Box(hub)
        with Speaker(hub.url, hub.key) as speaker:
            session = speaker.open_session()
            call = Apart(lambda: speaker.call(session, "hold", {"name": box.name}, id="cut"))
            until(lambda: box.has("began"))
            assert hub.stop() == 0
            answer = call.answer()
            body = answer.json()
            assert (answer.status_code, body["id"], body["result"]["isError"]) == (200, "cut", True)
            assert body["result"]["_meta"]["mcphub/error"]["errorCode"] == "cancelled"
        assert hub.operate(operations.values, "invocations.McpToolInvocation", "error_code") == ["cancelled"]
    assert "Traceback" not in hub.log()


def test_the_row_of_a_process_tells_its_life(tmp_path: Path) -> None:
    def told(pid: int, field: str = "status") -> str:
        [value] = hub.operate(operations.values, "sessions_app.ServerProcess", field, pid=pid)
        return str(value)

    with Hub(tmp_path, environment={"MCPHUB_APPS": "tests.toolbox"}, **TOOLBOX) as hub:
        box, pid = Box(hub), hub.pid
        assert (told(pid), len(told(pid, "process_id")), told(pid, "stopped_at")) == ("running", 32, "None")
        assert told(pid, "started_at") < told(pid, "last_seen_at")
        with Speaker(hub.url, hub.key) as speaker:
            session = speaker.open_session()
            call = Apart(lambda: speaker.call(session, "hold", {"name": box.name}))
            until(lambda: box.has("began"))
            os.kill(pid, signal.SIGTERM)
            until(lambda: told(pid) == "stopping")
            box.release()
            call.answer()
        assert hub.stop() == 0
        assert told(pid) == "stopped"
        assert told(pid, "stopped_at") != "None"


def test_signals_that_come_again_and_again_change_nothing(tmp_path: Path) -> None:
    """The last ones come while the interpreter goes down."""
    with Hub(tmp_path) as hub:
        while hub.is_running():
            os.kill(hub.pid, signal.SIGTERM)
        assert hub.stop() == 0


def test_who_came_back_for_a_stream_gets_its_end_before_the_stop(tmp_path: Path) -> None:
    with Hub(tmp_path, environment={"MCPHUB_APPS": "tests.toolbox"}, **TOOLBOX) as hub:
        box = Box(hub)
        with Speaker(hub.url, hub.key) as speaker:
            session = speaker.open_session()
            first, progress = begin(speaker, session, "hold", {"name": box.name}, 2)
            with resume(speaker, session, first.id) as (answer, _):
                heard = frames(answer)
                assert next(heard) == progress
                stopping = threading.Thread(target=hub.stop)
                stopping.start()
                box.release()
                assert "was released" in next(heard).data
                assert list(heard) == []
        stopping.join(PATIENCE_SECONDS)
        assert hub.stop() == 0
    assert "Traceback" not in hub.log()


def test_a_read_only_call_under_way_at_a_kill_is_found_where_every_intent_is_recorded(tmp_path: Path) -> None:
    environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_AUDIT_EVERY_INTENT": "1"}
    hub = Hub(tmp_path, environment=environment, **TOOLBOX)
    hub.__enter__()  # it is not left as others are
    key, box = hub.key, Box(hub)
    with Speaker(hub.url, key) as speaker:
        call = Apart(lambda: speaker.modern_call("look", {"name": box.name}))
        until(lambda: box.has("began"))
        hub.kill()
        assert call.settled() is None
    with Hub(tmp_path, environment=environment, **TOOLBOX) as again:
        again.key = key
        row = again.row(tool="look")
        assert (row["error_code"], row["arguments"]) == ("interrupted", {"name": box.name})
