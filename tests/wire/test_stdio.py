"""The hub as a program that a client starts: both eras over one pipe, beside a server on the same data."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import operations
from tests.servers import ROOT, Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.bodies import BAD_NOTIFICATIONS, BROKEN, NO_MESSAGE
from tests.wire.edits import CHANGED, edited
from tests.wire.piped import Piped, beside
from tests.wire.speech import LEGACY, MODERN, hello, request
from tests.wire.toolbox import Box

SESSION = "sessions_app.McpSession"


@pytest.fixture
def box(hub: Hub) -> Box:
    return Box(hub)


@pytest.fixture
def pipe(hub: Hub) -> Iterator[Piped]:
    """One that a test may bring to its end."""
    with beside(hub) as started:
        yield started


@pytest.fixture(scope="module")
def talk(hub: Hub) -> Iterator[Piped]:
    """One in a session, for many tests."""
    with beside(hub) as started:
        started.shake_hands()
        yield started
        assert started.end() == 0
        assert started.rest() == []
        assert "Traceback" not in started.log()


@pytest.fixture(scope="module")
def modern(hub: Hub) -> Iterator[Piped]:
    """One without a session, for many tests."""
    with beside(hub) as started:
        yield started
        assert "Traceback" not in started.log()


def call(tool: str, id: Any, _meta: Any = None, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", {"name": tool, "arguments": arguments, **({"_meta": _meta} if _meta else {})}, id)


def cancelled(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


def text_of(answer: Any) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


def code_of(answer: Any) -> str:
    code: str = answer["error"]["data"]["errorCode"]
    return code


def test_a_session_sent_in_one_go_is_served_and_on_record(hub: Hub, pipe: Piped) -> None:
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    pipe.say(hello("2025-06-18", pipe.name, 0), initialized, request("tools/list", {}, "l"), call("echo", 2, text="ü"))
    answers = {answer["id"]: answer["result"] for answer in (pipe.hear(), pipe.hear(), pipe.hear())}
    assert answers[0]["protocolVersion"] == "2025-06-18"
    assert "echo" in {tool["name"] for tool in answers["l"]["tools"]}
    assert answers[2]["content"][0]["text"] == "ü"
    row = hub.row(client=pipe.name)
    assert (row["transport"], row["caller_label"], row["protocol_version"]) == ("stdio", "first key", "2025-06-18")
    pipe.say(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')  # the end of input ends the line, too
    assert pipe.end() == 0
    assert [answer["id"] for answer in pipe.rest()] == ["last"]
    assert hub.operate(operations.values, SESSION, "state", pk=row["session_id"]) == ["closed"]


def state(hub: Hub, pipe: Piped) -> list[str]:
    """What the hub's processes know of the one behind a pipe. An earlier one may have had its number."""
    of = {"pid": pipe.process.pid, "started_at__gte": pipe.began_at}
    return hub.operate(operations.values, "sessions_app.ServerProcess", "status", **of)


def test_requests_that_describe_themselves_need_no_session(hub: Hub, modern: Piped) -> None:
    assert modern.ask(modern.modern("server/discover", id=1))["result"]["supportedVersions"] == [MODERN]
    answer = modern.ask(modern.modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, "1"))
    assert (answer["id"], answer["result"]["resultType"], text_of(answer)) == ("1", "complete", "3")
    row = hub.row(client=modern.name, tool="add")
    assert (row["transport"], row["protocol_version"]) == ("stdio", MODERN)


def test_the_first_request_decides_for_the_process(hub: Hub) -> None:
    with beside(hub) as pipe:
        assert code_of(pipe.ask(request("tools/list", {}, 1))) == "invalid_request"
        assert pipe.ask(request("ping", None, 2))["result"] == {}
        pipe.shake_hands()
        refused = pipe.ask(pipe.modern("tools/list", id=3))
        assert (refused["id"], code_of(refused)) == (3, "invalid_request")
        assert "initialize" in refused["error"]["message"]
        again = pipe.ask(hello(id=4))
        assert (again["id"], "initialized already" in again["error"]["message"]) == (4, True)
        assert code_of(pipe.ask(request("server/discover", {}, 5))) == "method_not_found"
    with beside(hub) as pipe:
        unknown = pipe.modern("server/discover", {"_meta": {"io.modelcontextprotocol/protocolVersion": "v999"}}, 1)
        assert pipe.ask(unknown)["error"]["code"] == -32022
        assert "result" in pipe.ask(pipe.modern("server/discover", id=2))
        pipe.shake_hands()  # a probe decides nothing
        assert "result" in pipe.ask(request("tools/list", {}, 3))
    with beside(hub) as pipe:
        assert "result" in pipe.ask(pipe.modern("tools/list", id=1))
        assert code_of(pipe.ask(hello(id=2))) == "method_not_found"
        assert code_of(pipe.ask(request("tools/list", {}, 3))) == "invalid_params"
        assert code_of(pipe.ask(pipe.modern("ping", id=4))) == "method_not_found"


