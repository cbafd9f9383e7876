"""Floods: of headers, sockets, unanswered calls, costly bodies and guesses, while another key goes on."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median

import httpx2

from tests import operations
from tests.rigs.attacks import rows
from tests.rigs.attacks.target import CALLS, CONNECTIONS, Attack, Target, need
from tests.servers import until
from tests.wire.speech import Speaker
from tests.wire.test_login import Browser
from tests.wire.toolbox import Apart, Box

SOCKETS = 1000
GUESSES = 200
SLOW_SECONDS = 2.0
"""The longest wait of a bystander beside a flood on a loaded machine."""
PING_SECONDS, PING_GOAL_SECONDS = 1.0, 0.1
"""The longest delay of another key's ping by a body of less than three seconds, on a loaded machine; and the goal on a
quiet one.
"""
ENDINGS = 3
"""Keys and people that end beside loaded workers."""
_TRIES = 6
_PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
_USER = "urn:ietf:params:scim:schemas:core:2.0:User"
ELSEWHERE = "127.0.0.2"
"""Another address of this machine, for who is no part of the flood."""


def long_headers(target: Target) -> str:
    """Four sockets that send headers without end."""
    before = target.resident_mib()
    sent = 0
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", target.hub.port), timeout=20) as line:
            line.sendall(b"GET /live HTTP/1.1\r\nX-Endless: ")
            with contextlib.suppress(OSError):
                while sent < 256 * 2**20:
                    sent += line.send(b"x" * 65536)
    grown = target.resident_mib() - before
    need(grown < 64, f"the hub grew by {grown:.0f} MiB")
    need(sent < 64 * 2**20, f"it took {sent >> 20} MiB of headers")
    return f"it took {sent >> 10} KiB of headers and grew by {max(grown, 0):.0f} MiB"


def many_sockets(target: Target) -> str:
    """A thousand sockets that dribble, of one address and of twenty; somebody else asks for probes and the console."""
    opened: list[socket.socket] = []
    try:
        for number in range(SOCKETS):
            with contextlib.suppress(OSError):
                address = "127.0.0.1" if number < SOCKETS // 2 else f"127.0.1.{number % 20}"
                line = socket.create_connection(("127.0.0.1", target.hub.port), timeout=5, source_address=(address, 0))
                opened.append(line)
                line.sendall(b"GET" if number % 2 else b"GET /live HTTP/1.1\r\nX-Slow: ")
        took = {}
        transport = httpx2.HTTPTransport(local_address=ELSEWHERE)
        with httpx2.Client(base_url=target.hub.url, transport=transport, timeout=30) as client:
            for path in ("/live", "/ready", "/admin/login/"):
                began = time.monotonic()
                status = client.get(path).status_code
                took[path] = time.monotonic() - began
                need(status == 200, f"{path} was answered with {status}")
    finally:
        for line in opened:
            line.close()
    need(max(took.values()) < SLOW_SECONDS, f"slow: {took}")
    until(lambda: httpx2.get(f"{target.hub.url}/live", timeout=30).status_code == 200, 60)
    said = ", ".join(f"{path} in {seconds * 1000:.0f} ms" for path, seconds in took.items())
    return f"{len(opened)} sockets were opened, {CONNECTIONS} may be; beside them {said}"


def greedy_key(target: Target) -> str:
    """One key that fills every place with calls nobody ends; another one calls; then the greedy key is revoked."""
    greedy, box = target.key("greedy"), Box(target.hub)
    with contextlib.ExitStack() as stack:
        speakers = [stack.enter_context(Speaker(target.hub.url, greedy)) for _ in range(2 * CALLS * target.workers)]
        calls = [Apart(lambda one=one: one.modern_call("hold", {"name": box.name})) for one in speakers]
        until(lambda: box.has("began"))
        with Speaker(target.hub.url, target.hub.key) as other:
            began = time.monotonic()
            answers = [other.modern_call("add", {"a": 1, "b": 2}) for _ in range(20)]
            slowest = (time.monotonic() - began) / len(answers)
        statuses = Counter(answer.status_code for answer in answers)
        wrong = [answer.text[:200] for answer in answers if "structuredContent" not in answer.text]
        target.hub.operate(operations.revoke_key, "greedy", "attack")
        ended = [call.settled() for call in calls]
    need(not wrong, f"the other key got {statuses}: {wrong[:1]}")
    need(slowest < SLOW_SECONDS, f"a call of the other key took {slowest:.1f} s")
    told = Counter(_outcome(answer) for answer in ended)
    return f"{len(calls)} calls of one key ended {dict(told)}; another key's took {slowest * 1000:.0f} ms each"


def _outcome(answer: httpx2.Response | None) -> str:
    if answer is None:
        return "without answer"
    for word in ("rate_limited", "server_busy", "cancelled", "unauthorized", "was released"):
        if word in answer.text:
            return word
    return f"status {answer.status_code}"


def many_streams(target: Target) -> str:
    """One key that opens streams on one session, from many addresses, for as long as it is let; another one calls."""
    greedy = target.key("listens")
    statuses: Counter[str] = Counter()
    opened: list[socket.socket] = []
    with Speaker(target.hub.url, greedy) as speaker:
        asked = (
            f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{target.hub.port}\r\nAuthorization: Bearer {greedy}\r\n"
            f"Accept: text/event-stream\r\nMcp-Session-Id: {speaker.open_session()}\r\n\r\n"
        )
        try:
            for number in range(SOCKETS):
                with contextlib.suppress(OSError):
                    address = ("127.0.0.1", target.hub.port)
                    line = socket.create_connection(address, 20, source_address=(f"127.0.2.{1 + number % 40}", 0))
                    opened.append(line)
                    line.sendall(asked.encode())
                    statuses[line.recv(200)[9:12].decode() or "closed"] += 1
            transport = httpx2.HTTPTransport(local_address=ELSEWHERE)
            with Speaker(target.hub.url, target.hub.key) as other:
                other.http.close()
                other.http = httpx2.Client(base_url=target.hub.url, transport=transport, timeout=30)
                took = []
                for _ in range(20):
                    began = time.monotonic()
                    answer = other.modern("server/discover")
                    took.append(time.monotonic() - began)
                    need(answer.status_code == 200, f"another key got {answer.status_code}: {answer.text[:200]}")
        finally:
            for line in opened:
                line.close()
    most = CONNECTIONS * 3 // 4 * target.workers
    need(statuses["200"] <= most, f"{statuses['200']} streams were opened, {most} may be")
    need(max(took) < SLOW_SECONDS, f"another key waited {max(took):.1f} s")
    until(lambda: httpx2.get(f"{target.hub.url}/live", timeout=30).status_code == 200, 60)
    return (
        f"{SOCKETS} streams were answered with {dict(statuses)}; another key waited {max(took) * 1000:.0f} ms at most"
    )


def revoked_key(target: Target) -> str:
    """Streams, a call and a session that are open when their key is revoked."""
    key, box = target.key("revoked"), Box(target.hub)
    with Speaker(target.hub.url, key) as speaker:
        session = speaker.open_session()
        with (
            speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, listening),
            speaker.streaming("GET", path="/sse", content_type=None) as (_, old),
        ):
            assert "endpoint" in next(old)
            call = Apart(lambda: speaker.call(session, "hold", {"name": box.name}))
            until(lambda: box.has("began"))
            target.hub.operate(operations.revoke_key, "revoked", "attack")
            began = time.monotonic()
            rest = [*listening, *old]
            outcome = _outcome(call.settled())
            took = time.monotonic() - began
        need(not rest, f"the streams still said {rest}")
        need(outcome == "cancelled", f"the call ended {outcome}")
        status = speaker.in_session(session, "ping").status_code
    need(status == 401, f"the session still answers {status}")
    need(took < SLOW_SECONDS, f"they ended after {took:.1f} s")
    return f"two streams and a call ended within {took * 1000:.0f} ms of the commit, the call as cancelled"


def beside_loaded_workers(target: Target) -> str:
    """Keys that are revoked, and people whom a directory disables, while three other keys keep all workers at work."""
    stop = threading.Event()
    greedy = [target.key(f"loads{number}") for number in range(3)]
    load = [threading.Thread(target=_loads, args=(target, key, stop), daemon=True) for key in greedy for _ in range(4)]
    for thread in load:
        thread.start()
    late: dict[str, list[float]] = {}
    scim = {"content-type": "application/scim+json"}
    off = {"schemas": [_PATCH], "Operations": [{"op": "replace", "path": "active", "value": False}]}
    try:
        with (
            target.rest(target.key("offboards", "people:write")) as directory,
            target.rest(target.key("revokes", "keys:write")) as keys,
        ):
            for number in range(ENDINGS):
                name = f"leaves{number}"
                made = directory.post("/scim/v2/Users", json={"schemas": [_USER], "userName": name}, headers=scim)
                assert made.status_code == 201, made.text
                own, other = (target.hub.operate(rows.own_key, each, name) for each in (name, f"{name}-other"))
                [prefix] = target.hub.operate(operations.values, "sessions_app.ApiKey", "prefix", name=f"{name}-other")
                path, key = f"/scim/v2/Users/{made.json()['id']}", f"/api/keys/{prefix}/revoke/"
                endings: dict[str, tuple[str, Callable[[], httpx2.Response]]] = {
                    "revoked": (other, lambda key=key: keys.post(key)),
                    "disabled": (own, lambda path=path: directory.patch(path, json=off, headers=scim)),
                }
                for way, (text, end) in endings.items():
                    late.setdefault(way, []).append(_taken_after(target, text, end))
    finally:
        stop.set()
        for thread in load:
            thread.join(30)
    said = ", ".join(
        f"{way}: {median(found) * 1000:.0f} ms in the middle, {max(found) * 1000:.0f} at most"
        for way, found in late.items()
    )
    need(max(map(max, late.values())) < SLOW_SECONDS, f"a request that began later than the answer was served: {said}")
    return f"the last request served began after the end was answered by ({ENDINGS} of each) {said}"


def _loads(target: Target, key: str, stop: threading.Event) -> None:
    with Speaker(target.hub.url, key) as speaker:
        while not stop.is_set():
            speaker.modern_call("add", {"a": 1, "b": 2})


def _taken_after(target: Target, key: str, end: Callable[[], httpx2.Response]) -> float:
    """End a key by a request; return after how many seconds from its answer the last request began that was served."""
    served: list[float] = []
    statuses: Counter[int] = Counter()
    ready, ended_wrong = threading.Barrier(_TRIES + 1), threading.Event()

    def keep_on() -> None:
        with Speaker(target.hub.url, key) as speaker:
            until(lambda: speaker.modern("tools/list").status_code == 200)
            ready.wait(60)
            refused = 0
            while refused < 5 and not ended_wrong.is_set():
                began = time.monotonic()
                status = speaker.modern("tools/list").status_code
                statuses[status] += 1
                if status == 200:
                    served.append(began)
                    refused = 0
                else:
                    refused += 1

    # Connections fall to the workers by chance: enough of them that each worker is asked.
    with ThreadPoolExecutor(_TRIES) as threads:
        tries = [threads.submit(keep_on) for _ in range(_TRIES)]
        ready.wait(60)
        until(lambda: len(served) >= _TRIES)
        answer = end()
        answered = time.monotonic()
        if not answer.is_success:
            ended_wrong.set()
        for each in tries:
            each.result(60)
    assert answer.is_success, answer.text
    assert set(statuses) == {200, 401}, statuses
    return max(0.0, max(served) - answered)


@dataclass
class Pings:
    """How long another key waits for its pings, all the while."""

    slowest: float = 0.0
    count: int = 0
    problems: list[str] = field(default_factory=list)


@contextlib.contextmanager
def pinging(target: Target) -> Iterator[Pings]:
    found, stop = Pings(), threading.Event()

    def ping() -> None:
        with Speaker(target.hub.url, target.hub.key) as speaker:
            session = speaker.open_session()
            while not stop.is_set():
                began = time.monotonic()
                status = speaker.in_session(session, "ping").status_code
                found.slowest = max(found.slowest, time.monotonic() - began)
                found.count += 1
                if status != 200:
                    found.problems.append(f"status {status}")

    # Connections fall to the workers by chance: enough of them that the worker with the body is among theirs.
    threads = [threading.Thread(target=ping, daemon=True) for _ in range(1 if target.workers == 1 else 4)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: found.count > 3 * len(threads))
        yield found
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)


def costly_bodies(target: Target) -> str:
    """The worst body of each kind, just under the bound of 4 MiB."""
    with target.rest(target.key("schemer", "catalog:write", "tools:list")) as editor:
        schemas = {
            "numbers": {"items": {"multipleOf": 0.0001}},
            "texts": {"items": {"anyOf": [{"const": f"choice {number}"} for number in range(200)]}},
        }
        for name, items in schemas.items():
            schema = {"type": "object", "properties": {"list": {"type": "array", **items}}}
            tool = {"name": f"costly_{name}", "description": "x", "input_schema": schema, "backend": "http"}
            made = editor.post(
                "/api/tool-definitions/", json={**tool, "configuration": {"url": "https://api.example.org/x"}}
            )
            assert made.status_code == 201, made.text
    most = 4 * 2**20 - 4096
    bodies: dict[str, bytes] = {
        "empty objects": b"[" + b"{}," * (most // 3 - 2) + b"{}]",
        "brackets": b"[" * (most // 2) + b"]" * (most // 2),
        "a number": b"1" * most,
        "members": b"{" + b",".join(b'"%d":1' % number for number in range(300_000)) + b"}",
    }
    took: dict[str, float] = {}
    work: dict[str, float] = {}
    with Speaker(target.hub.url, target.key("costly")) as speaker:
        until(lambda: "costly_texts" in speaker.modern("tools/list").text)
        speaker.http.timeout = 60
        headers: dict[str, dict[str, str | None]] = {name: {} for name in bodies}
        for name, tool, items in (
            ("multipleOf", "costly_numbers", [number + 0.123 for number in range(250_000)]),
            ("const", "costly_texts", ["none of them"] * 250_000),
            ("few const", "costly_texts", ["none of them"] * 90_000),
        ):
            params = {"name": tool, "arguments": {"list": items}}
            # Written before the pings begin: this process is no part of what is measured.
            bodies[name] = json.dumps(speaker.modern_body("tools/call", params)).encode()
            headers[name] = speaker.modern_headers("tools/call", params)
        answered = {}
        for name, body in bodies.items():
            with pinging(target) as pings:
                began = time.monotonic()
                answered[name] = speaker.post(body, **headers[name])
                work[name] = time.monotonic() - began
            took[name] = pings.slowest
            need(not pings.problems, f"beside {name} another key got {pings.problems[:1]}")
    said = ", ".join(f"{name} {seconds * 1000:.0f} ms ({answered[name].status_code})" for name, seconds in took.items())
    # A body that held the loop would delay a ping for as long as it is worked on, on a machine of any speed.
    held = [name for name, seconds in took.items() if seconds > max(PING_SECONDS, work[name] / 3)]
    need(not held, f"another key's slowest ping: {said}")
    beyond = [name for name, seconds in took.items() if seconds > PING_GOAL_SECONDS]
    missed = f"; beyond the goal of {PING_GOAL_SECONDS * 1000:.0f} ms: {', '.join(beyond)}" if beyond else ""
    return f"another key's slowest ping beside it: {said}{missed}"


def guesses(target: Target) -> str:
    """Guesses at one name, forty at once, while somebody opens the login page."""
    name = "guessed"
    target.hub.operate(operations.create_superuser, name, "a long password")
    browsers = [Browser(target.hub, "") for _ in range(40)]
    try:
        slowest = 0.0
        with ThreadPoolExecutor(40) as threads:
            under_way = [threads.submit(browsers[at % 40].guess, name) for at in range(GUESSES)]
            while not all(guess.done() for guess in under_way):
                began = time.monotonic()
                assert httpx2.get(f"{target.hub.url}/admin/login/", timeout=60).status_code == 200
                slowest = max(slowest, time.monotonic() - began)
            statuses = Counter(guess.result().status_code for guess in under_way)
    finally:
        for browser in browsers:
            browser.http.close()
    kinds = target.hub.operate(operations.values, "sessions_app.AuditEvent", "kind", kind__startswith="login.")
    told = dict(Counter(kinds))
    need(statuses[429] + statuses[503] > GUESSES // 2, f"answered with {dict(statuses)}")
    need("login.failed" in told, f"the events are {told}")
    need(slowest < 5, f"the page took {slowest:.1f} s")
    return f"answered with {dict(statuses)}; events {json.dumps(told)}; the page took {slowest * 1000:.0f} ms at most"


ATTACKS = [
    Attack("4a", "four sockets with headers without end", long_headers),
    Attack("4b", "a thousand sockets that dribble", many_sockets),
    Attack("4c", "one key opens a thousand streams on a session", many_streams),
    Attack("5", "one key holds all places", greedy_key),
    Attack("6", "what is open outlives its key", revoked_key),
    Attack("6b", "a key goes on while workers are busy, or its person is disabled", beside_loaded_workers),
    Attack("7", "one body holds the event loop", costly_bodies),
    Attack("8", "two hundred guesses at a password", guesses),
]
