"""Access tokens of a real authorization server (npm's oidc-provider): taken at the endpoint that they are for alone."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from tests import operations
from tests.identity import IdentityProvider
from tests.identity.visiting import Visitor
from tests.servers import FIXTURES, Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.issuing import make_issuer
from tests.wire.signing_in import make_person
from tests.wire.speech import Speaker

PEOPLE = {"ada": {"preferred_username": "ada"}}
CLIENT = "their-client"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider(PEOPLE) as provider:
        yield provider


@pytest.fixture(scope="module")
def hub(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {"MCPHUB_EGRESS_ALLOW": f"127.0.0.1:{provider.port}"}
    with Hub(tmp_path_factory.mktemp("hub"), environment=environment, packs=["starter", FIXTURES]) as running:
        provider.start(
            f"{running.url}/login/back/firm/", f"{running.url}/login/", public={CLIENT: answered_at(running)}
        )
        running.operate(make_person, "ada")
        yield running


def answered_at(hub: Hub) -> str:
    return f"{hub.url}/their-client"


def token_for(hub: Hub, provider: IdentityProvider, resource: str) -> str:
    """Let a person give a client of the provider a token for one resource."""
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": answered_at(hub),
        "scope": "openid tools:call",
        "resource": resource,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    with Visitor(hub.url) as ada:
        back = ada.answers(f"{provider.issuer}/auth?{urlencode(asked)}", "ada")
    code = parse_qs(urlsplit(back).query)["code"][0]
    redeemed = {
        "grant_type": "authorization_code",
        "code": code,
        "client_id": CLIENT,
        "redirect_uri": answered_at(hub),
        "resource": resource,
        "code_verifier": verifier,
    }
    answer = httpx2.post(f"{provider.issuer}/token", data=redeemed, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


def status(hub: Hub, token: str, path: str = "/mcp") -> int:
    with Speaker(hub.url, token) as speaker:
        return speaker.post(speaker.modern_body("tools/list"), path, **speaker.modern_headers("tools/list")).status_code


def test_a_token_is_taken_once_its_issuer_is_trusted_and_at_its_endpoint_alone(
    hub: Hub, provider: IdentityProvider
) -> None:
    token = token_for(hub, provider, f"{hub.url}/mcp")
    assert status(hub, token) == 401
    hub.operate(make_issuer, "theirs", provider.issuer, person_claim="sub")
    until(lambda: status(hub, token) == 200)
    assert status(hub, token, "/sse") == 401
    for other in (f"{hub.url}/v1", "https://other.example/mcp"):
        assert status(hub, token_for(hub, provider, other)) == 401
    head, body, signature = token.split(".")
    assert status(hub, f"{head}.{body}.{signature[:-8]}AAAAAAAA") == 401
    with Speaker(hub.url, token) as speaker:
        assert speaker.modern_call("add", {"a": 1, "b": 2}).status_code == 200
    row = hub.row(tool="add")
    assert row["caller_label"] == f"ada via {CLIENT} (theirs)"
    hub.operate(operations.update, "signin.Issuer", {"name": "theirs"}, enabled=False)
    until(lambda: status(hub, token) == 401)
