"""Checkpoints leave for a file, a syslog and a webhook; what does not arrive is tried again, and then an alarm."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from invocations.chain import service, watching
from invocations.chain.keys import KeyFolder
from invocations.chain.log import Log
from invocations.chain.places import (
    CheckpointDelivery,
    CheckpointPlace,
    FilePlace,
    SyslogPlace,
    Undelivered,
    WebhookPlace,
    place_of,
)
from invocations.chain.sealer import Sealer, checkpoint_note
from invocations.chain.verifier import Checkpoint, read_checkpoints
from tests.invocations.chain.processes import Process
from tests.invocations.chain.receivers import Webhook, datagrams, lines
from tests.invocations.chain.rows import fill, verify
from tests.servers import free_port, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("transactional_db")

LOOPBACK = ("127.0.0.1",)
RFC5424 = re.compile(r"<109>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S+ mcphub \d+ checkpoint - (.*)", re.DOTALL)


@pytest.fixture
def note(database, log: Log, keys: KeyFolder, sealer: Sealer) -> str:
    fill(database, 2)
    sealer.seal()
    return checkpoint_note(log, keys, 1)


def as_note(line: str) -> str:
    """Do what docs/audit/audit.md tells people to do with a line of their syslog."""
    return line.replace(" | ", "\n") + "\n"


def of_syslog(message: bytes) -> str:
    found = RFC5424.fullmatch(message.decode())
    assert found is not None, message
    return as_note(found[1])


def test_a_syslog_gets_one_message_that_is_a_checkpoint_again(note: str, tmp_path: Path) -> None:
    for receiver in (datagrams(), datagrams(tmp_path / "datagrams")):
        with receiver as (address, heard):
            SyslogPlace(address).put(note)
            assert Checkpoint.parse(of_syslog(heard.get(timeout=PATIENCE_SECONDS))) == Checkpoint.parse(note)


def test_over_tcp_octets_are_counted_and_over_a_unix_stream_a_line_ends(note: str, tmp_path: Path) -> None:
    with lines() as (address, heard):
        SyslogPlace(address).put(note)
        count, _, message = heard.get(timeout=PATIENCE_SECONDS).partition(b" ")
        assert int(count) == len(message)
        assert Checkpoint.parse(of_syslog(message)) == Checkpoint.parse(note)
    with lines(tmp_path / "stream") as (address, heard):
        SyslogPlace(address).put(note)
        assert Checkpoint.parse(of_syslog(heard.get(timeout=PATIENCE_SECONDS).removesuffix(b"\n"))) == Checkpoint.parse(
            note
        )


def test_a_webhook_gets_the_signed_note_through_the_egress_guard(note: str) -> None:
    with Webhook() as webhook:
        WebhookPlace(webhook.url, LOOPBACK).put(note)
        assert webhook.bodies.get(timeout=PATIENCE_SECONDS).decode() == note
        with pytest.raises(Undelivered, match="not on the public internet"):
            WebhookPlace(webhook.url).put(note)
        for status, words in ((500, "status 500"), (307, "redirects")):
            webhook.status = status
            with pytest.raises(Undelivered, match=words):
                WebhookPlace(webhook.url, LOOPBACK).put(note)
        assert webhook.bodies.empty()
    with pytest.raises(Undelivered) as refused:
        WebhookPlace(webhook.url, LOOPBACK).put(note)
    assert "canary" not in str(refused.value) + WebhookPlace(webhook.url).name


@pytest.mark.parametrize("address", ["unix:/nowhere/log", "tcp://127.0.0.1:1"])
def test_a_syslog_that_is_not_there_is_an_error(note: str, address: str) -> None:
    with pytest.raises(OSError):
        SyslogPlace(address).put(note)


class Gate:
    """A place that is shut until somebody opens it."""

    name = "gate"

    def __init__(self) -> None:
        self.is_open = False
        self.tried = threading.Semaphore(0)
        self.brought = ""
        """At the last try."""
        self.took: list[str] = []

    def put(self, note: str) -> None:
        self.brought = note
        try:
            if not self.is_open:
                raise Undelivered("it is shut")
            self.took.append(note)
        finally:
            self.tried.release()


def test_a_delivery_complains_after_some_tries_and_brings_the_newest_when_it_can() -> None:
    gate = Gate()
    place: CheckpointPlace = gate
    delivery = CheckpointDelivery(place, tries=3, first_pause_seconds=0.001)
    delivery.hand("old")
    assert gate.tried.acquire(timeout=PATIENCE_SECONDS)
    delivery.hand("new")
    until(lambda: gate.brought == "new")  # a try of the old one may have been under way
    until(lambda: delivery.problem)
    assert delivery.problem == "Checkpoints do not arrive at gate, after 3 tries: it is shut"
    gate.is_open = True
    until(lambda: not delivery.problem)
    assert gate.took == ["new"]
    delivery.end(PATIENCE_SECONDS)


def test_what_waits_at_the_end_is_tried_once_more() -> None:
    gate = Gate()
    delivery = CheckpointDelivery(gate, tries=1, first_pause_seconds=3600)
    delivery.hand("last")
    until(lambda: delivery.problem)
    gate.is_open = True
    delivery.end(PATIENCE_SECONDS)
    assert gate.took == ["last"]


def test_each_kind_of_place_is_made_of_words(tmp_path: Path, note: str, settings) -> None:
    assert service.places() == []
    settings.MCPHUB_CHECKPOINT_SYSLOG = "udp://127.0.0.1:514"
    settings.MCPHUB_CHECKPOINT_WEBHOOK = "https://witness.example/hook"
    assert [place_of(words).name for words in service.places()] == [
        "syslog udp://127.0.0.1:514",
        "webhook https://witness.example",
    ]
    file = place_of({"kind": "file", "path": str(tmp_path / "disk" / "checkpoints")})
    assert isinstance(file, FilePlace)
    file.put(note)
    assert read_checkpoints(file.path.read_text()) == [Checkpoint.parse(note)]


# The sealing process -----------------------------------------------------------------------------------


@pytest.mark.program
def test_a_place_that_is_down_is_an_alarm_and_sealing_goes_on(database, log, keys, note) -> None:
    port = free_port()
    words = {"kind": "webhook", "url": f"http://127.0.0.1:{port}/hook?password=canary", "allow": LOOPBACK, "proxy": ""}
    process = Process(places=[words], checkpoint_seconds=0.1)
    try:
        said = process.hears("do not arrive at webhook http://127.0.0.1")
        assert said.startswith("ALARM: ")
        assert "canary" not in said
        assert "do not arrive" in until(lambda: watching.verdict(log).undelivered)
        size = log.size()
        fill(database, 1)
        until(lambda: log.size() > size)
        with Webhook(port) as webhook:
            process.hears("arrive everywhere again")
            brought = Checkpoint.parse(webhook.bodies.get(timeout=PATIENCE_SECONDS).decode())
            # While it is there: a newer checkpoint may follow, and would miss it.
            assert watching.verdict(log).undelivered == ""
    finally:
        process.end()
    verify(log, keys, [brought])


@pytest.mark.program
def test_a_file_that_cannot_be_written_is_an_alarm_and_sealing_goes_on(database, log, note, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").symlink_to(tmp_path / "unmounted" / "checkpoints")
    process = Process(checkpoints=str(tmp_path / "checkpoints"), checkpoint_seconds=0.1)
    try:
        assert "ALARM: " in process.hears("do not arrive at")
        size = log.size()
        fill(database, 1)
        until(lambda: log.size() > size)
    finally:
        process.end()
