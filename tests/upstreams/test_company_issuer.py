"""The company's issuer vouches for people at an upstream (ID-JAG): they sign in at the company, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.servers import Hub, until
from tests.upstreams import accounts
from tests.upstreams.conftest import Peer
from tests.upstreams.test_accounts import call, text_of
from tests.wire.signing_in import Client, Person


def add(url: str) -> None:
    """Add the company's issuer as a service, and a connection that takes its word."""
    from tools_catalog.models import HttpService, McpConnection

    parts = urlsplit(url)
    issuer = f"{parts.scheme}://{parts.netloc}"
    company = HttpService(slug="company", url=issuer, issuer=issuer, account="personal", account_scopes="read")
    company.full_clean()
    company.save()
    row = McpConnection(slug="hr", transport="streamable-http", url=url, account="jag", policy="trust", client_id="hub")
    row.identity = company
    row.full_clean()
    row.save()


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    """The company's issuer, the upstream and its issuer in one."""
    with Peer("oauth.py") as running:
        accounts.control(running.url, identifies=600)
        yield running


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("company")
    made = Hub(folder, flags=["--workers", "2"], environment={"MCPHUB_EGRESS_ALLOW": "127.0.0.1,localhost"})
    with accounts.hub_url(made) as running:
        yield running


def test_who_signed_in_at_the_company_signs_in_nowhere_else(hub: Hub, peer: Peer) -> None:
    own = {"anna": "alice", "boris": "bob"}
    tokens: dict[str, Any] = {}
    with (
        Client(hub) as client,
        Person(hub, "chief") as chief,
        Person(hub, "anna") as anna,
        Person(hub, "boris") as boris,
    ):
        hub.operate(accounts.make_operator, "chief")
        hub.operate(add, peer.url)
        accounts.connect(chief, "/connect/service/company/?as=all", "lister")
        until(lambda: "result" in call(hub, hub.key, "hr_whoami"))
        hub.settle()  # the other worker serves it, too
        for person in (anna, boris):
            token = tokens[person.name] = client.sign_in(person)["access_token"]
            asked = text_of(call(hub, token, "hr_whoami"))
            address = next((word for word in asked.split() if word.startswith("http")), asked)  # else what it said
            assert "/connect/service/company/?link=" in address
            accounts.connect(person, address, own[person.name])
        for _ in range(3):
            for name, subject in own.items():
                assert text_of(call(hub, tokens[name], "hr_whoami")) == subject
        # The ID token has ended: the hub gets another one by the refresh token, and nobody is asked.
        before = accounts.control(peer.url)["identified"]
        hub.operate(accounts.age_tokens, "hr")
        hub.operate(end_id_tokens)
        hub.settle()
        assert text_of(call(hub, tokens["anna"], "hr_whoami")) == "alice"
        assert accounts.control(peer.url)["identified"] > before
        # The company says no: the call fails, with its words, and goes out as nobody.
        accounts.control(peer.url, unknown=["bob"])
        hub.operate(accounts.age_tokens, "hr")
        hub.settle()
        assert "does not vouch" in text_of(call(hub, tokens["boris"], "hr_whoami"))
        assert text_of(call(hub, tokens["anna"], "hr_whoami")) == "alice"


def end_id_tokens() -> None:
    """Let the ID tokens have ended."""
    import jwt

    from tools_catalog.models import UpstreamAccount

    for row in UpstreamAccount.objects.filter(service__slug="company"):
        claims = jwt.decode(row.opened("id_token"), options={"verify_signature": False})
        row.id_token = row.sealed("id_token", jwt.encode({**claims, "exp": 1}, "x" * 40, "HS256"))
        row.save(update_fields=["id_token"])
