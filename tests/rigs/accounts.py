"""Two people with accounts of their own call under renewals and kills; no call may go out with another's account.

    python -m tests.rigs.accounts --calls 10000 --kills 20 [--database postgresql] [--seed N]

A hub of two workers before an upstream and an API with one issuer, which rotates refresh tokens and ends an account
whose refresh token comes twice. Clients of both eras call tools of both. All tokens end again and again: for the hub
alone, or at the server alone. Workers are killed with signal 9 at random instants; who lost an account by that connects
it again. Each answer that names an account must name that of who asked. Exit status 0, or 1 with the mix-ups.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from tests.servers import Hub, postgres_database, until
from tests.upstreams import accounts
from tests.upstreams.conftest import Peer
from tests.upstreams.test_service_accounts import add_service, age
from tests.wire.signing_in import Client, Person
from tests.wire.speech import LEGACY, Speaker

_SUBJECTS = {"anna": "alice", "boris": "bob"}
_PAGES = {"own_whoami": "/connect/to/own/", "api_me": "/connect/service/api/"}
_CALLERS = 8
_CALLS_TO_A_RENEWAL = 40


class Rig:
    """One run: what was asked, what came, whose it was."""

    def __init__(self, hub: Hub, peer: Peer, seed: int) -> None:
        self.hub, self.peer = hub, peer
        self.random = random.Random(seed)
        self.people: dict[str, tuple[Person, str]] = {}
        self.outcomes: Counter[str] = Counter()
        self.mixed: list[str] = []
        self._connecting = threading.Lock()

    def one(self, number: int) -> None:
        """Make one call, and judge what it names."""
        name = ("anna", "boris")[number % 2]
        tool = tuple(_PAGES)[number // 2 % 2]
        in_session = number // 4 % 2 == 1
        try:
            said = self._said(name, tool, in_session)
        except (httpx2.HTTPError, KeyError, StopIteration, ValueError, AssertionError) as error:
            self.outcomes[f"broken: {type(error).__name__}"] += 1  # its worker was killed
            return
        named = [each for each in (*_SUBJECTS.values(), "lister") if f'"{each}"' in said or said == each]
        if [each for each in named if each != _SUBJECTS[name]]:
            self.mixed.append(f"call {number} of {name} to {tool}: {said[:200]}")
        elif named:
            self.outcomes["right"] += 1
        elif "onnect" in said:
            self.outcomes["reconnects"] += 1
            with self._connecting:
                self._connect(name, tool)
        else:
            self.outcomes[said[:60]] += 1

    def _said(self, name: str, tool: str, in_session: bool) -> str:
        with Speaker(self.hub.url, self.people[name][1]) as speaker:
            if in_session:
                answer = speaker.call(speaker.open_session(LEGACY), tool).json()
            else:
                answer = speaker.modern_call(tool).json()
        return str(answer["result"]["content"][0]["text"]) if "result" in answer else str(answer["error"]["message"])

    def _connect(self, name: str, tool: str) -> None:
        try:
            accounts.connect(self.people[name][0], _PAGES[tool], _SUBJECTS[name])
        except (httpx2.HTTPError, AssertionError, KeyError) as error:
            self.outcomes[f"not connected: {type(error).__name__}"] += 1

    def end_tokens(self) -> None:
        if self.random.random() < 0.5:
            accounts.control(self.peer.url, expire=True)
        else:
            self.hub.operate(accounts.age_tokens, "own")
            self.hub.operate(age, "api")

    def kill_a_worker(self) -> None:
        children = Path(f"/proc/{self.hub.pid}/task/{self.hub.pid}/children")
        while workers := [pid for pid in children.read_text().split() if _may_be_worker(pid)]:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(int(self.random.choice(workers)), signal.SIGKILL)
                self.outcomes["workers killed"] += 1
                return


def _may_be_worker(pid: str) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with ExitStack() as stack:
        environment = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1,localhost"}
        if options.database == "postgresql":
            environment["MCPHUB_DATABASE_URL"] = stack.enter_context(postgres_database())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-accounts-")))
        peer = stack.enter_context(Peer("oauth.py"))
        hub = stack.enter_context(accounts.hub_url(Hub(folder, flags=["--workers", "2"], environment=environment)))
        rig = Rig(hub, peer, options.seed)
        _set_up(rig, stack)
        _run(rig, options.calls, options.kills)
        counted = accounts.control(peer.url)
    print(dict(rig.outcomes), {"renewals": counted["refreshes"], "refresh tokens sent twice": counted["reused"]})
    for words in rig.mixed[:20]:
        print("✗", words, file=sys.stderr)
    print(f"{options.calls} calls, {len(rig.mixed)} mix-ups")
    return 1 if rig.mixed or rig.outcomes["right"] < options.calls / 2 else 0


def _set_up(rig: Rig, stack: ExitStack) -> None:
    hub, parts = rig.hub, urlsplit(rig.peer.url)
    client, chief = stack.enter_context(Client(hub)), stack.enter_context(Person(hub, "chief"))
    hub.operate(accounts.make_operator, "chief")
    for name in _SUBJECTS:
        person = stack.enter_context(Person(hub, name))
        rig.people[name] = person, client.sign_in(person)["access_token"]
    hub.operate(accounts.add, "own", rig.peer.url, "personal")
    accounts.connect(chief, "/connect/to/own/?as=all", "lister")
    origin = f"{parts.scheme}://{parts.netloc}"
    hub.operate(add_service, "api", origin, "personal", issuer=origin, account_scopes="read")
    until(lambda: all("onnect" in rig._said("anna", tool, False) for tool in _PAGES), seconds=60)
    for name in _SUBJECTS:
        for tool in _PAGES:
            rig._connect(name, tool)


def _run(rig: Rig, calls: int, kills: int) -> None:
    to_a_kill = max(1, calls // max(1, kills))
    with ThreadPoolExecutor(_CALLERS) as callers:
        for begin in range(0, calls, _CALLS_TO_A_RENEWAL):
            numbers = range(begin, min(calls, begin + _CALLS_TO_A_RENEWAL))
            under_way = [callers.submit(rig.one, number) for number in numbers]
            rig.end_tokens()
            if kills and any(number % to_a_kill == to_a_kill - 1 for number in numbers):
                under_way[rig.random.randrange(len(under_way))].result()  # somewhere in the middle
                rig.kill_a_worker()
            for each in under_way:
                each.result()


if __name__ == "__main__":
    sys.exit(main())
