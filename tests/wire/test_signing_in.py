"""A client needs nothing but the address, a person nothing but their login: the whole way, and every way astray."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests import operations
from tests.servers import Hub
from tests.wire.signing_in import Client, Person, told_to
from tests.wire.speech import Speaker


def a_name(of: str = "anna") -> str:
    return f"{of}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def anna(hub: Hub) -> Iterator[Person]:
    with Person(hub, a_name()) as person:
        yield person


@pytest.fixture
def client(hub: Hub) -> Iterator[Client]:
    with Client(hub) as made:
        yield made


def test_a_client_with_nothing_but_the_address_comes_to_an_audited_call(hub: Hub, anna: Person) -> None:
    with Speaker(hub.url, None) as stranger:
        refused = stranger.modern("tools/list")
        assert refused.status_code == 401
        challenge = refused.headers["www-authenticate"]
        assert challenge == (
            f'Bearer resource_metadata="{hub.url}/.well-known/oauth-protected-resource/mcp", '
            'scope="tools:list tools:call"'
        )
        of_endpoint = stranger.http.get("/.well-known/oauth-protected-resource/mcp").json()
        assert of_endpoint["resource"] == f"{hub.url}/mcp"
        [issuer] = of_endpoint["authorization_servers"]
        of_server = stranger.http.get("/.well-known/oauth-authorization-server").json()
        assert of_server["issuer"] == issuer == hub.url
    with Client(hub, "Claude") as client:
        told = told_to(anna.answers(client.address()))
        assert told["iss"] == hub.url
        assert told["state"] == "a state"
        tokens = client.redeem(told["code"]).json()
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] <= 3600
    with Speaker(hub.url, tokens["access_token"]) as speaker:
        assert speaker.modern("tools/list").status_code == 200
        answer = speaker.modern_call("echo", {"text": "signed in"})
        assert answer.status_code == 200, answer.text
        row = hub.row(client=speaker.name)
    assert row["principal"] == anna.principal
    assert "Claude" in row["caller_label"]
    assert anna.name in row["caller_label"]