def test_standard_output_carries_protocol_alone(talk: Piped) -> None:
    assert text_of(talk.ask(call("chatter", "loud", text="loud"))) == "read 0"
    log = talk.log()
    for way in ("print", "the first stdout", "descriptor", "a child", "warning"):
        assert f"loud by {way}" in log


def test_whatever_a_line_holds_the_pipe_goes_on(talk: Piped) -> None:
    for label, body in {**BROKEN, **NO_MESSAGE}.items():
        if not body.strip():
            continue
        answer = talk.ask(body + b"\n")
        assert answer["error"]["data"]["errorCode"] == ("parse_error" if label in BROKEN else "invalid_request"), label
        assert answer["error"]["message"], label
        assert talk.ask(request("ping", None, label)) == {"jsonrpc": "2.0", "id": label, "result": {}}
    # Of a request that cannot be read, the client that waits for it is told.
    for label in ("deep params", "NaN", "duplicate deep name", "lone surrogate", "not UTF-8", "integer beyond 64 bits"):
        assert talk.ask(BROKEN[label] + b"\n")["id"] == 1, label
    big = b'{"jsonrpc":"2.0","id":"big","method":"ping","params":{"x":"%b"}}\n' % (b"x" * 5_000_000)
    answer = talk.ask(big)
    assert (answer["id"], code_of(answer)) == ("big", "payload_too_large")
    assert talk.ask(b'\r\n \n{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r\n')["id"] == "crlf"


def test_thousands_of_mangled_lines_get_answers_and_harm_nothing(pipe: Piped) -> None:
    pipe.shake_hands()
    dice = random.Random(7)
    seeds = [request("tools/list", {}, 1), call("add", 2, a=1, b=2), cancelled(3), request("ping", {"_meta": {}}, "p")]
    lines = []
    for _ in range(3000):
        line = bytearray(json.dumps(dice.choice(seeds)).encode())
        for _ in range(dice.randint(1, 4)):
            place = dice.randrange(len(line))
            line[place : place + dice.randint(0, 3)] = dice.choice([b"", b"\x00", b"\xff", b"{", b'"', b"[1]", b"1e9"])
        lines.append(bytes(line).replace(b"\n", b"") + b"\n")
    pipe.say(*lines, request("ping", None, "the end"))
    assert pipe.end() == 0
    answers = pipe.rest()
    assert {"jsonrpc": "2.0", "id": "the end", "result": {}} in answers
    for answer in answers:
        assert answer["jsonrpc"] == "2.0"
        assert "method" in answer or "result" in answer or answer["error"]["data"]["errorCode"] != "server_error"
    assert "Traceback" not in pipe.log()


def test_notifications_and_answers_nobody_asked_for_get_no_answer(talk: Piped) -> None:
    talk.say(
        {"jsonrpc": "2.0", "method": "notifications/unheard"},
        cancelled(99),
        cancelled([]),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}},
    )
    assert talk.ask(request("ping", None, "next"))["id"] == "next"
    for label, body in BAD_NOTIFICATIONS.items():
        talk.say(body + b"\n")
        assert talk.ask(request("ping", None, label))["id"] == label
    broken = talk.ask({"jsonrpc": "2.0", "id": 1, "result": 5})
    assert "id" not in broken  # 1 may be a request of the client's


def test_arrays_belong_to_one_revision(hub: Hub, talk: Piped, box: Box) -> None:
    with beside(hub) as pipe:
        assert code_of(pipe.ask([request("ping", None, 1)])) == "invalid_request"
        pipe.shake_hands("2025-03-26")
        pipe.say(
            [
                request("ping", None, 1),
                call("add", 2, a=1, b=2),
                {"jsonrpc": "2.0", "method": "notifications/x"},
                {"jsonrpc": "2.0", "method": "notifications/x", "params": [1]},
                {"jsonrpc": "2.0", "id": 3, "method": 7},
                hello(id=4),
                "nonsense",
                call("hold", 5, name=box.name),
            ]
        )
        until(lambda: box.has("began"))
        assert pipe.ask(request("ping", None, "meanwhile"))["id"] == "meanwhile"
        box.release()
        answers = pipe.hear()
        assert {answer["id"]: "result" in answer for answer in answers} == {
            1: True,
            2: True,
            3: False,
            4: False,
            None: False,
            5: True,
        }
        assert code_of(pipe.ask([])) == "invalid_request"
        assert code_of(pipe.ask([request("ping", None, 1)] * 101)) == "invalid_request"
        pipe.say([{"jsonrpc": "2.0", "method": "notifications/x"}])
        assert pipe.ask(request("ping", None, "next"))["id"] == "next"
    assert code_of(talk.ask([request("ping", None, 1)])) == "invalid_request"


