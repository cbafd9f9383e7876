"""Events of an upstream through SIGKILL to the worker that receives them: each once at webhook, stream and poller.

    python -m tests.rigs.relayed_events --events 2000 --kills 3

A hub with two workers on PostgreSQL follows one stream of an upstream. While it emits, the worker with the upstream's
lease is killed again and again. The stream's and the poller's client go on from their last cursors. A callback knows an
event that is sent once more by its `webhook-id`; how many were is printed. Exit status 0, or 1 with the reasons.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import functools
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from tests import operations
from tests.features.events import operations as events
from tests.features.events.receivers import CallbackReceiver
from tests.features.events.upstream import EventUpstream, event, event_type
from tests.rigs.process import Hub
from tests.servers import postgres_database, until
from tests.upstreams import connecting
from tests.wire.speech import Speaker

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
NAME = "shop/order.sent"
_BURST = 10
_PATIENCE_SECONDS = 1800


class Subscriber(threading.Thread):
    """A client on a thread of its own, which goes on from its last cursor whatever breaks."""

    def __init__(self, hub: Hub, key: str, cursor: str, follow: Callable[[Subscriber, Speaker], None]) -> None:
        super().__init__(daemon=True)
        self.got: list[int] = []
        self.cursor = cursor
        self.is_over = False
        self.breaks = 0
        self._hub, self._key, self._follow = hub, key, follow

    def run(self) -> None:
        while not self.is_over:
            try:
                with Speaker(self._hub.url, self._key) as speaker:
                    while not self.is_over:
                        self._follow(self, speaker)
            except (httpx2.HTTPError, json.JSONDecodeError, KeyError, OSError):
                self.breaks += 1

    def take(self, data: dict[str, Any]) -> None:
        self.got.append(data["number"])


def poll(client: Subscriber, speaker: Speaker) -> None:
    page = speaker.modern("events/poll", {"name": NAME, "cursor": client.cursor}).json()["result"]
    for each in page["events"]:
        client.take(each["data"])
    client.cursor = page["cursor"]


def stream(client: Subscriber, speaker: Speaker) -> None:
    params = {"name": NAME, "cursor": client.cursor}
    body, headers = speaker.modern_body("events/stream", params, "s"), speaker.modern_headers("events/stream", params)
    with speaker.streaming("POST", body, **headers) as (_, messages):
        for message in messages:
            if client.is_over:
                return
            if message.get("method") == "notifications/events/event":
                client.take(message["params"]["data"])
            client.cursor = message.get("params", {}).get("cursor", client.cursor)


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--events", type=int, default=2000)
    options.add_argument("--kills", type=int, default=3)
    asked = options.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(EventUpstream([event_type("order.sent", "push")]))
        receiver = stack.enter_context(CallbackReceiver(folder, [SECRET]))
        hub = Hub(
            folder / "hub",
            database=stack.enter_context(postgres_database()),
            workers=2,
            environment={
                "MCPHUB_APPS": "tests.features.events.trusting",
                "RECEIVER_CERTIFICATE": str(receiver.certificate),
                "MCPHUB_EGRESS_ALLOW": "127.0.0.1",
            },
        )
        os.environ["RECEIVER_CERTIFICATE"] = str(receiver.certificate)  # also for those who look at the hub's rows
        hub.folder.mkdir()
        hub.start()
        stack.callback(hub.kill)
        hub.await_ready()
        return _run(hub, upstream, receiver, asked.events, asked.kills)


def _run(hub: Hub, upstream: EventUpstream, receiver: CallbackReceiver, count: int, kills: int) -> int:
    hub.operate(connecting.connect, {"slug": "shop", "transport": "streamable-http", "url": upstream.url})
    until(lambda: hub.operate(operations.values, "events.UpstreamEvent", "name") == [NAME])
    hub.operate(operations.approve_offers, "shop")
    hub.operate(events.approve_event, NAME)
    until(lambda: upstream.streaming == 1)
    key = hub.operate(operations.issue_key, "rig", ["tools:list"])
    with Speaker(hub.url, key) as speaker:
        until(lambda: "result" in speaker.modern("events/poll", {"name": NAME}).json())
        cursor = speaker.modern("events/poll", {"name": NAME}).json()["result"]["cursor"]
        wish = {"name": NAME, "cursor": cursor, "delivery": {"url": receiver.url, "secret": SECRET}}
        assert "result" in speaker.modern("events/subscribe", wish).json()
    clients = {"stream": Subscriber(hub, key, cursor, stream), "poll": Subscriber(hub, key, cursor, poll)}
    for client in clients.values():
        client.start()
    began, killed = time.monotonic(), 0
    for start in range(0, count, _BURST):
        upstream.emit("order.sent", *(event("order.sent", n) for n in range(start, min(start + _BURST, count))))
        if start >= count * (killed + 1) / (kills + 1):
            # Not before the hub receives: else a kill would find nobody at work.
            until(functools.partial(_is_under_way, upstream, clients["poll"], start // 2))
            until(functools.partial(_has_killed, hub))
            killed += 1
    with contextlib.suppress(AssertionError):
        until(
            lambda: (
                all(len(set(client.got)) == count for client in clients.values())
                and len({each["eventId"] for each in receiver.events}) == count
            ),
            _PATIENCE_SECONDS,
        )
    took = time.monotonic() - began
    for client in clients.values():
        client.is_over = True
    by_id = {each["eventId"]: each["data"]["number"] for each in receiver.events}
    again = len(receiver.events) - len(by_id)
    got = {name: client.got for name, client in clients.items()} | {"webhook": list(by_id.values())}
    problems = []
    for name, numbers in got.items():
        times = Counter(numbers)
        lost, doubled = count - len(times), sum(number - 1 for number in times.values())
        print(f"{name}: {len(times)} of {count} events, {lost} lost, {doubled} doubled", flush=True)
        problems += [name] if lost or doubled else []
    breaks = ", ".join(f"{name} {client.breaks}" for name, client in clients.items())
    opened = sum(method == "events/stream" for method, _ in upstream.asked)
    print(f"{killed} kills, {took:.0f} s; streams opened at the upstream: {opened}; breaks of clients: {breaks}")
    print(f"sent once more to the callback, under the same webhook-id: {again}")
    return 1 if problems else 0


def _has_killed(hub: Hub) -> bool:
    """Kill the workers that receive; return whether there were any. A lease may name one that has just ended."""
    found = 0
    for worker in hub.operate(events.receivers):
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
            found += 1
    return found > 0


def _is_under_way(upstream: EventUpstream, client: Subscriber, count: int) -> bool:
    return upstream.streaming == 1 and len(client.got) > count


if __name__ == "__main__":
    sys.exit(main())
