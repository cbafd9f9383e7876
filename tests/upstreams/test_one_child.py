"""Two processes of the hub on PostgreSQL, one child in the whole hub: either answers, whichever runs the child."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
import psycopg
import pytest

from tests import operations, servers
from tests.servers import Hub, postgres_database, until
from tests.upstreams.bridging import ANSWERS
from tests.upstreams.children import LAUNCHER, processes, seen
from tests.upstreams.conftest import PEERS, Operator, old_python
from tests.waiting import PATIENCE_SECONDS
from tests.wire.input_requests import ALL, answer_to, calling, modern_call, round_of
from tests.wire.speech import Speaker, events
from tests.wire.toolbox import Apart

pytestmark = pytest.mark.rig

ONE, EACH = "sdk_v1.py stdio the-one", "sdk_v1.py stdio each-its-own"


class Pair(NamedTuple):
    """Two processes of one hub; `key` is good at both."""

    first: Hub
    second: Hub
    key: str
    operator: Operator

    def speakers(self) -> tuple[Speaker, Speaker]:
        return Speaker(self.first.url, self.key), Speaker(self.second.url, self.key)

    def holder(self) -> str:
        """The id of the process that runs the one child."""
        held = {"holds_lease": True}
        links = self.operator.hub.operate(operations.values, "tools_catalog.McpConnectionLink", "process_id", **held)
        return " ".join(links)

    def process(self, hub: Hub) -> str:
        """The id of a hub's process in the audit."""
        [found] = self.operator.hub.operate(operations.values, "sessions_app.ServerProcess", "process_id", pid=hub.pid)
        return str(found)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    tmp_path = tmp_path_factory.mktemp("pair")
    try:
        psycopg.connect(f"{servers.POSTGRES}/postgres", connect_timeout=PATIENCE_SECONDS).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"No PostgreSQL to make databases on (MCPHUB_TEST_POSTGRES): {error}")
    python = old_python()
    with postgres_database() as address:
        environment = {"MCPHUB_DATABASE_URL": address}
        first = Hub(tmp_path / "first", environment=environment)
        second = Hub(tmp_path / "second", environment={**environment, "MCPHUB_DATA_DIR": str(first.data)})
        with contextlib.ExitStack() as stopping:
            stopping.callback(_stop, first)
            first.__enter__()
            operator = Operator(first)
            for slug, instances, words in (("one", "single", "the-one"), ("own", "each", "each-its-own")):
                profile = {
                    "name": slug,
                    "command": python,
                    "instances": instances,
                    "arguments": [str(PEERS / "sdk_v1.py"), "stdio", words],
                }
                operator.connect(slug, transport="stdio", profile=profile)
            stopping.callback(_stop, second)
            second.__enter__()
            second.key = first.key
            yield Pair(first, second, first.key, operator)


def _stop(hub: Hub) -> None:
    """Stop a hub where no test has killed it."""
    hub.end_operator()
    if hub._process is not None and hub._process.poll() is None:
        hub.__exit__()


def result_of(answer: httpx2.Response) -> dict[str, Any]:
    """The result of a call, also where it took so long that its answer became a stream."""
    is_stream = answer.headers["content-type"].startswith("text/event-stream")
    body = list(events(answer))[-1] if is_stream else answer.json()
    found: dict[str, Any] = body["result"]
    return found


def ended(answer: httpx2.Response) -> str:
    """How a call ended: its text, or the code of its error."""
    result = result_of(answer)
    if result.get("isError"):
        return str(result["_meta"]["mcphub/error"]["errorCode"])
    return str(result["content"][0]["text"])


def test_every_call_passes_through_the_one_child(pair: Pair) -> None:
    here, there = pair.speakers()
    with here, there:
        for number in range(3):
            for speaker in (here, there):
                assert ended(speaker.modern_call("one.echo", {"text": f"{number}"})) == f"{number}"
                assert len(processes(ONE)) == 1
        assert {row["process_id"] for row in pair.first.rows(tool="one.echo")} >= {
            pair.process(pair.first),
            pair.process(pair.second),
        }
        assert ended(here.modern_call("one.session_mark")) == ended(there.modern_call("one.session_mark"))

        # What is said before the answer comes along, and an error of the tool's own.
        body = there.modern_body(
            "tools/call", {"name": "one.steps", "arguments": {"times": 3}, "_meta": {"progressToken": "p"}}
        )
        headers = there.modern_headers("tools/call", {"name": "one.steps"})
        for speaker in (here, there):
            with speaker.streaming("POST", body, **headers) as (_, heard):
                *before, last = list(heard)
            assert [each["params"]["progress"] for each in before if each["method"].endswith("progress")] == [1, 2, 3]
            assert last["result"]["content"][0]["text"] == "3 steps"
            assert ended(speaker.modern_call("one.echo", {})) in ("execution_error", "invalid_arguments")


