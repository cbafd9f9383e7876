"""Servers and issuers that publish their documents in ways of their own: what the hub follows, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from backend_peers import Received, reply, serving

from sessions_app.protocol import authorization
from sessions_app.protocol.authorization import Challenge, IssuerMetadata
from sessions_app.protocol.authorization_flow import AnswerRefused, TokenAnswer
from tools_catalog.accounts.asking import Client, Discovered, IssuerClient, NotReached

DOCUMENT = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server"


class Server:
    """An MCP server that is its own issuer. `moved` are the addresses that send on, and where to."""

    def __init__(self, moved: dict[str, str], *, names: bool = True, slash: str = "") -> None:
        self.moved, self.names, self.slash = moved, names, slash

    def __call__(self, request: Received, writer: Any) -> None:
        origin = f"http://{request.headers['host']}"
        if request.target in self.moved:
            writer.write(reply(307, Location=self.moved[request.target]))
        elif request.target.rstrip("/") == DOCUMENT and self.names:
            resource = {"resource": f"{origin}/mcp", "authorization_servers": [origin + self.slash]}
            writer.write(reply(200, json.dumps(resource).encode(), "application/json"))
        elif request.target == METADATA:
            issuer = {
                "issuer": origin,
                "authorization_endpoint": f"{origin}/authorize",
                "token_endpoint": f"{origin}/token",
                "code_challenge_methods_supported": ["S256"],
            }
            writer.write(reply(200, json.dumps(issuer).encode(), "application/json"))
        else:
            writer.write(reply(404))


def found(server: Server, *, is_named: bool = True) -> Discovered:
    async def run() -> Discovered:
        async with serving(server) as peer, IssuerClient() as client:
            challenge = Challenge(f"{peer.url}{DOCUMENT}" if is_named else "")
            return await client.found(f"{peer.url}/mcp", challenge)

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def allowed(settings: Any) -> None:
    settings.MCPHUB_EGRESS_ALLOW = ("127.0.0.1",)


@pytest.mark.parametrize("moved", [{}, {DOCUMENT: DOCUMENT + "/"}])
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_description_is_followed_within_its_origin(moved: dict[str, str], slash: str) -> None:
    discovered = found(Server(moved, slash=slash))
    assert discovered.resource is not None
    assert discovered.issuer.issuer == discovered.resource.identifier.removesuffix("/mcp")


@pytest.mark.parametrize(
    ("moved", "words"), [({DOCUMENT: "http://127.0.0.2:1/x"}, "another server"), ({DOCUMENT: DOCUMENT}, "on and on")]
)
def test_a_description_elsewhere_is_refused_and_no_older_revision_is_tried(moved: dict[str, str], words: str) -> None:
    with pytest.raises(NotReached, match=words):
        found(Server(moved))


def test_a_description_that_is_named_and_not_there_is_no_older_revision() -> None:
    with pytest.raises(NotReached, match="nothing is there"):
        found(Server({}, names=False))
    assert found(Server({}, names=False), is_named=False).resource is None


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded; charset=utf-8", b"access_token=abc&expires_in=3600&scope=read+write"),
        ("application/json", b'{"access_token":"abc","expires_in":"3600","scope":"read write","token_type":null}'),
        ("text/html", b'{"access_token":"abc","expires_in":3600.5,"scope":"read write","token_type":"BEARER"}'),
    ],
)
def test_a_token_is_read_from_json_and_from_a_form(kind: str, body: bytes) -> None:
    async def run() -> TokenAnswer:
        async with (
            serving(lambda request, writer: writer.write(reply(200, body, kind))) as peer,
            IssuerClient() as client,
        ):
            issuer = IssuerMetadata.without_metadata(peer.url)
            return await client.tokens(issuer, Client("c", authorization.PUBLIC), {"code": "x"}, ("read",))

    assert asyncio.run(run()) == TokenAnswer("abc", expires_in=3600, scopes=("read", "write"))


def test_a_refusal_is_read_from_a_form() -> None:
    async def run() -> None:
        body = b"error=bad_verification_code&error_description=The+code+is+stale."
        answer = reply(200, body, "application/x-www-form-urlencoded")
        async with serving(lambda request, writer: writer.write(answer)) as peer, IssuerClient() as client:
            issuer = IssuerMetadata.without_metadata(peer.url)
            with pytest.raises(AnswerRefused, match="The code is stale"):
                await client.tokens(issuer, Client("c", authorization.PUBLIC), {"code": "x"}, ())

    asyncio.run(run())


def test_challenges_of_several_lines_are_read_as_one_list() -> None:
    lines = 'Bearer error="insufficient_scope", scope="read admin", Basic realm="gate"'
    assert Challenge.read(lines).scopes == ("read", "admin")