@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_a_cancelled_call_stops_and_is_not_answered(hub: Hub, talk: Piped, modern: Piped, box: Box, era: str) -> None:
    ask = call("hold", 7, name=box.name)
    pipe, ask = (talk, ask) if era == "handshake" else (modern, modern.modern("tools/call", ask["params"], 7))
    pipe.say(ask)
    until(lambda: box.has("began"))
    pipe.say(cancelled("7"), cancelled(8))  # others' ids, as far as the pipe knows
    pipe.say(cancelled(7))
    until(lambda: box.has("cancelled"))
    made = {"client": pipe.name, "tool": "hold"}
    [row] = until(lambda: [each for each in hub.rows(**made) if each["arguments"] == {"name": box.name}])
    assert row["error_code"] == "cancelled"
    ping = request("ping", None, "after") if era == "handshake" else modern.modern("server/discover", id="after")
    assert pipe.ask(ping)["id"] == "after"


def test_progress_and_logs_come_before_the_answer(talk: Piped) -> None:
    talk.say(call("tell", "t", {"progressToken": "p"}, times=3))
    said = [talk.hear_no_news() for _ in range(4)]
    assert [message.get("params", {}).get("progress") for message in said] == [1, 2, 3, None]
    assert said[3]["id"] == "t"


def test_requests_run_side_by_side(hub: Hub, talk: Piped) -> None:
    boxes = [Box(hub) for _ in range(5)]
    talk.say(*(call("hold", f"side {number}", name=box.name) for number, box in enumerate(boxes)))
    for number, box in reversed(list(enumerate(boxes))):
        until(lambda one=box: one.has("began"))  # type: ignore[misc]
        box.release()
        assert talk.hear_no_news()["id"] == f"side {number}"


