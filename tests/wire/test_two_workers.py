"""Two workers on PostgreSQL: nothing depends on which of them is asked."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import psycopg
import pytest

from tests import operations
from tests.cookies import cookie_of
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.conftest import make_keys
from tests.wire.edits import CHANGED, RESOURCE, by_method, edited, names
from tests.wire.input_requests import answer_to, calling, modern_call, state_of
from tests.wire.programs import Client, Sdk, client, inspector_works, over_http, over_stdio
from tests.wire.remote import connect
from tests.wire.resumption import begin, frames, resume
from tests.wire.scatter import scattered
from tests.wire.sdks import ERAS, SDKS
from tests.wire.speech import LEGACY, MODERN, Speaker, error_of, hello, late_error_of, request
from tests.wire.toolbox import Apart, Box, text_of
from tests.wire.workers import ENOUGH, WAYS, anew, asked, attempts

pytestmark = pytest.mark.rig

ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}
AT_ONCE = 4
"""Families of clients that work side by side."""
_STREAMS = 8
"""Of which some are surely held by another worker than the one that makes their call."""


@pytest.fixture(scope="module")
def pair_keys(pair: Hub) -> dict[str, str]:
    return make_keys(pair)


@pytest.fixture
def speaker(pair: Hub, pair_keys: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(pair.url, pair_keys["wire"]) as made:
        yield made


@pytest.fixture
def box(pair: Hub) -> Box:
    return Box(pair)


def test_a_session_is_served_by_whichever_worker_is_asked(speaker: Speaker, pair: Hub) -> None:
    session = speaker.open_session()
    made = []
    for number in attempts(pair, session=session):
        with anew(speaker) as one:
            assert text_of(one.call(session, "echo", {"text": str(number)}, id=number)) == str(number)
        made.insert(0, str(number))
    assert [row["arguments"]["text"] for row in pair.rows(session=session)] == made[:100]


def test_a_closed_session_is_gone_everywhere_at_once(speaker: Speaker, pair: Hub, box: Box) -> None:
    session = speaker.open_session()
    for _ in range(8):
        with anew(speaker) as one:
            one.call(session, "echo", {"text": "warm"})
    assert speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session)).status_code == 204
    for _ in range(8):
        with anew(speaker) as one:
            late = one.call(session, "count", {"name": box.name})
            assert (late.status_code, error_of(late)["data"]["errorCode"]) == (404, "session_not_found")
    assert not box.has("counted")


def test_a_session_that_an_operator_kills_is_gone_in_both_workers(speaker: Speaker, pair: Hub, box: Box) -> None:
    session = speaker.open_session()
    for number in attempts(pair, session=session):
        with anew(speaker) as one:
            one.call(session, "echo", {"text": "warm"}, id=number)
    pair.operate(operations.create_superuser, "killer", "a long password")
    with httpx2.Client(base_url=pair.url, timeout=PATIENCE_SECONDS) as browser:
        browser.get("/admin/login/")

        def send(path: str, **fields: str) -> httpx2.Response:
            token = cookie_of(browser.cookies, "mcphub_csrf")
            return browser.post(path, data={"csrfmiddlewaretoken": token, **fields}, headers={"referer": pair.url})

        assert send("/admin/login/", username="killer", password="a long password").status_code == 302
        page = f"/admin/sessions_app/mcpsession/{session}/kill/"
        assert send(page, confirmed="yes", typed="something").status_code == 200
        assert text_of(speaker.call(session, "echo", {"text": "still"}, id="still")) == "still"
        assert send(page, confirmed="yes", typed=session[:8], reason="misbehaves").status_code == 302
    for _ in range(ENOUGH):
        with anew(speaker) as one:
            late = one.call(session, "count", {"name": box.name})
            assert (late.status_code, error_of(late)["data"]["errorCode"]) == (404, "session_not_found")
    assert not box.has("counted")


def test_a_repeated_request_id_runs_once_whoever_is_asked(speaker: Speaker, pair: Hub, box: Box) -> None:
    session = speaker.open_session()
    for _ in attempts(pair, session=session):
        with anew(speaker) as one:
            assert text_of(one.call(session, "count", {"name": box.name}, id="same")) == "call number 1"
    assert box.times("counted") == 1
    *repeats, first = [row["duplicate_of"] for row in pair.rows(session=session, limit=200)]
    assert not first
    assert all(repeats)


def test_repeats_of_a_running_call_wait_for_it_in_either_worker(speaker: Speaker, pair: Hub, box: Box) -> None:
    session = speaker.open_session()
    clients = [anew(speaker) for _ in range(10)]
    calls = [
        Apart(lambda one=one: one.call(session, "hold", {"name": box.name}, id="h"))  # type: ignore[misc]
        for one in clients
    ]
    until(lambda: box.has("began"))
    box.release()
    assert {text_of(call.answer()) for call in calls} == {f"{box.name} was released"}
    assert box.times("began") == 1
    assert len(pair.rows(session=session)) == 10
    for one in clients:
        one.http.close()


def test_a_call_is_cancelled_through_either_worker(speaker: Speaker, pair: Hub) -> None:
    session = speaker.open_session()
    for number in range(6):
        box = Box(pair)
        with anew(speaker) as caller, anew(speaker) as other:
            call = Apart(
                lambda c=caller, b=box, n=number: c.call(session, "hold", {"name": b.name}, id=n)  # type: ignore[misc]
            )
            until(lambda b=box: b.has("began"))  # type: ignore[misc]
            word = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
            assert other.post(word, mcp_session_id=session).status_code == 202
            assert call.answer().json()["result"]["isError"] is True
    assert {row["error_code"] for row in pair.rows(session=session)} == {"cancelled"}


def test_an_edit_reaches_listeners_of_both_eras_in_either_worker(speaker: Speaker, pair: Hub) -> None:
    body = speaker.modern_body("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    headers = speaker.modern_headers("subscriptions/listen")
    clients = [anew(speaker) for _ in range(8)]
    sessions = [one.open_session() for one in clients]
    streams = []
    for one, session in zip(clients, sessions, strict=True):
        listening = one.streaming("GET", mcp_session_id=session, content_type=None)
        subscribed = one.streaming("POST", body, **headers)
        streams += [listening, subscribed]
    heard = [stream.__enter__()[1] for stream in streams]
    for told in heard[1::2]:
        assert next(told)["method"] == "notifications/subscriptions/acknowledged"
    with edited(pair, "current_time"):
        assert {next(told)["method"] for told in heard} == {CHANGED}
        pair.settle()
        for one in clients:
            assert "current_time" not in names(one.modern("tools/list"))
    for stream in streams:
        stream.__exit__(None, None, None)
    for one in clients:
        one.http.close()


def test_an_edited_resource_is_told_to_readers_of_both_eras_in_either_worker(speaker: Speaker, pair: Hub) -> None:
    uri = "test://watched-resource"
    body = speaker.modern_body("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
    headers = speaker.modern_headers("subscriptions/listen")
    clients = [anew(speaker) for _ in range(8)]
    sessions = [one.open_session() for one in clients]
    streams = []
    for one, session in zip(clients, sessions, strict=True):
        streams += [
            one.streaming("GET", mcp_session_id=session, content_type=None),
            one.streaming("POST", body, **headers),
        ]
        with anew(speaker) as other:  # whichever worker keeps it, the one with the stream tells
            assert other.in_session(session, "resources/subscribe", {"uri": uri}).status_code == 200
    heard = [stream.__enter__()[1] for stream in streams]
    for told in heard[1::2]:
        assert next(told)["method"] == "notifications/subscriptions/acknowledged"
    pair.operate(operations.update, RESOURCE, {"uri": uri}, content="edited")
    for told in heard[1::2]:
        assert next(told)["params"]["uri"] == uri
    for told in heard[::2]:
        assert by_method(told, 2)["notifications/resources/updated"] == {"uri": uri}
    pair.settle()
    for _ in range(8):
        with anew(speaker) as one:
            answer = one.modern("resources/read", {"uri": uri}).json()["result"]
            assert answer["contents"][0]["text"] == "edited"
    for stream in streams:
        stream.__exit__(None, None, None)
    for one in clients:
        one.http.close()


def test_http_with_sse_works_across_workers(speaker: Speaker, pair: Hub) -> None:
    with speaker.streaming("GET", path="/sse", content_type=None) as (_, heard):
        path = next(heard)["endpoint"]
        speaker.post(hello("2024-11-05", speaker.name, id=0), path)
        assert next(heard)["id"] == 0
        params = {"name": "tell", "arguments": {"times": 2}, "_meta": {"progressToken": "t"}}
        for number in attempts(pair, client=speaker.name):
            with anew(speaker) as one:
                assert one.post(request("tools/call", params, id=number + 1), path).status_code == 202
            said = [next(heard) for _ in range(3)]
            assert [message.get("params", {}).get("progress") for message in said] == [1, 2, None]
            assert said[2]["id"] == number + 1


def test_the_remote_profile_works_across_workers(speaker: Speaker, pair: Hub, box: Box) -> None:
    with connect(speaker) as line:
        for number in attempts(pair, session=line.id):
            with anew(speaker) as one:
                assert line.post(request("tools/call", ADD, id=number), one).status_code == 202
            assert line.hear()[2]["id"] == number
        with anew(speaker) as one:
            hold = request("tools/call", {"name": "hold", "arguments": {"name": box.name}}, id="h")
            assert line.post(hold, one).status_code == 202
        until(lambda: box.has("began"))
        for number in range(8):
            with anew(speaker) as one:
                assert line.post(request("tools/call", ADD, id=f"busy {number}"), one).json()["code"] == "server_busy"
    until(lambda: box.has("cancelled"))
    rows = until(lambda: [row for row in pair.rows(session=line.id) if row["tool_name"] == "hold"])
    assert rows[0]["error_code"] == "cancelled"


@pytest.mark.long
def test_every_client_does_all_that_it_can_with_both(pair: Hub) -> None:
    names = dict.fromkeys(sdk.names_itself_as for sdk in SDKS)
    families = [[sdk for sdk in SDKS if sdk.names_itself_as == one] for one in names]
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(scattered(pair.url))
        pool = stack.enter_context(ThreadPoolExecutor(AT_ONCE))

        def family(sdks: list[Sdk]) -> list[tuple[Client, list[dict[str, Any]]]]:
            # One after the other: what stateless clients of one name do stands in one row of sessions.
            return [(one, one.acts()) for one in (stack.enter_context(client(pair, sdk, url)) for sdk in sdks)]

        inspector = pool.submit(
            lambda: [inspector_works(pair, over_http(pair, each[0], url), each[1]) for each in ERAS]
        )
        done = [each for clients in pool.map(family, families) for each in clients]
        rows = [row for _, made in done for row in made]
        rows += [row for made in inspector.result() for row in made]
        rows += inspector_works(pair, over_stdio(pair, "modern"), "2026-07-28")
        deaf = {one.process.stdout: one for one, _ in done}

        def told() -> bool:
            # A session's client cannot say when its stream is open: what it missed it hears the next time.
            with edited(pair, "current_time"):
                for stream in select.select(list(deaf), [], [], 1)[0]:
                    deaf.pop(stream)
            return not deaf

        until(told)
        for one, _ in done:
            one.heard()
    workers = {row["process_id"] for row in rows if row["transport"] != "stdio"}
    assert len(workers) == 2
    by_kind = {(row["transport"], row["protocol_version"]) for row in rows}
    assert {revision for _, revision in by_kind} == {"2024-11-05", "2025-03-26", "2025-06-18", LEGACY, MODERN}
    assert {transport for transport, _ in by_kind} == {"streamable-http", "sse", "stdio"}


def test_any_text_stands_in_this_database_too(speaker: Speaker, pair: Hub) -> None:
    text = "\u0000 NUL, \u202e turned, \U0001f600"
    assert text_of(speaker.modern_call("echo", {"text": text})) == text
    assert pair.row(client=speaker.name)["arguments"] == {"text": text}


def test_what_a_tool_asks_is_answered_through_either_worker(speaker: Speaker, pair: Hub) -> None:
    session = speaker.open_session(elicitation={})
    for number in attempts(pair, session=session):
        named = {"action": "accept", "content": {"username": f"user{number}", "email": ""}}
        with (
            anew(speaker) as caller,
            anew(speaker) as other,
            calling(caller, session, "test_elicitation", {"message": "Who?"}) as (_, heard),
        ):
            assert other.post(answer_to(next(heard), named), mcp_session_id=session).status_code == 202
            assert f"user{number}" in str(next(heard)["result"])


def test_rounds_go_on_in_either_worker(speaker: Speaker, pair: Hub) -> None:
    tool = "test_input_required_result_multi_round"
    for _ in attempts(pair, client=speaker.name):
        with anew(speaker) as one, anew(speaker) as two, anew(speaker) as three:
            first = modern_call(one, tool)
            step1 = {"step1": {"action": "accept", "content": {"name": "Ada"}}}
            second = modern_call(two, tool, inputResponses=step1, requestState=state_of(first))
            step2 = {"step2": {"action": "accept", "content": {"color": "blue"}}}
            done = modern_call(three, tool, inputResponses=step2, requestState=state_of(second))
            assert text_of(done) == "Ada likes blue"


def test_http_with_sse_asks_across_workers(speaker: Speaker) -> None:
    with speaker.streaming("GET", path="/sse", content_type=None) as (_, heard):
        path = next(heard)["endpoint"]
        speaker.post(hello("2025-11-25", speaker.name, id=0, roots={}), path)
        assert next(heard)["id"] == 0
        tool = {"name": "test_input_required_result_list_roots"}
        for number in range(1, 9):
            with anew(speaker) as caller, anew(speaker) as other:
                caller.post(request("tools/call", tool, id=number), path)
                other.post(answer_to(next(heard), {"roots": []}), path)
                assert next(heard)["id"] == number


def test_a_broken_stream_goes_on_in_either_worker(speaker: Speaker, pair: Hub) -> None:
    session = speaker.open_session()
    for _ in attempts(pair, session=session):
        box = Box(pair)
        with anew(speaker) as caller, anew(speaker) as other:
            first, progress = begin(caller, session, "hold", {"name": box.name}, 2)
            with resume(other, session, first.id) as (answer, _):
                heard = frames(answer)
                assert next(heard) == progress
                box.release()
                assert "was released" in next(heard).data
                assert list(heard) == []


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_reaches_its_stream_though_the_database_has_cut_all_connections(
    speaker: Speaker, pair: Hub, way: str
) -> None:
    """Each stream is held by one worker, each call made by either: those that cross need the change bus."""
    with contextlib.ExitStack() as stack:
        waiting = []
        for number in range(_STREAMS):
            box = Box(pair)
            waiting.append((box, stack.enter_context(asked(speaker, way, box, number))))
        for box, _ in waiting:
            until(lambda made=box: made.has("began"))  # type: ignore[misc]
        pair.end_operator()
        with psycopg.connect(pair.environment["MCPHUB_DATABASE_URL"], autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        for box, _ in waiting:
            box.release()
        for box, answer in waiting:
            assert f"{box.name} was released" in answer()


def test_a_stalled_worker_that_was_taken_for_dead_withholds_its_answer_and_serves_again(
    speaker: Speaker, pair: Hub, box: Box
) -> None:
    """It is judged by its silence, as another machine judges it: its mark is taken away while it is stopped."""
    row, outcomes = "sessions_app.ServerProcess", ("invocations.McpToolInvocation", "error_code")
    session = speaker.open_session()
    call = Apart(lambda: speaker.call(session, "hold", {"name": box.name}, id="held"))
    until(lambda: box.has("began"))
    [process] = pair.operate(operations.values, "invocations.McpRequestEnvelope", "process_id", session_id=session)
    [pid] = pair.operate(operations.values, row, "pid", pk=process)
    [mark] = pair.operate(operations.values, row, "boot_mark", pk=process)
    os.kill(pid, signal.SIGSTOP)
    try:
        pair.operate(operations.update, row, {"pk": process}, boot_mark="", last_seen_at="2020-01-01T00:00:00Z")
        until(lambda: pair.operate(operations.values, *outcomes, session_id=session) == ["interrupted"])
    finally:
        os.kill(pid, signal.SIGCONT)
    box.release()
    assert late_error_of(call.answer())["data"]["errorCode"] == "audit_unavailable"
    assert [each["error_code"] for each in pair.rows(session=session)] == ["interrupted"]
    pair.operate(operations.update, row, {"pk": process}, boot_mark=mark)
    again = speaker.open_session()
    made = []
    for number in attempts(pair, session=again):
        with anew(speaker) as one:
            assert text_of(one.call(again, "echo", {"text": str(number)}, id=number)) == str(number)
        made.insert(0, str(number))
    assert process in {each["process_id"] for each in pair.rows(session=again)}
    assert [each["arguments"]["text"] for each in pair.rows(session=again)] == made[:100]