def test_a_deadline_holds_through_the_other_process_and_the_child_is_told(pair: Pair) -> None:
    pair.operator.limit("one.sleep", 1)
    for speaker in pair.speakers():
        with speaker:
            until(lambda speaker=speaker: ended(speaker.modern_call("one.sleep", {"seconds": 0})) == "awake")
            assert ended(speaker.modern_call("one.sleep", {"seconds": 600})) == "timeout"
            assert ended(speaker.modern_call("one.echo", {"text": "after"})) == "after"
            assert pair.first.rows(client=speaker.name, tool="one.sleep")[0]["error_code"] == "timeout"


@pytest.mark.parametrize("kind", ["one", "own"])
def test_a_call_that_asks_goes_on_through_either_process(pair: Pair, kind: str) -> None:
    here, there = pair.speakers()
    with here, there:
        for speaker in (here, there):
            session = speaker.open_session(**ALL)
            with calling(speaker, session, f"{kind}.confirm") as (_, heard):
                speaker.post(answer_to(next(heard), ANSWERS["elicitation/create"]), mcp_session_id=session)
                assert next(heard)["result"]["content"][0]["text"] == "accept True"
        # Each round at another process; what was done before the question is not done again.
        for order in ((here, there, here), (there, here, there)):
            more: dict[str, Any] = {}
            for speaker in order[:2]:
                asked = round_of(modern_call(speaker, f"{kind}.charge", **more))
                answers = {key: ANSWERS[each["method"]] for key, each in asked["inputRequests"].items()}
                more = {"inputResponses": answers, "requestState": asked["requestState"]}
            assert ended(modern_call(order[2], f"{kind}.charge", **more)) == "0 more, accept accept"
            again = result_of(modern_call(order[1], f"{kind}.charge", **more))
            assert "not made again" in again["content"][0]["text"]
    assert len(processes(ONE)) <= 1
    assert len(processes(EACH)) <= 2


def test_the_child_moves_when_its_process_is_killed(pair: Pair) -> None:
    """The last of the module: it ends a process of the pair."""
    most: list[str] = []
    is_over = threading.Event()

    def watch() -> None:
        nonlocal most
        while not is_over.wait(0.01):
            most = max(most, seen(ONE, without=LAUNCHER), key=len)

    watcher = threading.Thread(target=watch)
    watcher.start()
    here, there = pair.speakers()
    try:
        with here, there:
            assert ended(here.modern_call("one.echo", {"text": "up"})) == "up"
            dying, living = pair.second, pair.first
            if until(pair.holder) == pair.process(pair.first):
                dying, living, here, there = pair.first, pair.second, there, here
            assert pair.holder() == pair.process(dying)
            (child,) = processes(ONE)
            asked = round_of(modern_call(here, "one.charge"))
            for prefix in ("one.sleep", "own.sleep"):
                pair.operator.limit(prefix, 600)  # no deadline ends them before the process does
            call = Apart(lambda: here.modern_call("one.sleep", {"seconds": 600}))
            other = Apart(lambda: there.modern_call("own.sleep", {"seconds": 600}))
            until(lambda: _open_calls(pair) == 2)
            dying.kill()
            assert ended(call.answer()) == "transport_error"
            assert other.settled() is None
            assert ended(here.modern_call("one.echo", {"text": "moved"})) == "moved"
            (now,) = processes(ONE)
            assert now != child
            until(lambda: pair.holder() == pair.process(living))  # the row is written after the child began
            answers = {key: ANSWERS[each["method"]] for key, each in asked["inputRequests"].items()}
            more = {"inputResponses": answers, "requestState": asked["requestState"]}
            late = result_of(modern_call(here, "one.charge", **more))
            assert "not made again" in late["content"][0]["text"]
            row = living.rows(client=here.name, tool="one.sleep")[0]
            assert (row["status"], row["error_code"]) == ("error", "transport_error")
            lost = until(lambda: living.rows(client=there.name, tool="own.sleep"))[0]
            assert lost["error_code"] == "interrupted"
    finally:
        is_over.set()
        watcher.join()
    assert len(most) == 1, most


def _open_calls(pair: Pair) -> int:
    operate, sleeping = pair.operator.hub.operate, {"tool_name__endswith": ".sleep"}
    begun = operate(operations.values, "invocations.McpRequestEnvelope", "invocation_id", **sleeping)
    ended = operate(operations.values, "invocations.McpToolInvocation", "invocation_id", **sleeping)
    return len(set(begun) - set(ended))
