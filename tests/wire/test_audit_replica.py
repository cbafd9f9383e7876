"""Auditors read a standby of PostgreSQL: what it has not heard of is not shown, and the answer says until when."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx2
import psycopg
import pytest

from tests import forking, operations
from tests.rigs.cluster import Cluster, Standby
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.signing_in import Person
from tests.wire.speech import Speaker

pytestmark = pytest.mark.rig

AS_OF = "x-audit-as-of"
CALLS = "/admin/invocations/mcptoolinvocation/"


@pytest.fixture(scope="module")
def standby(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Standby]]:
    with Cluster(tmp_path_factory.mktemp("primary") / "own") as primary:
        primary.database()
        with Standby(tmp_path_factory.mktemp("standby") / "own", primary) as second:
            yield primary, second


@pytest.fixture(scope="module")
def hub(standby: tuple[Cluster, Standby], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    primary, second = standby
    environment = {"MCPHUB_DATABASE_URL": primary.database(), "MCPHUB_AUDIT_DATABASE_URL": second.database()}
    with Hub(tmp_path_factory.mktemp("read"), packs=["starter"], environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def auditor(hub: Hub) -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {hub.key}"}
    with httpx2.Client(base_url=hub.url, headers=headers, timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture
def paused(standby: tuple[Cluster, Standby], auditor: httpx2.Client) -> Iterator[Any]:
    """A standby that goes on receiving, and applies nothing more than what is on record now."""
    with psycopg.connect(standby[0].address, autocommit=True) as primary:
        written = primary.execute("SELECT pg_current_wal_lsn()").fetchone()
    with psycopg.connect(standby[1].address, autocommit=True) as connection:
        until(
            lambda: connection.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written).fetchone() == (True,)
        )
        connection.execute("SELECT pg_wal_replay_pause()")
        until(lambda: connection.execute("SELECT pg_get_wal_replay_pause_state()").fetchone() == ("paused",))
        yield connection
        if connection.execute("SELECT pg_is_wal_replay_paused()").fetchone() == (True,):
            connection.execute("SELECT pg_wal_replay_resume()")


def call(hub: Hub, number: int) -> None:
    with Speaker(hub.url, hub.key) as speaker:
        assert speaker.modern_call("add", {"a": number, "b": 1}).status_code == 200


def seen(auditor: httpx2.Client, address: str = "/api/invocations/", **asked: Any) -> tuple[int, datetime]:
    """Return how many calls an auditor is shown, and until when they were read."""
    answer = auditor.get(address, params=asked)
    assert answer.status_code == 200, answer.text
    return len(answer.json()["results"]), datetime.fromisoformat(answer.headers[AS_OF])


def test_what_the_standby_has_not_applied_is_not_shown_and_the_answer_says_so(
    hub: Hub, auditor: httpx2.Client, paused: Any
) -> None:
    before, as_of = seen(auditor)
    call(hub, 1)
    call(hub, 2)
    still, later = seen(auditor)
    assert (still, later) == (before, as_of), "It is as the standby stands."
    for address in ("/api/invocations/statistics/", "/api/invocations/facets/", "/api/audit/events/"):
        assert auditor.get(address).headers[AS_OF], address
    paused.execute("SELECT pg_wal_replay_resume()")
    until(lambda: seen(auditor)[0] == before + 2)
    assert seen(auditor)[1] > as_of
    exported = auditor.get("/api/audit/export/", params={"format": "csv"}).text
    assert exported.count('"add"') + exported.count(",add,") >= 2


def test_who_reads_bodies_is_on_record_in_the_hubs_database(hub: Hub, auditor: httpx2.Client) -> None:
    """A standby takes no writes: the event is written past it, before the answer."""
    call(hub, 3)
    [row] = until(lambda: auditor.get("/api/invocations/", params={"limit": 1}).json()["results"])
    noted = hub.operate(operations.count, "sessions_app.AuditEvent", kind="bodies.read")
    answer = auditor.get(f"/api/invocations/{row['invocation_id']}/")
    assert (answer.status_code, AS_OF in answer.headers) == (200, True)
    assert hub.operate(operations.count, "sessions_app.AuditEvent", kind="bodies.read") == noted + 1


def test_the_console_reads_there_too(hub: Hub, auditor: httpx2.Client, paused: Any) -> None:
    with Person(hub, "anna", ("Viewer",), staff=True) as anna:
        shown = anna.asked(CALLS).text
        assert "From the audit replica" in shown
        call(hub, 4)
        assert anna.asked(CALLS).text.count("hub-time") == shown.count("hub-time")
        paused.execute("SELECT pg_wal_replay_resume()")
        until(lambda: anna.asked(CALLS).text.count("hub-time") > shown.count("hub-time"))


def test_the_one_that_follows_calls_reads_where_they_are_recorded(
    hub: Hub, auditor: httpx2.Client, paused: Any
) -> None:
    with auditor.stream("GET", "/api/invocations/stream/") as answer:
        lines = answer.iter_lines()
        next(lines)
        call(hub, 5)
        assert any('"tool_name":"add"' in line for line in lines)


def test_without_the_standby_auditors_are_told_and_calls_go_on(
    hub: Hub, auditor: httpx2.Client, standby: tuple[Cluster, Standby]
) -> None:
    standby[1].kill()
    answer = auditor.get("/api/invocations/")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "audit_unavailable")
    assert answer.headers["Retry-After"]
    told = forking.run("mcphub.cli", "doctor", env=hub.environment, timeout=PATIENCE_SECONDS)
    assert "The replica for auditors does not answer" in told.stdout + told.stderr
    call(hub, 6)
    assert auditor.get("/api/tool-definitions/").status_code == 200
    standby[1].start()
    until(lambda: auditor.get("/api/invocations/").status_code == 200)
