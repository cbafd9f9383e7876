"""Accounts at HTTP APIs that demand OAuth: tools of a service call as the person who calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.servers import Hub
from tests.upstreams import accounts
from tests.upstreams.conftest import Peer
from tests.wire.signing_in import Client, Person
from tests.wire.speech import META, Speaker

OPEN = {f"{META}clientCapabilities": {"elicitation": {"url": {}}}}


def add_service(slug: str, origin: str, account: str, **words: Any) -> None:
    """Add a service with one tool, `SLUG_me`."""
    from tests.factories import McpToolDefinitionFactory
    from tools_catalog.models import HttpService

    row = HttpService(slug=slug, url=f"{origin}/api", account=account, **words)
    row.full_clean()
    row.save()
    McpToolDefinitionFactory(
        name=f"{slug}_me",
        backend="http",
        configuration={"service": slug, "url": "/me"},
        destructive=False,
        read_only=True,
    )


def add_key(name: str, origin: str, user: str) -> str:
    """Keep a new private key as a secret for an issuer; give its public half."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    from tools_catalog.models import Secret

    key = ec.generate_private_key(ec.SECP256R1())
    row = Secret(name=name, origins=origin, users=user, places="headers.Authorization")
    row.set_value(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
    )
    row.save()
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return public.decode()


def state(slug: str) -> dict[str, Any]:
    from tools_catalog.models import HttpService

    rows = HttpService.objects.get(slug=slug).accounts.all()
    return {row.principal: {"state": row.state, "failure": row.failure, "generation": row.generation} for row in rows}


def age(slug: str) -> int:
    from django.utils import timezone

    from tools_catalog.models import UpstreamAccount

    return int(UpstreamAccount.objects.filter(service__slug=slug).update(expires_at=timezone.now()))


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with Peer("oauth.py") as running:
        yield running


@pytest.fixture(scope="module")
def origin(peer: Peer) -> str:
    parts = urlsplit(peer.url)
    return f"{parts.scheme}://{parts.netloc}"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("service-accounts")
    made = Hub(folder, flags=["--workers", "2"], environment={"MCPHUB_EGRESS_ALLOW": "127.0.0.1,localhost"})
    with accounts.hub_url(made) as running:
        yield running


@pytest.fixture(scope="module")
def people(hub: Hub) -> Iterator[dict[str, tuple[Person, str]]]:
    made: dict[str, tuple[Person, str]] = {}
    with Client(hub) as client, Person(hub, "anna") as anna, Person(hub, "boris") as boris:
        for person in (anna, boris):
            made[person.name] = person, client.sign_in(person)["access_token"]
        yield made


@pytest.fixture(scope="module")
def api(hub: Hub, origin: str, people: Any) -> str:
    """A service where each calls as himself."""
    hub.operate(add_service, "api", origin, "personal", issuer=f"{origin}", account_scopes="read")
    hub.settle()
    assert "not connected" in str(call(hub, people["anna"][1], "api_me"))
    return "api"


def call(hub: Hub, token: str, tool: str, **meta: Any) -> dict[str, Any]:
    with Speaker(hub.url, token) as speaker:
        answer: dict[str, Any] = speaker.modern_call(tool, **meta).json()
        return answer


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


def test_each_person_calls_an_api_with_an_account_of_their_own(hub: Hub, api: str) -> None:
    with Client(hub) as client, Person(hub, "ella") as ella, Person(hub, "fred") as fred:
        of_ella, of_fred = (client.sign_in(person)["access_token"] for person in (ella, fred))
        refused = call(hub, of_ella, "api_me")
        assert refused["result"]["isError"], refused
        address = next(word for word in text_of(refused).split() if word.startswith("http"))
        assert address.startswith(f"{hub.url}/connect/service/api/?link=")
        assert fred.http.get(address.removeprefix(hub.url)).status_code == 403
        accounts.connect(ella, address, "alice")
        assert '"login":"alice"' in text_of(call(hub, of_ella, "api_me")).replace(" ", "")
        assert call(hub, of_fred, "api_me")["result"]["isError"]


def test_a_token_that_the_api_gives_back_is_cut_out(hub: Hub, api: str, people: Any) -> None:
    accounts.connect(people["anna"][0], "/connect/service/api/", "alice")
    answer = call(hub, people["anna"][1], "api_me")
    assert len(json.loads(text_of(answer))["you_sent"]) < 20, answer


