"""`mcphub serve` as a supervisor meets it: one ready line, credentials once, signals, workers."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import forking, template
from tests.mcphub.running import ROOT, Hub, environment, run, serve, wait_until_gone
from tests.servers import free_port, postgres_database, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program

_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data directory whose database is made, before the first start."""
    path = tmp_path / "home"
    template.copy_to(path / "hub.sqlite3")
    return path


def _post(hub: Hub, key: str, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, str], bytes]:
    line = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=PATIENCE_SECONDS)
    try:
        line.request(
            "POST",
            "/mcp",
            json.dumps(body),
            {
                "Authorization": f"Bearer {key}",
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                **headers,
            },
        )
        answer = line.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        line.close()


def _printed(hub: Hub, label: str) -> str:
    [line] = [line for line in hub.lines if line.startswith(label)]
    return line.removeprefix(label).strip()


def _accepts(hub: Hub) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", hub.port)) == 0


def test_a_hub_that_is_starting_takes_no_connection_that_would_wait_for_it(tmp_path: Path) -> None:
    """A balancer then gives the call to another hub."""
    home, port = tmp_path / "home", free_port()
    with postgres_database(is_empty=True) as database:
        variables = environment(home, MCPHUB_DATABASE_URL=database)
        with serve(home, MCPHUB_DATABASE_URL=database) as first:
            assert first.stop(signal.SIGTERM) == 0
        with psycopg.connect(database) as holding, psycopg.connect(database, autocommit=True) as looking:
            # A hub writes this row as it starts, before it can answer.
            holding.execute("LOCK TABLE sessions_app_serverprocess IN EXCLUSIVE MODE")
            process = forking.start(
                "mcphub.cli",
                "serve",
                "--port",
                str(port),
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            hub = Hub(process, port)
            waiting = (
                "SELECT true FROM pg_locks WHERE NOT granted AND relation = 'sessions_app_serverprocess'::regclass"
            )
            try:
                until(lambda: looking.execute(waiting).fetchone())
                assert not _accepts(hub)
                holding.rollback()
                hub.wait_ready()
                assert _accepts(hub)
                assert hub.stop(signal.SIGTERM) == 0
            finally:
                process.kill()
                process.wait(PATIENCE_SECONDS)
                assert process.stdout is not None
                process.stdout.close()


def test_of_two_hubs_that_start_at_once_on_one_port_one_serves_and_the_other_says_why(tmp_path: Path) -> None:
    port = free_port()
    words = ("mcphub.cli", "serve", "--port", str(port))
    both = []
    for name in ("one", "two"):
        template.copy_to(tmp_path / name / "hub.sqlite3")
        with (tmp_path / f"{name}.err").open("wb") as log:
            both.append(forking.start(*words, env=environment(tmp_path / name), stdout=subprocess.DEVNULL, stderr=log))
    try:
        until(lambda: any(each.poll() is not None for each in both))
        (ended,) = (at for at, each in enumerate(both) if each.poll() is not None)
        assert both[ended].returncode == 1
        assert "another program has the port" in (tmp_path / f"{('one', 'two')[ended]}.err").read_text()
        other = Hub(both[1 - ended], port)
        until(lambda: _accepts(other))
        assert other.stop(signal.SIGTERM) == 0
    finally:
        for each in both:
            each.kill()
            each.wait(PATIENCE_SECONDS)


def test_first_start_prints_credentials_once_that_work_and_ends_with_status_0(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serve(home) as hub:
        assert hub.lines[-1] == f"ready http://127.0.0.1:{hub.port}/mcp"
        assert len(hub.lines) <= 13
        assert _printed(hub, "Connect a client") == f"http://127.0.0.1:{hub.port}/connect"
        key = _printed(hub, "API key")
        assert _printed(hub, "Operator, password").startswith("operator, ")
        assert _post(hub, key, _INITIALIZE)[0] == 200
        assert _post(hub, "mcph_wrong", _INITIALIZE)[0] == 401
        assert hub.stop(signal.SIGTERM) == 0
        again = f"http://127.0.0.1:{hub.port}/mcp"
    assert again in run(home, "client-config", "vscode").stdout, "the address of the last start is known"
    with serve(home) as hub:
        assert hub.lines == [f"ready http://127.0.0.1:{hub.port}/mcp"]
        assert hub.stop(signal.SIGINT) == 0


def test_a_key_made_beside_a_running_hub_works_at_once(home: Path) -> None:
    with serve(home) as hub:
        key = run(home, "token", "create", "beside").stdout.splitlines()[-1]
        assert _post(hub, key, _INITIALIZE)[0] == 200


def test_two_starts_on_one_new_database_both_serve_and_make_one_operator(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serve(home, errors=tmp_path / "one.err") as one, serve(home, errors=tmp_path / "two.err") as two:
        printed = [line for hub in (one, two) for line in hub.lines if line.startswith("Operator, password")]
        assert len(printed) == 1


def test_workers_serve_each_others_sessions_and_a_dead_one_is_replaced(home: Path) -> None:
    with serve(home, "--workers", "2") as hub:
        key = _printed(hub, "API key")
        first = hub.children()
        assert len(first) == 2
        status, headers, _ = _post(hub, key, _INITIALIZE)
        assert status == 200
        session = {"Mcp-Session-Id": headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for _ in range(8):  # a new connection each; the kernel spreads them over both
            assert _post(hub, key, ping, **session)[0] == 200

        os.kill(first[0], signal.SIGKILL)
        wait_until_gone(first[:1])
        for _ in range(8):  # those that wait for the dead one reach its successor
            assert _post(hub, key, ping, **session)[0] == 200
        assert hub.stop(signal.SIGTERM) == 0
        wait_until_gone(first)


def test_workers_do_not_outlive_a_killed_parent(home: Path) -> None:
    with serve(home, "--workers", "2") as hub:
        workers = hub.children()
        hub.process.kill()
        hub.process.wait(PATIENCE_SECONDS)
        wait_until_gone(workers)


def test_sigterm_lets_an_open_stream_end_and_does_not_wait_for_it(home: Path) -> None:
    with serve(home, MCPHUB_LIMITS="drain_seconds=600") as hub:
        key = _printed(hub, "API key")
        _, headers, _ = _post(hub, key, _INITIALIZE)
        line = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=PATIENCE_SECONDS)
        line.request(
            "GET",
            "/mcp",
            headers={
                "Authorization": f"Bearer {key}",
                "Accept": "text/event-stream",
                "Mcp-Session-Id": headers["mcp-session-id"],
                "MCP-Protocol-Version": "2025-11-25",
            },
        )
        stream = line.getresponse()
        assert stream.status == 200
        read = threading.Thread(target=stream.read)
        read.start()
        assert hub.stop(signal.SIGTERM) == 0  # long before the drain time
        read.join(PATIENCE_SECONDS)
        assert not read.is_alive()
        line.close()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_lets_a_call_under_way_finish(tmp_path: Path, workers: str) -> None:
    home = tmp_path / "home"
    bundle, apps = ROOT / "tests" / "toolbox" / "bundle.json", "tests.toolbox"
    template.copy_to(home / "hub.sqlite3", bundle=bundle, apps=apps)
    with serve(home, "--workers", workers, MCPHUB_APPS=apps, MCPHUB_LIMITS=f"drain_seconds={PATIENCE_SECONDS}") as hub:
        key = _printed(hub, "API key")
        _, headers, _ = _post(hub, key, _INITIALIZE)
        session = {"Mcp-Session-Id": headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        _post(hub, key, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
        call["params"] = {"name": "hold", "arguments": {"name": "x"}}
        answers: list[tuple[int, dict[str, str], bytes]] = []
        caller = threading.Thread(target=lambda: answers.append(_post(hub, key, call, **session)))
        caller.start()
        until((home / "toolbox" / "x.began").exists)
        hub.process.send_signal(signal.SIGTERM)
        until(lambda: not _accepts(hub))
        (home / "toolbox" / "x.release").touch()
        assert hub.process.wait(PATIENCE_SECONDS) == 0
        caller.join(PATIENCE_SECONDS)
    assert b"x was released" in answers[0][2]


def test_an_application_that_cannot_start_ends_the_hub_instead_of_looping(tmp_path: Path) -> None:
    """A table that the start needs is missing although the migrations say that all is there."""
    import sqlite3

    for workers in ("1", "2"):
        home = tmp_path / workers
        template.copy_to(home / "hub.sqlite3")
        assert run(home, "catalog", "load", "starter").returncode == 0
        with sqlite3.connect(home / "hub.sqlite3") as database:
            database.execute("ALTER TABLE sessions_app_serverprocess RENAME TO elsewhere")
        database.close()
        ended = run(home, "serve", "--workers", workers, "--port", str(free_port()))
        assert ended.returncode == 1
        last = {"1": "the hub could not start", "2": "a worker cannot start"}[workers]
        assert ended.stderr.splitlines()[-1] == f"mcphub serve: {last}; the log above says why."
        assert "ready" not in ended.stdout
