"""Streams of a session that break, or that the hub ends, and the clients that come back for the rest."""

from __future__ import annotations

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.input_requests import NAMED, answer_to
from tests.wire.resumption import begin, call_body, frames, rest, resume
from tests.wire.speech import Speaker, error_of
from tests.wire.toolbox import Box


def kept(hub: Hub, session: str) -> int:
    return hub.operate(operations.count, "sessions_app.StreamEvent", session_id=session)


def test_a_broken_stream_goes_on_where_it_broke(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session()
    first, progress = begin(speaker, session, "hold", {"name": box.name}, 2)
    assert (first.data, int(first.retry) > 0) == ("", True)
    assert progress.message["method"] == "notifications/progress"
    assert first.id != progress.id
    with resume(speaker, session, first.id) as (answer, _):
        heard = frames(answer)
        assert next(heard) == progress
        box.release()
        last = next(heard)
        assert last.message["result"]["content"][0]["text"] == f"{box.name} was released"
        assert list(heard) == []
    assert rest(speaker, session, progress.id) == [last]
    assert rest(speaker, session, last.id) == []
    row = hub.row(session=session, method="tools/call")
    assert (row["status"], row["error_code"]) == ("ok", "")
    assert not box.has("cancelled")


def test_each_message_is_on_its_own_stream_only(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session()
    boxes = [Box(hub), Box(hub)]
    starts = [begin(speaker, session, "hold", {"name": each.name}, 2) for each in boxes]
    for each in boxes:
        each.release()
    for (first, progress), each in zip(starts, boxes, strict=True):
        again, last = rest(speaker, session, first.id)
        assert again == progress
        assert each.name in last.data
    ids = [frame.id for start in starts for frame in start]
    assert len(set(ids)) == len(ids)


def test_what_is_asked_meanwhile_is_asked_on_return(speaker: Speaker) -> None:
    session = speaker.open_session(elicitation={})
    (first,) = begin(speaker, session, "test_elicitation", {"message": "Who?"}, 1)
    with resume(speaker, session, first.id) as (answer, _):
        heard = frames(answer)
        asked = next(heard).message
        assert asked["method"] == "elicitation/create"
        speaker.post(answer_to(asked, NAMED), mcp_session_id=session)
        assert "ada" in next(heard).data


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
def test_older_clients_get_ids_but_no_empty_event(speaker: Speaker, box: Box, version: str) -> None:
    session = speaker.open_session(version)
    (progress,) = begin(speaker, session, "hold", {"name": box.name}, 1)
    assert progress.message["method"] == "notifications/progress"
    assert progress.retry == ""
    box.release()
    (last,) = rest(speaker, session, progress.id)
    assert "was released" in last.data


def test_the_hub_ends_a_connection_and_the_client_comes_back(speaker: Speaker) -> None:
    session = speaker.open_session()
    body = call_body("test_reconnection", {}, "again")
    with speaker.streaming("POST", body, mcp_session_id=session) as (answer, _):
        (first,) = frames(answer)
    (last,) = rest(speaker, session, first.id)
    assert last.message["id"] == "again"
    older = speaker.open_session("2025-06-18")
    assert speaker.call(older, "test_reconnection").headers["content-type"] == "application/json"


def test_an_answer_in_json_is_not_kept(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session()
    assert speaker.call(session, "tell", {"times": 3}).headers["content-type"] == "application/json"
    assert kept(hub, session) == 0


def test_the_end_of_the_session_ends_and_removes_its_streams(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session()
    first, _ = begin(speaker, session, "hold", {"name": box.name}, 2)
    with resume(speaker, session, first.id) as (answer, _):
        heard = frames(answer)
        next(heard)
        assert kept(hub, session) == 2
        assert speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session)).status_code == 204
        assert list(heard) == []
    assert kept(hub, session) == 0
    gone = speaker.http.get("/mcp", headers=speaker.headers(mcp_session_id=session, last_event_id=first.id))
    assert (gone.status_code, error_of(gone)["data"]["errorCode"]) == (404, "session_not_found")


def test_who_comes_back_last_has_the_stream(speaker: Speaker, box: Box) -> None:
    session = speaker.open_session()
    with speaker.streaming("POST", call_body("hold", {"name": box.name}), mcp_session_id=session) as (answer, _):
        original = frames(answer)
        first = next(original)
        with resume(speaker, session, first.id) as (answer, _):
            second = frames(answer)
            progress = next(second)
            assert [frame.id for frame in original] in ([], [progress.id])
            with resume(speaker, session, first.id) as (answer, _):
                third = frames(answer)
                assert next(third) == progress
                assert list(second) == []
                box.release()
                assert "was released" in next(third).data


@pytest.mark.parametrize("event_id", ["x", "1", "AAAAAAAAAAAAAAAA.0", "AAAAAAAAAAAAAAAA.99999999999", "' OR 1=1"])
def test_an_event_that_is_not_kept_is_refused(speaker: Speaker, event_id: str) -> None:
    session = speaker.open_session()
    answer = speaker.http.get("/mcp", headers=speaker.headers(mcp_session_id=session, last_event_id=event_id))
    assert (answer.status_code, error_of(answer)["code"]) == (400, -32600)


def test_a_stream_belongs_to_its_session_and_caller(speaker: Speaker, hub: Hub, keys: dict[str, str], box: Box) -> None:
    session, other = speaker.open_session(), speaker.open_session()
    first, _ = begin(speaker, session, "hold", {"name": box.name}, 2)
    headers = {"last_event_id": first.id}
    assert speaker.http.get("/mcp", headers=speaker.headers(mcp_session_id=other, **headers)).status_code == 400
    with Speaker(hub.url, keys["other"]) as stranger:
        theirs = stranger.http.get("/mcp", headers=stranger.headers(mcp_session_id=session, **headers))
        assert theirs.status_code == 404
    box.release()
    until(lambda: box.has("ended"))
