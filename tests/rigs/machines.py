"""Three machines of two workers each over one PostgreSQL behind a pooler, and before them a plain balancer.

    python -m tests.rigs.machines [--calls N]

What one machine begins, another goes on with: sessions, questions, tasks, approvals, limits, tails, one child for all.
While clients call, the next version migrates the data and takes the place of this one on each machine in turn; then a
machine is killed. Every call is on record once, and the audit proves it. Each machine has processes, a host name and a
data directory of its own; of the keys it has copies. They share the network of the machine that the rig runs on. Exit
status 0, or 1 with the reasons.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2

from tests import operations
from tests.rigs.balancer import Balancer
from tests.rigs.pooler import Pooler
from tests.rigs.process import Hub, settle
from tests.servers import free_port, postgres_database, until
from tests.trees import NEXT, next_version
from tests.upstreams.bridging import ANSWERS
from tests.upstreams.conftest import PEERS, Operator, old_python
from tests.waiting import PATIENCE_SECONDS
from tests.wire import approving
from tests.wire.input_requests import ALL, answer_to, calling, modern_call, round_of
from tests.wire.speech import META, Speaker, events
from tests.wire.toolbox import Apart

_MACHINES = 3
_WORKERS = 2
_LIMIT = 10
"""Calls a minute of one tool."""
COPIED = ("secret_key", "encryption_keys", "audit")
"""What each machine has a copy of."""


class Rig:
    def __init__(self, hubs: Sequence[Hub], url: str, key: str, calls: int) -> None:
        self.hubs, self.url, self.key, self.calls = hubs, url, key, calls
        self.problems: list[str] = []

    def speaker(self, at: int | None = None) -> Speaker:
        """A client of the balancer, with a connection of its own for each request; or of one machine."""
        url = self.url if at is None else self.hubs[at].url
        speaker = Speaker(url, self.key)
        speaker.http.close()
        none_kept = httpx2.Limits(max_keepalive_connections=0)
        speaker.http = httpx2.Client(base_url=url, timeout=PATIENCE_SECONDS, limits=none_kept)
        return speaker

    def expect(self, what: str, holds: object) -> None:
        print(f"{'ok   ' if holds else 'WRONG'} {what}", flush=True)
        if not holds:
            self.problems.append(what)

    def operate(self, function: Callable[..., Any], *arguments: Any, at: int = 0, **named: Any) -> Any:
        return self.hubs[at].operate(function, *arguments, **named)

    def settle(self) -> None:
        """Wait until each worker of each machine works by what was changed before: any may get the next connection."""
        settle(self.hubs, self.key)

    def marks(self, name: str) -> int:
        """How often a tool left the mark, on all machines together."""
        files = (hub.data / "toolbox" / name for hub in self.hubs)
        return sum(file.stat().st_size for file in files if file.exists())

    def release(self, name: str) -> None:
        for hub in self.hubs:
            folder = hub.data / "toolbox"
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.release").touch()

    def hosts_of(self, **filters: Any) -> set[str]:
        """The machines that made such calls."""
        made = self.operate(operations.values, "invocations.McpToolInvocation", "process_id", **filters)
        found = {"process_id__in": sorted(set(made))}
        return set(self.operate(operations.values, "sessions_app.ServerProcess", "host", **found))

    def on_each(self, ask: Callable[[Speaker], bool]) -> bool:
        """Return whether each machine comes to give this answer in time."""
        for at in range(len(self.hubs)):
            with self.speaker(at) as speaker:
                try:
                    until(lambda speaker=speaker: ask(speaker))
                except AssertionError:
                    return False
        return True


def outcome(answer: httpx2.Response) -> str:
    """How a call ended: its text, or the code of its error."""
    is_stream = answer.headers["content-type"].startswith("text/event-stream")
    body = list(events(answer))[-1] if is_stream else answer.json()
    if "error" in body:
        return str(body["error"]["data"]["errorCode"])
    failure = body["result"].get("_meta", {}).get("mcphub/error")
    return str(failure["errorCode"]) if failure else str(body["result"]["content"][0]["text"])


def sessions(rig: Rig) -> None:
    with rig.speaker() as speaker:
        session = speaker.open_session()
        given = [outcome(speaker.call(session, "count", {"name": "s"})) for _ in range(12)]
        rig.expect(f"a session is served by any machine: {Counter(given)}", rig.marks("s.counted") == 12)
        found = rig.hosts_of(client_name=speaker.name)
        rig.expect(f"and was, by {', '.join(sorted(found))}", len(found) == _MACHINES)

        both = [Apart(lambda: speaker.call(session, "count", {"name": "race"}, id=77)) for _ in range(4)]
        for each in both:
            each.answer()
        rig.expect("one request id sent four times at once runs once", rig.marks("race.counted") == 1)

        call = Apart(lambda: speaker.call(session, "hold", {"name": "c"}, id=78))
        until(lambda: rig.marks("c.began"))
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 78}}
        speaker.post(cancel, mcp_session_id=session)
        until(lambda: rig.marks("c.cancelled"))
        call.settled()
        rig.expect("a cancellation reaches the machine that has the call", True)

        speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session))
        late = [speaker.call(session, "count", {"name": "late"}).status_code for _ in range(6)]
        rig.expect("a session that ended is 404 on each machine", late == [404] * 6 and not rig.marks("late.counted"))


def configuration(rig: Rig) -> None:
    tool = {"name": "count"}
    for enabled, code in ((False, "tool_disabled"), (True, "call number 1")):
        rig.operate(operations.change, "tools_catalog.McpToolDefinition", tool, enabled=enabled, at=enabled)
        names = iter(range(100_000))
        seen = rig.on_each(
            lambda speaker, code=code: outcome(speaker.modern_call("count", {"name": f"{code}{next(names)}"})) == code  # noqa: B023
        )
        rig.expect(f"switching a tool {'on' if enabled else 'off'} reaches each machine", seen)
    rig.settle()


def questions(rig: Rig) -> None:
    with rig.speaker() as speaker:
        session = speaker.open_session(**ALL)
        with calling(speaker, session, "agree", {"name": "q"}) as (_, heard):
            speaker.post(
                answer_to(next(heard), {"action": "accept", "content": {"sure": True}}), mcp_session_id=session
            )
            said = next(heard)["result"]["content"][0]["text"]
        rig.expect(f"an answer posted to any machine reaches the call: {said}", "accept" in said)
        asked = round_of(modern_call(speaker, "agree", {"name": "r"}))
        answers = {key: {"action": "accept", "content": {"sure": True}} for key in asked["inputRequests"]}
        more = {"inputResponses": answers, "requestState": asked["requestState"]}
        said = outcome(modern_call(speaker, "agree", {"name": "r"}, **more))
        rig.expect(f"and so does the next round of a stateless call: {said}", "accept" in said)


def one_child(rig: Rig) -> None:
    profile = {
        "name": "one",
        "command": old_python(),
        "instances": "single",
        "arguments": [str(PEERS / "sdk_v1.py"), "stdio", "the-one"],
    }
    Operator(rig.hubs[0]).connect("one", transport="stdio", profile=profile)  # type: ignore[arg-type]
    with rig.speaker(0) as speaker:
        until(lambda: '"one.' in speaker.modern("tools/list").text)
    rig.settle()
    marks = set()
    for at in range(_MACHINES):
        with rig.speaker(at) as speaker:
            marks.add(outcome(speaker.modern_call("one.session_mark")))
    rig.expect("calls of each machine come to the one child", len(marks) == 1)
    for first in range(_MACHINES):
        more: dict[str, Any] = {}
        for step in range(3):
            with rig.speaker((first + step) % _MACHINES) as speaker:
                answer = modern_call(speaker, "one.charge", **more)
                if step == 2:
                    said = outcome(answer)
                    break
                asked = round_of(answer)
                answers = {key: ANSWERS[each["method"]] for key, each in asked["inputRequests"].items()}
                more = {"inputResponses": answers, "requestState": asked["requestState"]}
        rig.expect(f"a call that asks twice goes on at two other machines: {said}", said == "0 more, accept accept")


_FOLLOWS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
"""What a client declares that can follow tasks."""


def tasks(rig: Rig) -> None:
    with rig.speaker() as speaker:

        def ask(verb: str, task: str) -> dict[str, Any]:
            meta = {f"{META}clientCapabilities": _FOLLOWS}
            found: dict[str, Any] = speaker.modern(f"tasks/{verb}", {"taskId": task, "_meta": meta}).json()
            answer: dict[str, Any] = found.get("result", found)
            return answer

        def begun(name: str) -> str:
            answer = modern_call(speaker, "errand", {"name": name}, can=_FOLLOWS).json()
            return str(answer["result"]["taskId"])

        task = begun("t")
        got = {ask("get", task).get("status") for _ in range(6)}
        rig.expect(f"a task is followed at any machine: {got}", got == {"working"})
        rig.release("t")
        until(lambda: ask("get", task).get("status") == "completed")
        rig.expect("and its end is seen there", True)
        other = begun("u")
        until(lambda: rig.marks("u.began"))
        ask("cancel", other)
        until(lambda: rig.marks("u.cancelled"))
        rig.expect("a task is cancelled from any machine", True)


def approvals(rig: Rig) -> None:
    rig.operate(approving.demand, "tell_list")
    rig.settle()
    with rig.speaker(0) as speaker:
        call = Apart(lambda: speaker.modern_call("tell_list", {"kind": "tools"}))
        (waiting,) = until(lambda: rig.operate(approving.waiting, "tell_list", at=1))
        decided = rig.operate(approving.decide, waiting, True, at=2)
        said = outcome(call.answer())
        rig.expect(f"a call held on one machine is released from another: {decided}, {said}", said == "tools")
    rig.operate(approving.demand, "tell_list", "never", at=1)


def limits(rig: Rig) -> None:
    began = time.monotonic()
    with rig.speaker() as speaker:
        given = Counter(outcome(speaker.modern_call("tell", {"times": 0})) for _ in range(30))
    filled = _LIMIT / 60 * (time.monotonic() - began)  # while the rig asks
    words = f"a limit of {_LIMIT} calls a minute is one limit: {dict(given)}, {filled:.1f} calls more meanwhile"
    rig.expect(words, _LIMIT <= given["told 0"] <= _LIMIT + filled and set(given) <= {"told 0", "rate_limited"})


def upgrade(rig: Rig) -> None:
    """Bring in the next version while clients call; a client repeats what got no answer, under the same key."""
    over = threading.Event()
    outcomes: Counter[str] = Counter()
    made: list[str] = []

    def client(number: int) -> None:
        with rig.speaker() as speaker:
            step = 0
            while not over.is_set() or step < rig.calls:
                name = f"roll{number}x{step}"
                made.append(name)
                outcomes[_persistent(speaker, name, outcomes)] += 1
                step += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    statuses, refused = [], ""
    try:
        new = next_version(rig.hubs[0].folder.parent / "next")
        old, rig.hubs[0].home = rig.hubs[0].home, new
        rig.hubs[0].command("migrate")
        rig.hubs[0].home = old
        for hub in rig.hubs:
            statuses.append(hub.stop())
            refused = refused or not_started(hub)
            hub.home = new
            hub.start()
            hub.await_ready()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    ran = Counter(rig.marks(f"{name}.counted") for name in made)
    rig.expect(f"machines stop in order: {statuses}", statuses == [0] * _MACHINES)
    rig.expect(
        "the old version does not begin on what the next one migrated", "does not know the migrations" in refused
    )
    versions = rig.operate(operations.values, "sessions_app.ServerProcess", "version", status="running")
    rig.expect(f"{NEXT} runs everywhere: {Counter(versions)}", set(versions) == {NEXT})
    repeated = outcomes.pop("no answer", 0)
    words = f"{len(made)} calls while {NEXT} came in, {repeated} repeated: {dict(outcomes)}; ran {dict(ran)}"
    rig.expect(words, set(outcomes) == {"call number 1"} and set(ran) == {1})


def not_started(hub: Hub) -> str:
    """Return what a hub says that does not start."""
    try:
        hub.start()
    except SystemExit as error:
        return str(error)
    hub.stop()
    return "it started"


def _persistent(speaker: Speaker, name: str, outcomes: Counter[str]) -> str:
    for _ in range(20):
        try:
            answer = speaker.modern_call("count", {"name": name}, **{"mcphub/idempotencyKey": name})
        except httpx2.HTTPError:
            outcomes["no answer"] += 1
            continue
        if answer.status_code != 503:
            return outcome(answer)
    return "given up"


def a_kill(rig: Rig) -> None:
    """Kill a machine that has calls under way: the others record what became of them."""
    held = []
    for number in range(6):
        speaker = rig.speaker(2)
        held.append(
            (speaker, Apart(lambda speaker=speaker, number=number: speaker.modern_call("hold", {"name": f"k{number}"})))
        )
    until(lambda: all(rig.marks(f"k{number}.began") for number in range(6)))
    rig.hubs[2].kill()
    for speaker, call in held:
        call.settled()
        speaker.http.close()
    with rig.speaker() as speaker:
        given = Counter(outcome(speaker.modern_call("count", {"name": f"after{number}"})) for number in range(12))
    rig.expect(f"the others go on at once: {dict(given)}", set(given) == {"call number 1"})
    names = {"client_name__in": [speaker.name for speaker, _ in held]}

    def codes() -> list[str]:
        found = rig.operate(operations.values, "invocations.McpToolInvocation", "error_code", **names)
        return found if len(found) == len(held) else []

    found = until(codes)  # once it has been silent for twenty seconds
    rig.expect(f"and record what it left open: {Counter(found)}", set(found) == {"interrupted"})
    rig.hubs[2].start()
    rig.hubs[2].await_ready()


def audit(rig: Rig) -> None:
    calls = rig.operate(operations.count, "invocations.McpToolInvocation")
    said = rig.hubs[1].command("audit", "verify").strip().splitlines()[-1]
    rig.expect(f"{calls} calls, as sealed, verified on one machine: {said}", calls > 0)
    with rig.speaker() as speaker:
        listed = speaker.http.get("/api/invocations/", headers=speaker.headers(), params={"limit": 5})
    rig.expect("REST lists them through the balancer", listed.status_code == 200 and len(listed.json()["results"]) == 5)
    wrong = [
        line for hub in rig.hubs for line in hub.errors() if "prepared statement" in line or "DuplicatePrepared" in line
    ]
    rig.expect(f"no statement met another session of the pooler {wrong[:1]}", not wrong)


def without_direct(folder: Path, pooled: str) -> str:
    """Start a hub that knows the pooler alone; give what it says."""
    hub = Hub(folder / "pooled", database=pooled)
    hub.folder.mkdir()
    return not_started(hub)


def machines(stack: ExitStack, folder: Path, calls: int) -> Rig:
    direct = stack.enter_context(postgres_database(is_empty=True))
    pooled = stack.enter_context(Pooler(folder)).through(direct)
    hubs = []
    for number in range(_MACHINES):
        own = {
            "MCPHUB_DATABASE_DIRECT_URL": direct,
            "MCPHUB_PEER_ADDRESS": f"127.0.0.1:{free_port(_WORKERS)}",
            "MCPHUB_LEDGER_TIMEOUT_SECONDS": "20",  # six workers and who calls them share the processors
        }
        hub = Hub(
            folder / f"m{number}", database=pooled, workers=_WORKERS, machine=f"machine-{number}", environment=own
        )
        hub.folder.mkdir()
        hubs.append(hub)
    first = hubs[0]
    first.prepare()
    key = first.operate(operations.issue_key, "machines")
    first.operate(operations.change, "tools_catalog.McpToolDefinition", {"name": "tell"}, calls_per_minute=_LIMIT)
    first.start()
    stack.callback(first.stop)
    until((first.data / "audit" / "signing.key").exists)  # which comes after the public keys
    for other in hubs[1:]:
        other.data.mkdir()
        for name in COPIED:
            if (first.data / name).is_dir():
                shutil.copytree(first.data / name, other.data / name)
            elif (first.data / name).exists():
                shutil.copy(first.data / name, other.data / name)
        other.data.chmod(0o700)
    said = without_direct(folder, pooled)
    for hub in hubs[1:]:
        hub.start()
        stack.callback(hub.stop)
    rig = Rig(hubs, stack.enter_context(Balancer([hub.port for hub in hubs])).url, key, calls)
    rig.expect("a hub that knows the pooler alone says what is missing", "MCPHUB_DATABASE_DIRECT_URL" in said)
    return rig


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.rigs.machines", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=50, help="calls of each client during the upgrade, at least")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="machines-")))
        rig = machines(stack, folder, options.calls)
        parts = (sessions, configuration, questions, tasks, approvals, limits, one_child, upgrade, a_kill, audit)
        for part in parts:
            try:
                part(rig)
            except Exception:
                rig.expect(f"{part.__name__} came to its end: {traceback.format_exc()}", False)
    return 1 if rig.problems else 0


if __name__ == "__main__":
    sys.exit(main())