def test_a_client_is_led_to_the_page_and_its_next_round_calls(hub: Hub, api: str) -> None:
    with Client(hub) as client, Person(hub, "clara") as clara, Speaker(hub.url, "") as speaker:
        speaker.key = client.sign_in(clara)["access_token"]
        asked = speaker.modern_call("api_me", **OPEN).json()["result"]
        assert asked["resultType"] == "input_required"
        ((key, question),) = asked["inputRequests"].items()
        accounts.connect(clara, question["params"]["url"], "carol")
        params = {
            "name": "api_me",
            "arguments": {},
            "inputResponses": {key: {"action": "accept"}},
            "requestState": asked["requestState"],
            "_meta": OPEN,
        }
        assert "carol" in text_of(speaker.modern("tools/call", params).json())


def test_tokens_are_renewed_once_and_no_call_goes_out_as_another(hub: Hub, peer: Peer, api: str, people: Any) -> None:
    own = {"anna": "alice", "boris": "bob"}
    for name, subject in own.items():
        accounts.connect(people[name][0], "/connect/service/api/", subject)
    for number in range(4):
        if number % 2:
            accounts.control(peer.url, expire=True)  # the API refuses what the hub takes for good
        else:
            hub.operate(age, "api")
        with ThreadPoolExecutor(8) as callers:
            asked = ["anna", "boris"] * 10
            answers = list(callers.map(lambda name: text_of(call(hub, people[name][1], "api_me")), asked))
        wrong = [(name, said) for name, said in zip(asked, answers, strict=True) if own[name] not in said]
        assert wrong == []
    assert accounts.control(peer.url)["reused"] == 0


def test_an_account_that_the_issuer_ended_is_asked_for_again(hub: Hub, peer: Peer, api: str, people: Any) -> None:
    boris, of_boris = people["boris"]
    accounts.connect(boris, "/connect/service/api/", "bob")
    accounts.control(peer.url, forget="bob")
    answer = text_of(call(hub, of_boris, "api_me"))
    assert "Connect it again" in answer
    assert "/connect/service/api/" in answer
    assert hub.operate(state, "api")[boris.principal]["state"] == "ended"


def test_a_key_of_nobody_calls_with_nobodys_account(hub: Hub, api: str) -> None:
    assert "no person's" in text_of(call(hub, hub.key, "api_me"))


def test_one_account_serves_all_where_an_operator_connected_it(hub: Hub, origin: str, people: Any) -> None:
    hub.operate(add_service, "house", origin, "shared", issuer=f"{origin}")
    hub.settle()
    assert "not connected" in str(call(hub, hub.key, "house_me"))
    assert people["anna"][0].http.get("/connect/service/house/").status_code == 404
    with Person(hub, "chief") as chief:
        hub.operate(accounts.make_operator, "chief")
        accounts.connect(chief, "/connect/service/house/", "house")
    assert "house" in text_of(call(hub, hub.key, "house_me"))


@pytest.mark.parametrize("account", ["behalf", "exchange"])
def test_the_hub_gets_a_token_for_each_person_by_its_word(
    account: str, hub: Hub, peer: Peer, origin: str, people: Any
) -> None:
    key = hub.operate(add_key, account, origin, f"service:{account}")
    accounts.control(peer.url, key=key, audience=f"{origin}/token", unknown=["boris"])
    words = {"client_id": "the-hub", "client_secret": account, "token_url": f"{origin}/token"}
    hub.operate(add_service, account, origin, account, **words)
    (_anna, of_anna), (_boris, of_boris) = people["anna"], people["boris"]
    hub.settle()
    assert "anna" in text_of(call(hub, of_anna, f"{account}_me"))
    # Nobody's token serves another: who is unknown there, and who is no person, gets none.
    assert "no such person" in text_of(call(hub, of_boris, f"{account}_me"))
    assert "no person's" in text_of(call(hub, hub.key, f"{account}_me"))
    accounts.control(peer.url, expire=True)
    before = accounts.control(peer.url)["believed"]
    assert "anna" in text_of(call(hub, of_anna, f"{account}_me"))
    assert accounts.control(peer.url)["believed"] == before + 1
    accounts.control(peer.url, unknown=[])
    assert "boris" in text_of(call(hub, of_boris, f"{account}_me"))
