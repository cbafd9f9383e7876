"""Places for checkpoints: a file, a syslog, a webhook. Needs no Django.

A place receives a signed note and returns whether it arrived. One more, such as an object store with a lock or a
witness, is a class with `name` and `put`, and a line in `place_of`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from invocations.chain.watching import append

if TYPE_CHECKING:
    from sessions_app.protocol.json import Json

PATIENCE_SECONDS = 10.0
"""For one attempt of a place on the network."""
_LONGEST_PAUSE_SECONDS = 60.0
_AUDIT_NOTICE = 13 * 8 + 5
"""RFC 5424, 6.2.1: facility 13, log audit; severity 5, notice."""


class Undelivered(Exception):
    """The note did not arrive. The message is the reason, without secrets of the address."""


class CheckpointPlace(Protocol):
    @property
    def name(self) -> str:
        """The name in logs, without secrets."""

    def put(self, note: str) -> None:
        """Hand over a signed note; raise Undelivered or OSError where it did not arrive. Ends within seconds."""


class FilePlace:
    """Appends to a file, which is best on a disk where files only grow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def put(self, note: str) -> None:
        append(self.path, [note])


class SyslogPlace:
    """Sends a message of RFC 5424 over UDP, TCP (RFC 6587, octets counted) or a unix socket.

    The standard library's handler is not used: it swallows failures, waits without end and cannot frame TCP.
    """

    def __init__(self, address: str) -> None:
        """`address`: udp://host:514, tcp://host:601 or unix:/dev/log."""
        self.name = f"syslog {address}"
        self._address = urlsplit(address)

    def put(self, note: str) -> None:
        message = syslog_message(note)
        if self._address.scheme == "unix":
            self._to_unix(message)
            return
        where = (self._address.hostname or "", self._address.port or 0)
        if self._address.scheme == "tcp":
            with socket.create_connection(where, timeout=PATIENCE_SECONDS) as line:
                line.sendall(b"%d %b" % (len(message), message))
            return
        family, kind, protocol, _, found = socket.getaddrinfo(*where, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as line:
            line.settimeout(PATIENCE_SECONDS)
            line.connect(found)
            line.send(message)

    def _to_unix(self, message: bytes) -> None:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            with socket.socket(socket.AF_UNIX, kind) as line:
                line.settimeout(PATIENCE_SECONDS)
                try:
                    line.connect(self._address.path)
                except OSError as error:
                    if kind is socket.SOCK_DGRAM and error.errno == errno.EPROTOTYPE:
                        continue
                    raise
                line.sendall(message if kind is socket.SOCK_DGRAM else message + b"\n")
                return


def syslog_message(note: str) -> bytes:
    """Return a note as one message of RFC 5424; its lines stand behind one another, parted by ` | `."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    host = "".join(letter for letter in socket.gethostname() if "!" <= letter <= "~")[:255] or "-"
    line = one_line(note)
    return f"<{_AUDIT_NOTICE}>1 {now} {host} mcphub {os.getpid()} checkpoint - {line}".encode()


def one_line(note: str) -> str:
    return note.strip("\n").replace("\n", " | ")


class WebhookPlace:
    """POSTs the note, through the egress guard; any status of 200 to 299 means that it arrived. Follows no redirect."""

    def __init__(self, url: str, allow: tuple[str, ...] = (), proxy: str = "") -> None:
        """`allow` and `proxy` are those of the hub's other requests."""
        self._url, self._allow, self._proxy = url, allow, proxy
        parts = urlsplit(url)
        # Paths and queries of webhooks are often their password.
        self.name = f"webhook {parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")

    def put(self, note: str) -> None:
        asyncio.run(self._post(note.encode()))

    async def _post(self, body: bytes) -> None:
        import httpx2  # not in a sealing process without webhook: it takes megabytes

        from sessions_app.protocol.errors import HubError
        from tools_catalog.egress import guard
        from tools_catalog.egress.rules import EgressPolicy

        try:
            async with (
                asyncio.timeout(PATIENCE_SECONDS),
                guard.client(EgressPolicy(self._allow), timeout_seconds=PATIENCE_SECONDS, proxy=self._proxy) as client,
                guard.stream(
                    client,
                    "POST",
                    self._url,
                    headers={"content-type": "text/plain; charset=utf-8"},
                    content=body,
                    max_redirects=0,
                ) as answer,
            ):
                if not answer.is_success:
                    raise Undelivered(f"it answered with status {answer.status_code}")
        except TimeoutError as error:
            raise Undelivered(f"it did not answer in {PATIENCE_SECONDS:.0f} seconds") from error
        except (HubError, httpx2.HTTPError) as error:
            raise Undelivered(str(error) or type(error).__name__) from error


