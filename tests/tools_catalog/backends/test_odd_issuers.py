"""Servers and issuers that publish their documents in ways of their own: what the hub follows, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from backend_peers import Received, reply, serving
from django.core.exceptions import ValidationError

from sessions_app.protocol import authorization
from sessions_app.protocol.authorization import AuthorizationInvalid, Challenge, IssuerMetadata
from sessions_app.protocol.authorization_flow import AnswerRefused, TokenAnswer
from tools_catalog.accounts.asking import Client, Discovered, IssuerClient, NotReached
from tools_catalog.accounts.clients import who_lets_in
from tools_catalog.models import McpConnection

DOCUMENT = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server"


class Server:
    """An MCP server that is its own issuer. `moved` are the addresses that send on, and where to."""

    def __init__(
        self, moved: dict[str, str], *, names: bool = True, path: str = "", slash: str = "", named: str = ""
    ) -> None:
        """The issuer is at `path`, and calls itself so. The description adds `slash`, or has `named` in its place."""
        self.moved, self.names, self.path, self.slash, self.named = moved, names, path, slash, named

    def __call__(self, request: Received, writer: Any) -> None:
        origin = f"http://{request.headers['host']}"
        if request.target in self.moved:
            writer.write(reply(307, Location=self.moved[request.target]))
        elif request.target.rstrip("/") == DOCUMENT and self.names:
            resource = {
                "resource": f"{origin}/mcp",
                "authorization_servers": [origin + (self.named or self.path + self.slash)],
            }
            writer.write(reply(200, json.dumps(resource).encode(), "application/json"))
        elif request.target in (METADATA + self.path, METADATA + self.named.rstrip("/")):
            issuer = {
                "issuer": origin + self.path,
                "authorization_endpoint": f"{origin}/authorize",
                "token_endpoint": f"{origin}/token",
                "code_challenge_methods_supported": ["S256"],
            }
            writer.write(reply(200, json.dumps(issuer).encode(), "application/json"))
        else:
            writer.write(reply(404))


def found(server: Server, *, is_named: bool = True, entered: str | None = None) -> Discovered:
    """Discover the issuer, or at one that was entered by its path, as the row of a connection has it."""

    async def run() -> Discovered:
        async with serving(server) as peer, IssuerClient() as client:
            challenge = Challenge(f"{peer.url}{DOCUMENT}" if is_named else "")
            name = "" if entered is None else peer.url + entered
            return await client.found(f"{peer.url}/mcp", challenge, name)

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


SAID_OTHERWISE: dict[str, dict[str, str]] = {
    "a slash at the end": {"path": "/application/o/app", "slash": "/"},
    "a path that the issuer's own name lacks": {"named": "/tenant-7"},
    "none that its own name has": {"path": "/global/oauth", "named": "/"},
}


@pytest.mark.parametrize("kind", SAID_OTHERWISE)
def test_an_issuer_that_the_server_names_otherwise_is_refused_until_an_operator_enters_it(kind: str) -> None:
    server = Server({}, **SAID_OTHERWISE[kind])
    with pytest.raises(AuthorizationInvalid, match=r"Nothing is sent.*enter the former as the `issuer` of"):
        found(server)
    discovered = found(server, entered=server.path)
    assert discovered.resource is not None
    assert discovered.issuer.issuer == discovered.resource.identifier.removesuffix("/mcp") + server.path


def test_an_entered_issuer_is_refused_too_where_its_metadata_have_another_name() -> None:
    with pytest.raises(AuthorizationInvalid, match="Nothing is sent"):
        found(Server({}, path="/o/app", slash="/"), entered="/o/app/")


def test_an_entered_issuer_needs_no_description_of_the_server() -> None:
    server = Server({}, names=False, path="/o/app")
    for is_named in (True, False):
        discovered = found(server, is_named=is_named, entered="/o/app")
        assert discovered.resource is None
        assert discovered.issuer.issuer.endswith("/o/app")


@pytest.mark.django_db
def test_the_issuer_of_a_connections_row_counts() -> None:
    async def run(issuer: str) -> Discovered:
        async with serving(Server({}, path="/o/app", slash="/")) as peer, IssuerClient() as client:
            row = McpConnection(slug="odd", transport="streamable-http", url=f"{peer.url}/mcp")
            row.issuer = issuer and peer.url + issuer
            return (await who_lets_in(client, row))[1]

    assert asyncio.run(run("/o/app")).issuer.issuer.endswith("/o/app")
    with pytest.raises(AuthorizationInvalid, match="`issuer` of the connection"):
        asyncio.run(run(""))


@pytest.mark.parametrize("issuer", ["http://10.0.0.1/x", "https://id.example/?a=b", "no address"])
@pytest.mark.django_db
def test_an_issuer_that_must_not_be_asked_is_not_stored(issuer: str) -> None:
    row = McpConnection(slug="odd", transport="streamable-http", url="https://a.example/mcp", account="shared")
    row.issuer = issuer
    with pytest.raises(ValidationError) as refused:
        row.full_clean()
    assert list(refused.value.message_dict) == ["issuer"]


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
