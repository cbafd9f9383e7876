"""Accounts at upstreams on *My access*, and their end with the person."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser

from sessions_app.history.models import AuditEvent
from tools_catalog.accounts import storing
from tools_catalog.models import McpConnection, UpstreamAccount

pytestmark = pytest.mark.django_db
TOKEN = "a-token-that-nobody-may-see"


@pytest.fixture
def connection() -> McpConnection:
    row = McpConnection(slug="tracker", transport="streamable-http", url="https://mcp.example/mcp", account="personal")
    row.save()
    return row


def connected(connection: McpConnection, person: User) -> UpstreamAccount:
    row = UpstreamAccount(connection=connection, principal=f"user:{person.pk}", state="connected")
    row.access, row.refresh = row.sealed("access", TOKEN), row.sealed("refresh", TOKEN)
    row.save()
    return row


@pytest.fixture
def anna() -> Any:
    person = User.objects.create_user("anna")
    browser = Browser()
    browser.force_login(person)
    return person, browser


def test_a_person_sees_and_ends_the_own_account_alone(connection: McpConnection, anna: Any) -> None:
    person, browser = anna
    boris = connected(connection, User.objects.create_user("boris"))
    assert "tracker" not in browser.get("/me/").content.decode()  # nothing of it is served to her
    assert browser.post("/me/accounts/disconnect/", {"id": "connection tracker"}).status_code == 404
    own = connected(connection, person)
    page = browser.get("/me/").content.decode()
    assert "tracker" in page
    assert TOKEN not in page
    assert browser.post("/me/accounts/disconnect/", {"id": "connection tracker"}).status_code == 302
    own.refresh_from_db()
    boris.refresh_from_db()
    assert (own.state, own.access, boris.state) == ("ended", "", "connected")
    event = AuditEvent.objects.get(kind="account.disconnected")
    assert (event.actor, event.subject_label) == (f"user:{person.pk}", "tracker")
    assert TOKEN not in str(event.before) + str(event.after)


def test_accounts_end_with_the_person(connection: McpConnection, anna: Any) -> None:
    person, _browser = anna
    own = connected(connection, person)
    person.is_active = False
    person.save()
    own.refresh_from_db()
    assert (own.state, own.access, own.refresh) == ("ended", "", "")
    person.is_active = True
    person.save()
    own.refresh_from_db()
    assert own.state == "ended"
    other = User.objects.create_user("boris")
    gone = connected(connection, other)
    other.delete()
    gone.refresh_from_db()
    assert (gone.state, gone.access) == ("ended", "")


def test_a_token_of_another_row_does_not_open(connection: McpConnection, anna: Any) -> None:
    person, _browser = anna
    own, boris = connected(connection, person), connected(connection, User.objects.create_user("boris"))
    UpstreamAccount.objects.filter(pk=own.pk).update(access=boris.access)
    with pytest.raises(Exception, match="changed, moved"):
        storing.load("connection", connection.pk, own.principal)


def test_one_claims_the_tokens_and_a_late_writer_writes_nothing(connection: McpConnection, anna: Any) -> None:
    from sessions_app.protocol.authorization_flow import TokenAnswer

    own = connected(connection, anna[0])
    first = storing.claim(own.pk, 0)
    assert first is not None
    assert storing.claim(own.pk, 0) is None
    assert storing.renew(first, TokenAnswer("newer", "newest"))
    assert not storing.renew(first, TokenAnswer("too late"))
    stored = storing.load("connection", connection.pk, own.principal)
    assert stored is not None
    assert (stored.access, stored.generation) == ("newer", 1)
    assert not storing.end(own.pk, 0, "too late")
    assert storing.end(own.pk, 1, "over")
    assert not storing.renew(first, TokenAnswer("far too late"))


@pytest.mark.parametrize(("life", "before"), [(3600, 30), (20, 5), (0, 0)])
def test_a_token_is_renewed_a_little_before_its_end(life: int, before: int) -> None:
    from datetime import timedelta

    from django.utils import timezone

    began = timezone.now()
    ends = began + timedelta(seconds=life)
    stored = storing.Stored(1, "connected", 1, "a", expires_at=ends, refreshed_at=began)
    assert stored.renews_at == ends - timedelta(seconds=before)


def test_a_claim_of_a_process_that_died_ends(connection: McpConnection, anna: Any) -> None:
    from datetime import timedelta

    from django.utils import timezone

    own = connected(connection, anna[0])
    assert storing.claim(own.pk, 0) is not None
    UpstreamAccount.objects.filter(pk=own.pk).update(claimed_until=timezone.now() - timedelta(seconds=1))
    assert storing.claim(own.pk, 0) is not None
    storing.release(own.pk, 0, "the issuer was away")
    own.refresh_from_db()
    assert (own.claimed_until, own.failure, own.state) == (None, "the issuer was away", "connected")
