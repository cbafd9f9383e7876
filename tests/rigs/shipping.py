"""Kill the shipping process at random instants while calls are made, and compare what its targets got with the log.

    python -m tests.rigs.shipping --kills 20 [--database sqlite|postgresql] [--workers N] [--seed N]

Two targets are shipped to: a folder, and a webhook whose receiver breaks off every few deliveries, before or after it
has taken them. At the end both have every row of the log, in order, and what each of them kept verifies as an export.
Exit status 0, or 1 with the reasons.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from invocations.chain.verifier import main as verify
from mcphub.features.audit_export.joining import join
from tests.features.audit_export import rows
from tests.features.audit_export.receivers import HttpReceiver
from tests.servers import Hub, postgres_database, until
from tests.wire.speech import Speaker

SETTINGS = {"MCPHUB_LIMITS": "seal_seconds=0.1, shipping_behind_seconds=1", "MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
_SECONDS = 120


def shipper_of(hub: Hub) -> int | None:
    """Return the process id of a hub's shipping process."""
    parents: dict[int, int] = {}
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            with contextlib.suppress(OSError):
                parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
                if b"mcphub.features.audit_export.process" in (each / "cmdline").read_bytes():
                    found.append(int(each.name))
    for pid in found:
        at = pid
        while at in parents:
            at = parents[at]
            if at == hub.pid:
                return pid
    return None


class BreakingReceiver(HttpReceiver):
    """Takes a delivery, or answers 503 before or after it was kept, as its dice say."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice

    def judge(self) -> None:
        self.status, self.keeps_anyway = self._dice.choice([(200, False)] * 6 + [(503, False), (503, True)])


def run(hub: Hub, kills: int, dice: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
    """Return of each promise what broke it, or nothing; and figures."""
    with BreakingReceiver(dice) as receiver:
        hub.operate(rows.add_target, name="files", kind="folder", address="files", with_bodies=True)
        hub.operate(rows.add_target, name="hook", kind="webhook", address=receiver.url)
        ending = threading.Event()
        made = [0]

        def call() -> None:
            with Speaker(hub.url, hub.key) as speaker:
                while not ending.is_set():
                    assert speaker.modern_call("echo", {"text": f"no {made[0]}"}).status_code == 200
                    made[0] += 1
                    receiver.judge()
                    time.sleep(0.005)  # calls are what the rig goes by, not what it measures

        caller = threading.Thread(target=call)
        caller.start()
        killed = 0
        try:
            for _ in range(kills):
                pid = until(lambda: shipper_of(hub), _SECONDS)
                before = sum(hub.operate(rows.standing)["rows"].values())
                # Some come while it begins, others in the middle of deliveries.
                if dice.random() < 0.7:
                    until(lambda least=before: sum(hub.operate(rows.standing)["rows"].values()) > least, _SECONDS)
                time.sleep(dice.random() / 5)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
                until(lambda dead=pid: shipper_of(hub) != dead, _SECONDS)
        finally:
            ending.set()
            caller.join()
            receiver.status, receiver.keeps_anyway = 200, False

        def has_all() -> bool:
            now = hub.operate(rows.standing)
            return now["is_sealed"] and set(now["targets"].values()) == {now["end"]}

        until(has_all, _SECONDS)
        now = hub.operate(rows.standing)
        kept = hub.folder / "hook.jsonl"
        kept.write_bytes(b"".join(each.body for each in receiver.got))
    found: dict[str, str] = {}
    for name, files in (("files", [hub.data / "shipped" / "files"]), ("hook", [kept])):
        whole = hub.folder / f"{name}-joined.jsonl"
        with whole.open("wb") as out:
            _, joined = join(files, out)
        found[f"{name}: every row is there"] = "" if joined == now["end"] else f"{joined} of {now['end']}"
        texts = {
            json.loads(each["values"]["arguments"])["text"]
            for each in map(json.loads, whole.read_bytes().splitlines())
            if each.get("row") == "invocation" and name == "files"
        }
        if name == "files":
            missing = [number for number in range(made[0]) if f"no {number}" not in texts]
            found["files: every call is there"] = f"{len(missing)} are missing, as {missing[:5]}" if missing else ""
        with contextlib.redirect_stdout(sys.stderr):
            status = verify([str(whole), "--key", str(hub.data / "audit" / "public.keys")])
        found[f"{name}: it verifies"] = "" if status == 0 else f"status {status}"
    lines = {"files": 0, "hook": kept.read_bytes().count(b'"position":')}
    for each in (hub.data / "shipped" / "files").iterdir():
        lines["files"] += each.read_bytes().count(b'"position":')
    repeated = {name: got - now["end"] for name, got in lines.items()}
    return found, {"calls": made[0], "rows": now["end"], "kills": killed, "rows that came again": repeated}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with contextlib.ExitStack() as stack:
        environment = dict(SETTINGS)
        if options.database == "postgresql":
            environment["MCPHUB_DATABASE_URL"] = stack.enter_context(postgres_database())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shipping-")))
        flags = ["--workers", str(options.workers)] if options.workers > 1 else []
        hub = stack.enter_context(Hub(folder / "hub", environment=environment, flags=flags))
        found, figures = run(hub, options.kills, random.Random(options.seed))
    for promise, why in found.items():
        print(f"{'BROKEN' if why else 'held':7} {promise}{': ' + why if why else ''}")
    print(figures)
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