def test_an_edit_is_told_once_a_session_and_once_a_subscription(hub: Hub, talk: Piped, pipe: Piped) -> None:
    wanted = {"notifications": {"toolsListChanged": True}}
    for id in (1, "1", 2):
        heard = pipe.ask(pipe.modern("subscriptions/listen", wanted if id != 2 else {"notifications": {}}, id))
        assert heard["method"] == "notifications/subscriptions/acknowledged"
        assert heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == id
    again = pipe.ask(pipe.modern("subscriptions/listen", wanted, 1))
    assert (again["id"], code_of(again)) == (1, "invalid_request")
    with edited(hub, "current_time"):
        told = [pipe.hear(), pipe.hear()]
        assert {message["method"] for message in told} == {CHANGED}
        ids = [message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for message in told]
        assert sorted(ids, key=str) in ([1, "1"], ["1", 1])
        pipe.say(cancelled("1"))
        assert pipe.ask(pipe.modern("server/discover", id="read"))["id"] == "read"  # and what was said before it
        assert talk.hear() == {"jsonrpc": "2.0", "method": CHANGED, "params": {}}
    assert talk.hear()["method"] == CHANGED
    assert pipe.hear()["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 1
    assert pipe.end() == 0
    assert {(answer["id"], answer["result"]["resultType"]) for answer in pipe.rest()} == {
        (1, "complete"),
        (2, "complete"),
    }


@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
def test_what_runs_at_the_end_is_still_answered(hub: Hub, pipe: Piped, box: Box, how: str) -> None:
    pipe.shake_hands()
    assert state(hub, pipe) == ["running"]
    pipe.say(call("hold", 1, name=box.name))
    until(lambda: box.has("began"))
    if how == "SIGTERM":
        pipe.signal()
    else:
        assert pipe.process.stdin is not None
        pipe.process.stdin.close()
    until(lambda: state(hub, pipe) == ["stopping"])
    box.release()
    assert text_of(pipe.hear()) == f"{box.name} was released"
    assert pipe.process.wait(PATIENCE_SECONDS) == 0
    assert hub.row(client=pipe.name)["error_code"] == ""
    assert state(hub, pipe) == ["stopped"]


def test_a_question_that_nobody_can_answer_any_more_fails(hub: Hub, pipe: Piped) -> None:
    greeting = hello(LEGACY, pipe.name, "hello")
    greeting["params"]["capabilities"] = {"roots": {}}
    assert "result" in pipe.ask(greeting)
    asked = pipe.ask(call("test_input_required_result_list_roots", 1))
    assert asked["method"] == "roots/list"
    assert pipe.end() == 0
    (answer,) = [message for message in pipe.rest() if message.get("id") == 1]
    assert "The client has gone" in text_of(answer)


def test_a_signal_after_the_end_cuts_calls_short(hub: Hub, pipe: Piped, box: Box) -> None:
    pipe.shake_hands()
    assert state(hub, pipe) == ["running"]
    pipe.say(call("hold", 1, name=box.name))
    until(lambda: box.has("began"))
    assert pipe.process.stdin is not None
    pipe.process.stdin.close()
    until(lambda: state(hub, pipe) == ["stopping"])
    pipe.signal()
    answer = pipe.hear()
    assert (answer["id"], answer["result"]["_meta"]["mcphub/error"]["errorCode"]) == (1, "cancelled")
    assert pipe.process.wait(PATIENCE_SECONDS) == 0
    assert hub.row(client=pipe.name)["error_code"] == "cancelled"


def test_a_client_that_reads_no_more_ends_it(hub: Hub, box: Box) -> None:
    source, sink = os.pipe()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")},
        "MCPHUB_DATA_DIR": str(hub.data),
        "MCPHUB_APPS": "tests.toolbox",
    }
    started = subprocess.Popen(
        [sys.executable, "-m", "mcphub.cli", "stdio"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=sink,
        stderr=subprocess.DEVNULL,
    )
    os.close(sink)
    os.close(source)
    assert started.stdin is not None
    started.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    started.stdin.flush()
    assert started.wait(PATIENCE_SECONDS) == 0
    started.stdin.close()


def test_an_ended_session_is_begun_anew(hub: Hub, talk: Piped) -> None:
    text_of(talk.ask(call("add", "old", a=1, b=2)))
    session = hub.rows(client=talk.name)[0]["session_id"]
    hub.operate(operations.close_session, session, "operator")
    until(lambda: "error" in talk.ask(request("ping", None, 2)))
    talk.shake_hands()
    assert text_of(talk.ask(call("add", 1, a=3, b=4))) == "7"


def test_a_new_data_directory_is_made_ready_without_a_word_on_standard_output(tmp_path: Path) -> None:
    told = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    told["MCPHUB_LEDGER_TIMEOUT_SECONDS"] = "20"  # as for each hub of tests
    with Piped(tmp_path, told, "serve", "--mode", "stdio", "--data-dir", str(tmp_path / "new")) as pipe:
        pipe.shake_hands()
        assert text_of(pipe.ask(call("add", 1, a=1, b=2))) == "3"
    assert pipe.rest() == []
    with Hub(tmp_path / "server", environment={"MCPHUB_DATA_DIR": str(tmp_path / "new")}) as hub:
        assert hub.key, "the first serve still tells the credentials"
        row = hub.row(client=pipe.name)
        assert row["caller_label"].endswith(" on this machine")


def test_a_key_must_work_and_may_be_revoked(hub: Hub) -> None:
    refused = beside(hub, MCPHUB_API_KEY="mcph_wrong")
    assert refused.end() == 2
    assert refused.rest() == []
    assert refused.log().startswith("mcphub stdio: MCPHUB_API_KEY: The key is unknown")
    key = hub.command("token", "create", "for a while").splitlines()[-1]
    with beside(hub, MCPHUB_API_KEY=key) as pipe:
        pipe.shake_hands()
        assert text_of(pipe.ask(call("add", 1, a=1, b=2))) == "3"
        hub.operate(operations.revoke_key, "for a while")
        until(
            lambda: (
                pipe.ask(request("ping", None, 2)).get("error", {}).get("data", {}).get("errorCode") == "unauthorized"
            )
        )
        answer = pipe.ask(call("add", 3, a=1, b=2))
        assert (answer["id"], code_of(answer)) == (3, "unauthorized")
    assert {row["caller_label"] for row in hub.rows(client=pipe.name)} == {"for a while"}


def test_a_signal_before_it_is_ready_ends_it(tmp_path: Path) -> None:
    told = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    pipe = Piped(tmp_path, told, "stdio", "--data-dir", str(tmp_path / "new"))
    until(lambda: (tmp_path / "new").exists())
    pipe.signal(signal.SIGTERM)
    assert pipe.process.wait(PATIENCE_SECONDS) == 0
    assert pipe.end() == 0
