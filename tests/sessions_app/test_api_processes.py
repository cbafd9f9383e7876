"""/api/processes/: the processes of the hub, and what each serves."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.factories import ServerProcessFactory
from tests.rest import by_key, by_person

pytestmark = pytest.mark.django_db

LIST = "/api/processes/"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def process():
    row = ServerProcessFactory(process_id="one", protocol_version="2026-07-28", started_at=NOON)
    row.transports.create(type="streamable-http", configuration={"path": "/mcp"})
    row.transports.create(type="remote", is_active=False, last_error="server_error: It broke.", last_error_at=NOON)
    return row


def test_a_process_tells_both_versions_and_its_transports(process):
    shown = by_key("audit:read").get(f"{LIST}{process.pk}/").json()
    assert (shown["version"], shown["protocol_version"], shown["status"]) == ("1.0.0", "2026-07-28", "running")
    remote, http = shown["transports"]
    assert http == {
        "type": "streamable-http",
        "is_active": True,
        "configuration": {"path": "/mcp"},
        "last_error": "",
        "last_error_at": None,
    }
    assert (remote["is_active"], remote["last_error"]) == (False, "server_error: It broke.")
    assert remote["last_error_at"] == "2026-03-01T12:00:00Z"


def test_processes_are_listed_newest_first_and_filtered(process):
    ServerProcessFactory(process_id="two", status="stopped", host="elsewhere")
    auditor = by_key("audit:read")

    def names(**query):
        return [row["process_id"] for row in auditor.get(LIST, query).json()["results"]]

    assert (names(), names(status="running"), names(host="elsewhere")) == (["two", "one"], ["one"], ["two"])
    assert auditor.get(LIST, {"state": "running"}).status_code == 400


def test_who_may_not_see_processes_sees_none(process):
    assert by_key("tools:call").get(LIST).status_code == 403
    assert by_person().get(LIST).status_code == 403
    assert by_person("sessions_app.view_serverprocess").get(LIST).status_code == 200
