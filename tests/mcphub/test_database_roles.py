"""deploy/postgresql_roles.sql: a hub serves with a role that can only append to the audit; another one retains."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.mcphub.running import run, serve
from tests.servers import POSTGRES, ROOT, postgres_database, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.rig


@pytest.fixture
def roles() -> Iterator[tuple[str, str, str]]:
    """The database's address, and the names of the two roles."""
    mark = uuid.uuid4().hex[:8]
    app, retention = f"mcphub_app_{mark}", f"mcphub_retention_{mark}"
    with postgres_database(is_empty=True) as url:
        with psycopg.connect(url, autocommit=True) as raw:
            for role in (app, retention):
                raw.execute(f"CREATE ROLE {role} LOGIN")  # type: ignore[call-overload]
        try:
            yield url, app, retention
        finally:
            with psycopg.connect(url, autocommit=True) as raw:
                for role in (app, retention):
                    raw.execute(f"DROP OWNED BY {role}")  # type: ignore[call-overload]
                    raw.execute(f"DROP ROLE {role}")  # type: ignore[call-overload]


def test_the_hub_serves_and_seals_with_a_role_that_can_only_append(roles: tuple[str, str, str], tmp_path: Path) -> None:
    url, app, retention = roles
    data = tmp_path / "data"
    made = run(data, "token", "create", "auditor", "--scope", "audit:read", MCPHUB_DATABASE_URL=url)
    assert made.returncode == 0, made.stderr
    statements = (ROOT / "deploy" / "postgresql_roles.sql").read_text()
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute(statements.replace(":app", app).replace(":retention", retention))  # type: ignore[arg-type]
    name, server = url.rpartition("/")[2], POSTGRES.rpartition("@")[2]
    own = {"MCPHUB_DATABASE_URL": f"postgres://{app}@{server}/{name}", "MCPHUB_MIGRATE": "0"}
    with serve(data, MCPHUB_LIMITS="checkpoint_seconds=0.1", **own) as hub:
        key = made.stdout.split()[-1]
        until((data / "audit" / "checkpoints").exists)
        address = f"http://127.0.0.1:{hub.port}/api/audit/checkpoints/"
        answer = httpx2.get(address, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS)
        assert answer.json()["results"], answer.text
    assert run(data, "audit", "verify", **own).returncode == 0
    with psycopg.connect(own["MCPHUB_DATABASE_URL"], autocommit=True) as raw:
        for statement in (
            "UPDATE sessions_app_auditevent SET kind = 'x'",
            "DELETE FROM sessions_app_auditevent",
            "TRUNCATE sessions_app_auditevent",
            "DELETE FROM invocations_auditblock",
            "DELETE FROM invocations_mcptoolinvocation",
            "DROP TRIGGER mcphub_auditevent_append_only ON sessions_app_auditevent",
            "ALTER TABLE sessions_app_auditevent DISABLE TRIGGER ALL",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                raw.execute(statement)  # type: ignore[arg-type]
    other = {**own, "MCPHUB_DATABASE_URL": f"postgres://{retention}@{server}/{name}"}
    done = run(data, "audit", "retain", **other)
    assert (done.returncode, done.stdout) == (0, "0 rows removed, 0 rows without bodies now\n"), done.stderr


def test_a_start_that_may_not_migrate_says_what_is_pending(tmp_path: Path) -> None:
    done = run(tmp_path, "audit", "verify", MCPHUB_MIGRATE="0")
    assert (done.returncode, "migrations are pending" in done.stderr, "Traceback" in done.stderr) == (2, True, False)
