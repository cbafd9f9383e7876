"""/api/accounts/ and `mcphub account`: how accounts stand, without their tokens, and their end."""

from __future__ import annotations

import pytest

from sessions_app.history.models import AuditEvent
from tests.factories import HttpServiceFactory, McpConnectionFactory
from tests.rest import by_key, by_person
from tools_catalog.models import UpstreamAccount

pytestmark = pytest.mark.django_db
TOKEN = "a-token-that-nobody-may-see"


@pytest.fixture
def rows() -> list[UpstreamAccount]:
    made = []
    for place in ({"connection": McpConnectionFactory(slug="git")}, {"service": HttpServiceFactory(slug="git")}):
        row = UpstreamAccount(**place, principal="user:7", state="connected", account_name="ada")
        row.access = row.sealed("access", TOKEN)
        row.save()
        made.append(row)
    return made


def test_accounts_are_listed_by_place_without_tokens(rows: list[UpstreamAccount]) -> None:
    client = by_key("catalog:write")
    answer = client.get("/api/accounts/")
    assert TOKEN not in answer.content.decode()
    assert [(each["of"], each["name"], each["account_name"]) for each in answer.json()["results"]] == [
        ("service", "git", "ada"),
        ("connection", "git", "ada"),
    ]
    assert [each["id"] for each in client.get("/api/accounts/?service=git").json()["results"]] == [rows[1].pk]
    assert client.get("/api/accounts/?state=ended").json()["results"] == []


def test_who_may_change_connections_ends_an_account(rows: list[UpstreamAccount]) -> None:
    assert by_person("tools_catalog.view_mcpconnection").delete(f"/api/accounts/{rows[0].pk}/").status_code == 403
    assert by_key("catalog:write").delete(f"/api/accounts/{rows[0].pk}/").status_code == 204
    rows[0].refresh_from_db()
    rows[1].refresh_from_db()
    assert (rows[0].state, rows[0].access, rows[1].state) == ("ended", "", "connected")
    assert AuditEvent.objects.filter(kind="account.disconnected").count() == 1


def test_a_token_of_a_connection_does_not_open_at_a_service_of_the_same_number(rows: list[UpstreamAccount]) -> None:
    rows[1].access = rows[0].access
    with pytest.raises(Exception, match="changed, moved"):
        rows[1].opened("access")


def test_the_command_lists_and_disconnects(rows: list[UpstreamAccount], capsys: pytest.CaptureFixture[str]) -> None:
    from mcphub.commands import account

    assert account._list(False) == 0
    told = capsys.readouterr().out
    assert "connection git\tuser:7\tada" in told
    assert "service git\tuser:7\tada" in told
    assert TOKEN not in told
    assert account._disconnect(rows[1].pk) == 0
    rows[1].refresh_from_db()
    assert rows[1].state == "ended"
