"""The audit goes to Debian's rsyslogd over TLS, which is killed again and again, and gets all that it missed.

Needs the programs of the packages `rsyslog` and `rsyslog-gnutls`. A module that lies elsewhere is found by
RSYSLOG_MODDIR, as rsyslogd itself finds it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Self

import pytest

from invocations.chain.verifier import main as verify
from mcphub.features.audit_export.joining import join
from tests.features.audit_export import rows
from tests.features.audit_export.receivers import certificate
from tests.servers import Hub, free_port, until
from tests.wire.speech import Speaker

_PROGRAM = shutil.which("rsyslogd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_FOLDERS = [Path(folder) for folder in os.environ.get("RSYSLOG_MODDIR", "").split(":") if folder]
_FOLDERS += Path("/usr/lib").glob("*/rsyslog")
_HAS_TLS = any((folder / "lmnsd_gtls.so").exists() for folder in _FOLDERS)
_SECONDS = 120
_KILLS = 4
_CALLS = 20

pytestmark = [
    pytest.mark.rig,
    pytest.mark.skipif(_PROGRAM is None or not _HAS_TLS, reason="rsyslogd, or rsyslog-gnutls, is not installed"),
]

CONFIGURATION = """
global(
  workDirectory="{folder}"
  defaultNetstreamDriverCAFile="{folder}/server.pem"
  defaultNetstreamDriverCertFile="{folder}/server.pem"
  defaultNetstreamDriverKeyFile="{folder}/server.pem"
)
main_queue(queue.type="Direct")
module(load="imtcp" streamDriver.name="gtls" streamDriver.mode="1" streamDriver.authMode="anon")
template(name="record" type="string" string="%msg%\\n")
input(type="imtcp" port="{port}" address="127.0.0.1")
action(type="omfile" file="{folder}/audit.jsonl" template="record")
"""
"""As docs/audit/export.md shows it: what rsyslogd has read it has written before it closes the connection."""


class Rsyslogd:
    """Enter it: it listens. Each start adds to one file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder, self._port = folder, free_port()
        self.address = f"tls://localhost:{self._port}"
        _, self.authority = certificate(folder)
        self.file = folder / "audit.jsonl"
        (folder / "rsyslog.conf").write_text(CONFIGURATION.format(folder=folder, port=self._port))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        assert _PROGRAM is not None
        words = [_PROGRAM, "-n", "-f", str(self._folder / "rsyslog.conf"), "-i", str(self._folder / "pid")]
        (self._folder / "pid").unlink(missing_ok=True)  # of one that was killed
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log)
        until(self._listens, _SECONDS)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def test_rsyslogd_gets_what_it_missed_whenever_it_is_killed_between_deliveries(tmp_path: Path) -> None:
    """Within a delivery nobody can promise it: syslog acknowledges nothing, and the connection of a rsyslogd that is
    killed ends like that of one which has written all (docs/audit/export.md)."""
    settings = {"MCPHUB_LIMITS": "seal_seconds=0.1", "MCPHUB_EGRESS_ALLOW": "127.0.0.1,localhost"}
    with (
        Rsyslogd(tmp_path / "rsyslog") as receiver,
        Hub(tmp_path / "hub", environment=settings) as hub,
        Speaker(hub.url, hub.key) as speaker,
    ):
        siem = {"name": "siem", "kind": "syslog", "address": receiver.address, "authority": receiver.authority}
        hub.operate(rows.add_target, **siem)

        def call() -> None:
            for number in range(_CALLS):
                answer = speaker.modern_call("echo", {"text": f"no {number}"})
                assert answer.status_code == 200, answer.text

        def has_all() -> bool:
            now = hub.operate(rows.standing)
            return bool(now["is_sealed"]) and now["targets"]["siem"] == now["end"]

        for _ in range(_KILLS):
            call()
            until(has_all, _SECONDS)
            receiver.kill()
            call()  # it stays away until a delivery has failed
            until(lambda: hub.operate(rows.standing)["problems"]["siem"], _SECONDS)
            receiver.start()
        until(has_all, _SECONDS)
        end = hub.operate(rows.standing)["end"]
        receiver.kill()
        keys = hub.data / "audit" / "public.keys"
        whole = tmp_path / "whole.jsonl"
        with whole.open("wb") as out:
            _, joined = join([receiver.file], out)
        assert joined == end
        assert verify([str(whole), "--key", str(keys)]) == 0

    records = [json.loads(line) for line in receiver.file.read_bytes().splitlines() if line.endswith(b"}")]
    got = {record["position"] for record in records if "position" in record}
    assert sorted(got) == list(range(end))
