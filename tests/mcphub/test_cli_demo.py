"""`mcphub demo`: a hub with calls to look at, on a folder of its own, and away again."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.servers import free_port
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program


def environment(tmp_path: Path) -> dict[str, str]:
    """One that names the data of another hub, which a demo leaves alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    other = {"MCPHUB_DATA_DIR": str(tmp_path / "other"), "MCPHUB_DATABASE_URL": f"sqlite:///{tmp_path / 'other.db'}"}
    return {
        **kept,
        **other,
        "MCPHUB_ALLOW_NOT_DURABLE": "1",
        "MCPHUB_LEDGER_TIMEOUT_SECONDS": "20",  # a machine that runs many hubs is slow
        "PYTHONUNBUFFERED": "1",
    }


def command(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return mcphub(tmp_path, "demo", *words)


def mcphub(tmp_path: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "mcphub.cli", *words]
    given = environment(tmp_path) | variables
    return subprocess.run(line, env=given, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS)


@contextlib.contextmanager
def demo(tmp_path: Path, port: int) -> Iterator[list[str]]:
    """Run a demo; give what it prints until it is ready."""
    line = [sys.executable, "-m", "mcphub.cli", "demo", "--port", str(port)]
    with subprocess.Popen(
        line, env=environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        said: list[str] = []
        try:
            for text in process.stdout:
                said.append(text.rstrip("\n"))
                if text.startswith("ready "):
                    break
            yield said
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 0


def test_a_demo_is_filled_once_and_taken_away_again(tmp_path: Path) -> None:
    port = free_port()
    with demo(tmp_path, port) as said:
        assert said[-1] == f"ready http://127.0.0.1:{port}/mcp"
        [key] = [line.removeprefix("API key").strip() for line in said if line.startswith("API key")]
        headers = {"Authorization": f"Bearer {key}"}
        address = f"http://127.0.0.1:{port}/api/invocations/"
        rows = httpx2.get(address, params={"limit": 500}, headers=headers, timeout=PATIENCE_SECONDS).json()["results"]
        assert len(rows) > 50
        assert {"add", "echo", "current_time"} <= {row["tool_name"] for row in rows}
        assert len({row["status"] for row in rows}) > 1, "some failed"
        asked = {(row["tool_name"], row["status"]) for row in rows if row["transport"] == "chat"}
        assert asked == {
            ("add", "ok"),
            ("current_time", "ok"),
            ("billing.get_invoice", "ok"),
            ("billing.list_orders", "error"),
        }
        answers = _answers(tmp_path / "var/demo")
        assert len(answers) == 5
        assert all("no model was asked" in answer for answer in answers), "recorded answers are marked"
        _is_worth_showing(tmp_path / "var/demo")
        verified = mcphub(tmp_path, "audit", "verify", "--data-dir", str(tmp_path / "var/demo"), MCPHUB_DATABASE_URL="")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        refused = command(tmp_path, "--remove")
        assert refused.returncode == 1
        assert "stop it first" in refused.stderr
    with demo(tmp_path, free_port()) as said:
        assert any(line.startswith("The demo is as it was left.") for line in said)
    assert command(tmp_path, "--remove").returncode == 0
    assert not (tmp_path / "var/demo").exists()
    assert not (tmp_path / "other").exists()
    assert "There is no demo" in command(tmp_path, "--remove").stderr


def _is_worth_showing(folder: Path) -> None:
    """What the tour of the demo leads to is there."""
    with contextlib.closing(sqlite3.connect(folder / "hub.sqlite3")) as database:

        def count(statement: str) -> int:
            [(found,)] = database.execute(statement)
            return int(found)

        assert count("SELECT count(*) FROM invocations_mcpapproval WHERE status = 'pending'") == 2
        offered = "SELECT group_concat(state) FROM (SELECT state FROM tools_catalog_mcpupstreamtool ORDER BY state)"
        assert database.execute(offered).fetchone() == ("approved,changed,new",)
        assert count("SELECT count(DISTINCT date(received_at)) FROM invocations_mcptoolinvocation") >= 30
        denied = "SELECT count(*) FROM invocations_mcptoolinvocation WHERE error_code = 'policy_denied'"
        assert count(denied) == 1


def _answers(folder: Path) -> list[str]:
    """What the conversation of a demo ends its turns with."""
    with contextlib.closing(sqlite3.connect(folder / "hub.sqlite3")) as database:
        statement = "SELECT content FROM chat_chatmessage WHERE role = 'assistant' AND content IS NOT NULL"
        return [content for (content,) in database.execute(statement)]


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of it")
    for words in (["--data-dir", str(folder)], ["--remove", "--data-dir", str(folder)]):
        done = command(tmp_path, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert str(folder) in done.stderr
    assert (folder / "thesis.txt").read_text() == "years of it"
