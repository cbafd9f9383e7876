"""A stream outlives a time in which nothing can be recorded."""

from __future__ import annotations

import http.client
import sqlite3
from pathlib import Path

import pytest

from tests import template
from tests.mcphub.running import run, serve
from tests.servers import until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program


def test_a_stream_of_http_and_sse_outlives_a_database_that_takes_no_writes(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "hub.err"
    template.copy_to(home / "hub.sqlite3")
    key = run(home, "token", "create", "a").stdout.split()[-1]
    quick = {"MCPHUB_LIMITS": "heartbeat_seconds=1", "MCPHUB_LEDGER_TIMEOUT_SECONDS": "10"}
    with serve(home, errors=log, **quick) as hub:
        line = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=PATIENCE_SECONDS)
        line.request("GET", "/sse", headers={"Authorization": f"Bearer {key}", "Accept": "text/event-stream"})
        answer = line.getresponse()
        assert answer.readline() == b"event: endpoint\n"
        other = sqlite3.connect(home / "hub.sqlite3", isolation_level=None, timeout=PATIENCE_SECONDS)
        other.execute("BEGIN IMMEDIATE")
        until(lambda: "The ledger cannot commit" in log.read_text())
        for _ in range(6):
            assert answer.readline()
        other.execute("ROLLBACK")
        other.close()
        for _ in range(6):
            assert answer.readline()
        line.close()
    assert "without completing response" not in log.read_text()
