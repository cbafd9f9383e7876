"""A hub whose database may lose what it confirmed does not call itself durable, and starts only where allowed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest
from django.db import connection

from invocations.ledger import durability
from sessions_app.kit.database import Dedicated
from tests.mcphub.running import Hub, run, serve
from tests.servers import POSTGRES, free_port, postgres_database, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.rig

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /srv rw - nfs4 server:/x rw
31 30 0:27 / /srv/hub\\040data rw - xfs /dev/sdb rw
32 22 0:28 / /run rw - tmpfs tmpfs rw
33 32 0:29 / /run rw - ext4 /dev/sdc rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x", "ext4"),
        ("/srv/x/y", "nfs4"),
        ("/srv", "nfs4"),
        ("/srvx", "ext4"),
        ("/srv/hub data/x", "xfs"),
        ("/run/x", "ext4"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path: str, kind: str, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert durability.file_system(Path(path), mounts) == kind


@pytest.mark.django_db
def test_a_setting_of_the_database_that_loses_commits_is_named() -> None:
    database = Dedicated()
    settings = (
        [("PRAGMA synchronous=NORMAL", "synchronous"), ("PRAGMA journal_mode=MEMORY", "journal_mode=memory")]
        if database.is_sqlite
        else [("SET synchronous_commit = off", "synchronous_commit=off")]
    )
    for statement, words in settings:
        raw = database.raw
        if "journal_mode" in statement:
            import sqlite3

            raw = sqlite3.connect(":memory:", isolation_level=None)
            raw.execute("PRAGMA synchronous=FULL")
            assert words in (durability.why_not(raw, True) or "")
            continue
        raw.execute(statement)
        assert words in (durability.why_not(raw, database.is_sqlite) or "")
        database.close()


@pytest.mark.postgresql
@pytest.mark.django_db
def test_an_unlogged_table_is_named() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE invocations_mcprequestenvelope SET UNLOGGED")
        assert "invocations_mcprequestenvelope unlogged" in (durability.why_not(cursor.connection, False) or "")


@pytest.fixture
def in_memory() -> Iterator[Path]:
    assert durability.file_system(Path("/dev/shm")) == "tmpfs"  # what Linux has there
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def test_a_start_on_a_disk_in_memory_is_refused(in_memory: Path) -> None:
    done = run(in_memory, "serve", "--port", str(free_port()), MCPHUB_ALLOW_NOT_DURABLE="0")
    assert done.returncode == 2
    assert "the database lies in memory (tmpfs)" in done.stderr
    assert "MCPHUB_ALLOW_NOT_DURABLE=1" in done.stderr
    assert "Traceback" not in done.stderr


def _ready(hub: Hub) -> httpx2.Response | None:
    """Return the answer of a hub that is ready; a look may find a database that did not answer in its two seconds."""
    answer = httpx2.get(f"http://127.0.0.1:{hub.port}/ready", timeout=PATIENCE_SECONDS)
    return answer if answer.status_code == 200 else None


def test_where_it_is_allowed_the_log_and_ready_say_so(in_memory: Path, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with serve(in_memory / "data", errors=errors) as hub:
        ready = until(lambda: _ready(hub))
        assert ready.json()["parts"]["durability"] == "not promised: the database lies in memory (tmpfs)"
    assert "NOT DURABLE" in errors.read_text()
    assert "lies in memory" in run(in_memory / "data", "doctor").stdout


def test_a_postgresql_that_does_not_wait_for_its_disk_is_refused(tmp_path: Path) -> None:
    with postgres_database(is_empty=True) as url:
        name = url.rpartition("/")[2]
        with psycopg.connect(f"{POSTGRES}/postgres", autocommit=True) as raw:
            raw.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")  # type: ignore[call-overload]
        done = run(tmp_path, "serve", "--port", str(free_port()), MCPHUB_ALLOW_NOT_DURABLE="0", MCPHUB_DATABASE_URL=url)
    assert done.returncode == 2, done.stderr
    assert "synchronous_commit=off" in done.stderr
