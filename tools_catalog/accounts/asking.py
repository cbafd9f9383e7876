"""The hub's HTTP requests to servers and issuers: descriptions, registrations, tokens. Guarded and bounded.

No redirect is followed, no answer is read beyond its bound, and no error contains the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx2

from sessions_app.advice import Advice
from sessions_app.protocol import authorization, authorization_flow, json
from sessions_app.protocol.authorization import (
    AuthorizationInvalid,
    Challenge,
    IssuerMetadata,
    OtherIssuer,
    ResourceMetadata,
)
from sessions_app.protocol.authorization_flow import Registered, TokenAnswer
from sessions_app.protocol.errors import HubError
from sessions_app.protocol.json import Json
from tools_catalog.accounts.assertions import signed_assertion
from tools_catalog.accounts.proofs import proof
from tools_catalog.backends.http.answer import read
from tools_catalog.egress import guard as egress

_SECONDS: Final = 10.0
_MOST_BYTES: Final = 256 * 1024
_MOST_REDIRECTS: Final = 3
_MOST_NONCE: Final = 1000
_JSON: Final = {"Accept": "application/json"}
_FORM: Final = "application/x-www-form-urlencoded"
_PROBE: Final = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "mcphub", "version": "1"}},
}


_ENTER_CLIENT: Final = Advice(
    page="Enter the client id that you get on the page of the connection or service.",
    command=(
        "Write the client id that you get into a bundle, as `client_id` of the connection or service, and load it with "
        "`mcphub catalog load FILE --overwrite`."
    ),
    neutral="The client id belongs to the settings of the connection or service.",
)
_ENTER_ISSUER: Final = Advice(
    page="If you trust it, enter the former as the issuer of the connection or service, exactly as written here.",
    command=(
        "If you trust it, write the former into a bundle as `issuer` of the connection or service, and load it with "
        "`mcphub catalog load FILE --overwrite`."
    ),
    neutral="Operators who trust it enter the former as the `issuer` of the connection or service.",
)


class NotReached(Exception):
    """A server or issuer gave no answer that could be read. The sentence has the address and the reason."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """The issuer of a server, and the parameters of token requests for it."""

    issuer: IssuerMetadata
    resource: ResourceMetadata | None
    """None of a server that describes no protection."""
    wants_proof: bool = False
    """The server takes tokens that are bound to a key (DPoP)."""

    @property
    def binds(self) -> bool:
        """Whether tokens for it are bound to a key: where the server takes such, and the issuer makes them."""
        return self.wants_proof and self.issuer.binds


@dataclass(frozen=True, slots=True)
class Client:
    """The hub as one issuer knows it. `proof` is its password, or its private key."""

    client_id: str
    method: str
    proof: str = ""
    binding: str = ""
    """The private key that its tokens are bound to, as PEM; empty where they are bearer tokens."""


class IssuerClient:
    """One conversation with a server and its issuer. Enter it."""

    def __init__(self, document_address: str = "") -> None:
        """`document_address` is where the hub's document stands, if not at its own address."""
        self.document_address = document_address
        self._nonce = ""
        """The issuer's nonce for the next proof."""
        self._location = ""
        """Where the last answer sends on to."""
        self._client = egress.client(timeout_seconds=_SECONDS, connections=4)

    async def __aenter__(self) -> IssuerClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def challenge(self, url: str, headers: Mapping[str, str], *, is_stream: bool) -> Challenge:
        """Send a server a request without a token and return its challenge; empty without one.

        Raises NotReached.
        """
        sent = {**headers, "Accept": "application/json, text/event-stream"}
        content = None if is_stream else json.dumps(_PROBE)
        if content is not None:
            sent["Content-Type"] = "application/json"
        try:
            async with asyncio.timeout(_SECONDS):
                asked = self._client.build_request("GET" if is_stream else "POST", url, headers=sent, content=content)
                response = await self._client.send(asked, stream=True)
                await response.aclose()
        except (HubError, httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise NotReached(_unreached("The server", url, error)) from error
        if response.status_code not in (401, 403):
            return Challenge()
        return Challenge.read(response.headers.get("www-authenticate", ""))

    async def found(self, url: str, challenge: Challenge, entered: str = "") -> Discovered:
        """Discover the issuer of a server (MCP 2026-07-28, Authorization Server Discovery). `entered` is the issuer
        that an operator entered, which counts in place of all that the server names.

        Raises NotReached, AuthorizationInvalid.
        """
        resource = await self._resource(url, challenge)
        is_plain = urlsplit(url).scheme == "http"
        if resource is None and challenge.resource_metadata and not entered:
            raise NotReached(
                f"The server names {challenge.resource_metadata[:200]} as the description of what protects it, "
                "and nothing is there. Its operator has to publish it."
            )
        name = entered or (resource.issuers[0] if resource is not None else "")
        if not name:
            return Discovered(await self._issuer_of_2025_03_26(url, is_plain), None, challenge.wants_proof)
        issuer = await self.issuer(name, is_plain_allowed=is_plain)
        return Discovered(issuer, resource, challenge.wants_proof or (resource is not None and resource.wants_proof))

    async def issuer(self, name: str, *, is_plain_allowed: bool, is_pkce_demanded: bool = True) -> IssuerMetadata:
        """Read an issuer's metadata. Raises NotReached, AuthorizationInvalid."""
        document = await self._first(authorization.issuer_documents(name))
        if document is None:
            raise NotReached(f"The authorization server {name[:200]} publishes no metadata.")
        try:
            return IssuerMetadata.read(
                document, name, is_plain_allowed=is_plain_allowed, is_pkce_demanded=is_pkce_demanded
            )
        except OtherIssuer as error:
            raise AuthorizationInvalid(f"{error} {_ENTER_ISSUER.words()}") from error

    async def registered(self, issuer: IssuerMetadata, document: dict[str, Json]) -> Registered:
        """Register the hub (RFC 7591). Raises NotReached, AuthorizationInvalid."""
        if not issuer.registration_endpoint:
            raise AuthorizationInvalid(
                f"The authorization server {issuer.issuer[:200]} registers no clients. Register the hub there by hand. "
                f"{_ENTER_CLIENT.words()}"
            )
        body = json.dumps(document)
        status, answer = await self._sent(issuer.registration_endpoint, body, {"Content-Type": "application/json"})
        return Registered.read(status, answer, str(document["token_endpoint_auth_method"]))

    async def tokens(
        self, issuer: IssuerMetadata, client: Client, form: Mapping[str, str], asked: Iterable[str]
    ) -> TokenAnswer:
        """Ask for tokens. Raises NotReached, AnswerRefused, AuthorizationInvalid."""
        status, answer = await self._as_client(issuer, issuer.token_endpoint, client, form)
        if client.binding and isinstance(answer, dict) and answer.get("error") == authorization_flow.WANTS_NONCE:
            status, answer = await self._as_client(issuer, issuer.token_endpoint, client, form)
        if status >= 500 and not (isinstance(answer, dict) and "error" in answer):
            raise NotReached(f"The authorization server answered with status {status}.")
        return TokenAnswer.read(status, answer, asked, has_key=bool(client.binding))

    async def grant(self, issuer: IssuerMetadata, client: Client, form: Mapping[str, str]) -> str:
        """Ask for a grant for another issuer (ID-JAG). Raises NotReached, AnswerRefused, AuthorizationInvalid."""
        return authorization_flow.grant_in(*await self._as_client(issuer, issuer.token_endpoint, client, form))

    async def name(self, issuer: IssuerMetadata, client: Client, answer: TokenAnswer) -> str:
        """Return the account's name at its issuer; empty if not stated. It is for people to read."""
        if answer.name or not issuer.userinfo_endpoint or "openid" not in answer.scopes:
            return answer.name
        try:
            token, address = answer.access_token, issuer.userinfo_endpoint
            headers = {"Authorization": f"Bearer {token}"}
            if answer.is_bound:
                headers = {"Authorization": f"DPoP {token}", "DPoP": proof(client.binding, "GET", address, token=token)}
            status, told = await self._sent(address, None, headers)
        except NotReached:
            return ""
        return authorization_flow.name_of(told) if status == 200 else ""

    async def revoke(self, issuer: IssuerMetadata, client: Client, token: str) -> bool:
        """Revoke a token at its issuer (RFC 7009); return whether that succeeded. Raises NotReached,
        AuthorizationInvalid.
        """
        if not issuer.revocation_endpoint:
            return False
        form, address = {"token": token}, issuer.revocation_endpoint
        status, _answer = await self._as_client(issuer, address, client, form)
        if status == 400 and client.method == authorization.BASIC:
            # Servers on Python's SDK (2.3) demand the field in the form, though they read the header alone.
            status, _answer = await self._as_client(issuer, address, client, {**form, "client_secret": ""})
        return 200 <= status < 300

    async def _as_client(
        self, issuer: IssuerMetadata, address: str, client: Client, form: Mapping[str, str]
    ) -> tuple[int, Json]:
        # The client's name stands in the form even where the header has it: some issuers look for it there alone.
        fields = {**form, "client_id": client.client_id}
        headers = {"Content-Type": _FORM}
        if client.method == authorization.BASIC:
            headers["Authorization"] = authorization_flow.basic(client.client_id, client.proof)
        if client.method == authorization.POST:
            fields["client_secret"] = client.proof
        if client.method == authorization.SIGNED:
            fields["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            fields["client_assertion"] = signed_assertion(client.proof, client.client_id, issuer)
        if client.binding:
            headers["DPoP"] = proof(client.binding, "POST", address, nonce=self._nonce)
        return await self._sent(address, urlencode(fields).encode(), headers)

    # Documents ----------------------------------------------------------------------------------------

    async def _resource(self, url: str, challenge: Challenge) -> ResourceMetadata | None:
        document = await self._first(authorization.resource_documents(url, challenge))
        return None if document is None else ResourceMetadata.read(document, url)

    async def _issuer_of_2025_03_26(self, url: str, is_plain: bool) -> IssuerMetadata:
        name = authorization.server_issuer(url)
        document = await self._first((name + authorization.AUTHORIZATION_SERVER,))
        if document is None:
            return IssuerMetadata.without_metadata(url)
        return IssuerMetadata.read(document, name, is_plain_allowed=is_plain)

    async def _first(self, addresses: Iterable[str]) -> Json | None:
        """Return the first document that stands at one of these addresses; None where there is none.

        Raises NotReached if one of them does not answer: continuing might lead to another issuer.
        """
        for address in addresses:
            status, document = await self._document(address)
            if 200 <= status < 300 and isinstance(document, dict):
                return document
            if status >= 500:
                raise NotReached(f"{address[:200]} answered with status {status}.")
        return None

    async def _document(self, address: str) -> tuple[int, Json]:
        """Ask for a document, and where its server moved it within its origin. Raises NotReached."""
        for _ in range(_MOST_REDIRECTS + 1):
            status, document = await self._sent(address, None, {})
            if not 300 <= status < 400 or not self._location:
                return status, document
            there = urljoin(address, self._location)
            if urlsplit(there)[:2] != urlsplit(address)[:2]:
                raise NotReached(
                    f"{address[:200]} sends the hub on to {there[:200]}, another server, which it does not follow: "
                    "who protects a server is said by the server itself."
                )
            address = there
        raise NotReached(f"{address[:200]} sends the hub on and on.")

    async def _sent(self, address: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, Json]:
        """Return the status and the JSON or the form of an answer, None where it is neither. Raises NotReached."""
        try:
            async with (
                asyncio.timeout(_SECONDS),
                self._client.stream(
                    "GET" if body is None else "POST", address, content=body, headers={**_JSON, **headers}
                ) as response,
            ):
                raw, is_whole = await read(response, _MOST_BYTES)
                self._location = response.headers.get("location", "")
                self._nonce = response.headers.get("dpop-nonce", "")[:_MOST_NONCE]
        except (HubError, httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise NotReached(_unreached("The address", address, error)) from error
        if not is_whole:
            raise NotReached(f"{address[:200]} answered with more than {_MOST_BYTES} bytes.")
        if response.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
            return response.status_code, dict(parse_qsl(raw.decode(errors="replace")))  # as some issuers answer
        try:
            return response.status_code, json.loads(raw)
        except HubError:
            return response.status_code, None


def _unreached(what: str, address: str, error: Exception) -> str:
    shown = urlsplit(address)._replace(query="", fragment="").geturl()[:200]
    reason = str(error) if isinstance(error, HubError) else type(error).__name__
    return f"{what} {shown} gives no answer: {reason}"