def place_of(words: Mapping[str, Json]) -> CheckpointPlace:
    """Return the place that these words, which JSON carries, describe."""
    match words["kind"]:
        case "file":
            return FilePlace(Path(words["path"]))
        case "syslog":
            return SyslogPlace(words["address"])
        case "webhook":
            return WebhookPlace(words["url"], tuple(words["allow"]), words["proxy"])
    raise ValueError(f"There is no place for checkpoints of the kind {words['kind']!r}.")


class CheckpointDelivery:
    """Brings the newest note to a place, in a thread of its own, again and again until it arrives.

    One note waits at most: the next one covers all that the one before it did.
    """

    def __init__(self, place: CheckpointPlace, tries: int, first_pause_seconds: float) -> None:
        self._place = place
        self._tries = tries
        self._first_pause = first_pause_seconds
        self._condition = threading.Condition()
        self._waiting: str | None = None
        self._is_ending = False
        self._failures = 0
        self.problem = ""
        """The problem since this many attempts; empty if the last note arrived."""
        self._thread = threading.Thread(target=self._work, name="mcphub-checkpoints", daemon=True)
        self._thread.start()

    def hand(self, note: str) -> None:
        with self._condition:
            self._waiting = note
            self._condition.notify_all()

    def end(self, seconds: float) -> None:
        """Allow a last attempt for pending notes, for this long."""
        with self._condition:
            self._is_ending = True
            self._condition.notify_all()
        self._thread.join(seconds)

    def _work(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting is not None or self._is_ending)
                note, is_last = self._waiting, self._is_ending
            if note is not None:
                self._try(note)
            if is_last:
                return
            if self._failures:
                with self._condition:
                    self._condition.wait_for(lambda: self._is_ending, self._pause())

    def _try(self, note: str) -> None:
        try:
            self._place.put(note)
        except Exception as error:  # whatever a place does, the next note must be tried
            self._failures += 1
            if self._failures >= self._tries:
                self.problem = undelivered(self._place, self._tries, error)
            return
        with self._condition:
            if self._waiting is note:
                self._waiting = None
        self._failures, self.problem = 0, ""

    def _pause(self) -> float:
        return min(_LONGEST_PAUSE_SECONDS, self._first_pause * 2.0 ** min(self._failures - 1, 10))


def undelivered(place: CheckpointPlace, tries: int, error: Exception) -> str:
    why = str(error).strip() or type(error).__name__
    return f"Checkpoints do not arrive at {place.name}, after {tries} tries: {why[:300]}"


class Deliveries:
    """All places beside the file that the log is compared with."""

    def __init__(self, places: list[CheckpointPlace], tries: int, first_pause_seconds: float) -> None:
        self._each = [CheckpointDelivery(place, tries, first_pause_seconds) for place in places]

    def hand(self, note: str) -> None:
        for each in self._each:
            each.hand(note)

    @property
    def problem(self) -> str:
        return " ".join(each.problem for each in self._each if each.problem)

    def end(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for each in self._each:
            each.end(max(0.0, until - time.monotonic()))
