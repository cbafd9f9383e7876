"""`mcphub database move`: a hub's data goes from SQLite to PostgreSQL whole, or stays where it is."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deploy.release import first_call
from mcphub import moved
from tests import forking, secret_operations, template
from tests.in_process import run
from tests.mcphub import running
from tests.releases import keeping
from tests.servers import Hub, free_port, postgres_database, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker

pytestmark = [pytest.mark.program, pytest.mark.slow]

ODD = "NUL \x00, Straße, ключ, 🗝, 1e2, " + "9" * 40


@pytest.fixture
def target() -> Iterator[str]:
    with postgres_database(is_empty=True) as address:
        yield address


def move(data: Path, target: str, **variables: str) -> subprocess.CompletedProcess[str]:
    words, environment = ("database", "move", "--to", target), running.environment(data, **variables)
    return forking.run("mcphub.cli", *words, env=environment, timeout=4 * PATIENCE_SECONDS)  # it makes every table


def refused(data: Path, target: str, **variables: str) -> str:
    """What a move says that must not succeed; the source stays as it was, to the last row, and no hub is kept off."""
    before = whole(data / "hub.sqlite3")
    ended = move(data, target, **variables)
    assert ended.returncode in (1, 2), ended.stdout + ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert whole(data / "hub.sqlite3") == before
    assert not moved.mark_of(data / "hub.sqlite3").exists()
    return ended.stderr


def whole(file: Path) -> str:
    with closing(sqlite3.connect(file)) as database:
        return hashlib.sha256("\n".join(database.iterdump()).encode()).hexdigest()


def change(data: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(data / "hub.sqlite3")) as database, database:
        database.execute(statement, values)


@pytest.mark.rig
def test_a_hub_since_1_0_goes_on_where_it_was(tmp_path: Path, target: str) -> None:
    known = keeping.unpack(keeping.FOLDER / "1.0.0.sqlite.tar.xz", tmp_path, {})
    with Hub(tmp_path) as hub, Speaker(hub.url, known["key"]) as speaker:
        hub.key = known["key"]
        assert "NUL" in speaker.modern_call("echo", {"text": ODD}).text
        assert "isError" in speaker.modern_call("add", {"a": 2**63, "b": "x"}).text
        assert "A hub serves on this database" in move(hub.data, target).stderr
        hub.command("audit", "checkpoint")
        before = hub.rows()
        edits = hub.operate(secret_operations.kinds_of_events)
    old = hub.data / "hub.sqlite3"
    change(hub.data, "DROP TRIGGER mcphub_mcptoolinvocation_append_only")
    change(hub.data, "UPDATE invocations_mcptoolinvocation SET tool_name = 'x' || tool_name WHERE id = 3")
    assert "BAD: invocation 3 " in refused(hub.data, target), "nobody takes a record along that was tampered with"
    change(hub.data, "UPDATE invocations_mcptoolinvocation SET tool_name = substr(tool_name, 2) WHERE id = 3")
    # Retention may have taken the newest rows: their numbers are not given again.
    change(hub.data, "UPDATE sqlite_sequence SET seq = seq + 1000 WHERE name = 'invocations_mcptoolinvocation'")
    ended = move(hub.data, target)
    assert ended.returncode == 0, ended.stderr
    assert "as they were sealed" in ended.stdout
    assert f"MCPHUB_DATABASE_URL={target}" in ended.stdout
    kept_off = running.run(hub.data, "serve", "--port", str(free_port()))
    assert (kept_off.returncode, "would fork the record" in kept_off.stderr) == (2, True), kept_off.stderr
    assert "was moved to" in move(hub.data, target).stderr
    with Hub(tmp_path, environment={"MCPHUB_DATABASE_URL": target}) as hub:
        hub.key = known["key"]
        assert hub.rows() == before
        kinds = hub.operate(secret_operations.kinds_of_events)  # the newest first
        assert kinds[-len(edits) :] == edits
        assert "hub.moved" in kinds
        assert hub.operate(secret_operations.secret_of, "house") == keeping.SECRET
        first_call.make(hub.url, known["key"])
        newest = hub.rows()[0]
        assert newest["sequence"] > before[0]["sequence"] + 1000
        assert "published checkpoints agree" in hub.command("audit", "verify")
    moved.mark_of(old).unlink()
    assert run(hub.data, "token", "list").returncode == 0, "there is a way back"


def test_a_killed_move_is_begun_anew_and_features_that_are_off_hinder_nothing(tmp_path: Path, target: str) -> None:
    template.copy_to(tmp_path / "hub.sqlite3")
    assert run(tmp_path, "token", "create", "before").returncode == 0
    words, environment = ("database", "move", "--to", target), running.environment(tmp_path)
    with psycopg.connect(target) as other, psycopg.connect(target, autocommit=True) as look:
        process = forking.start("mcphub.cli", *words, env=environment, stderr=subprocess.DEVNULL)
        try:
            until(lambda: look.execute("SELECT to_regclass('sessions_app_apikey')").fetchone() != (None,))
            other.execute("LOCK TABLE sessions_app_apikey IN ACCESS SHARE MODE")  # the move waits for this table
            asked = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'sessions_app_apikey'::regclass"
            until(lambda: look.execute(asked).fetchone() != (0,))
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_SECONDS)
    half = running.run(tmp_path, "token", "list", MCPHUB_DATABASE_URL=target)
    assert (half.returncode, "has not ended" in half.stderr) == (1, True), half.stderr
    assert run(tmp_path, "token", "create", "after").returncode == 0, "the source serves as before"
    change(tmp_path, "UPDATE sessions_app_apikey SET name = ? WHERE name = 'after'", "a\x00b")
    told = refused(tmp_path, target)
    assert "sessions_app_apikey" in told
    assert "the text in name has a NUL character" in told
    change(tmp_path, "UPDATE sessions_app_apikey SET name = 'after' WHERE name <> 'before'")
    assert run(tmp_path, "writes", "stop", "--reason", "a drill").returncode == 0
    for table in (
        "embeddings_cachedvector",
        "embeddings_embeddingspend",
        "embeddings_embeddinguse",
        "embeddings_embeddingsource",
    ):
        change(tmp_path, f"DROP TABLE {table}")
    change(tmp_path, "DELETE FROM django_migrations WHERE app = 'embeddings'")  # as if it had never been on
    ended = move(tmp_path, target, MCPHUB_FEATURES="-writes")
    assert ended.returncode == 0, ended.stderr
    kept = running.run(tmp_path, "writes", "show", MCPHUB_DATABASE_URL=target)
    assert "a drill" in kept.stdout, kept.stdout + kept.stderr
    listed = running.run(tmp_path, "token", "list", MCPHUB_DATABASE_URL=target)
    assert {"before", "after"} <= set(listed.stdout.split()), listed.stdout + listed.stderr


def test_what_does_not_fit_is_refused_with_the_next_step(tmp_path: Path, target: str) -> None:
    assert "there is no" in move(tmp_path, target).stderr
    template.copy_to(tmp_path / "hub.sqlite3")
    assert "--to does not name PostgreSQL" in refused(tmp_path, "sqlite:////tmp/other.sqlite3")
    assert "does not name SQLite" in refused(tmp_path, target, MCPHUB_DATABASE_URL=target)
    with postgres_database() as used:
        assert "The target has tables already" in refused(tmp_path, used)
    with closing(sqlite3.connect(tmp_path / "hub.sqlite3", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert "Another program writes" in move(tmp_path, target).stderr
    change(tmp_path, "INSERT INTO django_migrations (app, name, applied) VALUES ('chat', '0099_later', '2031-01-01')")
    assert "chat.0099_later" in refused(tmp_path, target)
    change(tmp_path, "DELETE FROM django_migrations WHERE name = '0099_later' OR name = '0002_upstream_events'")
    assert "Run `mcphub migrate` on it first" in refused(tmp_path, target)
