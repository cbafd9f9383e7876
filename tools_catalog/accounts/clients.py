"""As which client the hub is known to an issuer: entered by hand, by its document, or registered."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from asgiref.sync import sync_to_async
from django.db import IntegrityError, transaction

from sessions_app import endpoints
from sessions_app.history.events import Actor
from sessions_app.protocol import authorization, authorization_flow
from sessions_app.protocol.authorization import AuthorizationInvalid, Challenge, IssuerMetadata
from sessions_app.protocol.errors import HubError
from sessions_app.protocol.json import Json
from tools_catalog.accounts import storing
from tools_catalog.accounts.asking import Client, Discovered, IssuerClient
from tools_catalog.accounts.assertions import is_key
from tools_catalog.accounts.proofs import new_key
from tools_catalog.accounts.storing import AccountAt
from tools_catalog.bindings import Destination, origin_of
from tools_catalog.models.accounts import UpstreamRegistration
from tools_catalog.models.services import HttpService
from tools_catalog.models.upstream import McpConnection
from tools_catalog.upstream.account import BY_WORD
from tools_catalog.upstream.spec import SSE
from tools_catalog.vault import read_secrets, secret_for

DOCUMENT_PATH: Final = "/connect/client.json"
CALLBACK_PATH: Final = "/connect/callback/"
Manner = UpstreamRegistration.Manner


def mark_of(issuer: str) -> str:
    """Return what tells the addresses for one issuer from those for all others."""
    return hashlib.sha256(issuer.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def redirect_uri(mark: str = "") -> str:
    """Return where an issuer, named by its mark, sends people back to.

    A code that comes back there is of no other issuer, so none is brought to an issuer that did not give it (RFC 9700,
    mix-up). Without a mark it is the address for clients that people entered at the issuer by hand.
    """
    return endpoints.issuer() + CALLBACK_PATH + (f"{mark}/" if mark else "")


def document_address(mark: str = "") -> str:
    """Return the address of the document that describes the hub as a client; empty where no issuer could read it."""
    path = f"{DOCUMENT_PATH.removesuffix('.json')}/{mark}.json" if mark else DOCUMENT_PATH
    return endpoints.issuer() + path if endpoints.issuer().startswith("https://") else ""


def document(mark: str = "") -> dict[str, Json]:
    """Return that document (MCP 2026-07-28, Client ID Metadata Documents)."""
    own = authorization_flow.client_document(redirect_uri=redirect_uri(mark), name="MCP Hub", home=endpoints.issuer())
    return {"client_id": document_address(mark), **own}


async def registration_for(
    asking: IssuerClient, place: AccountAt, found: Discovered, scopes: Sequence[str], actor: Actor
) -> UpstreamRegistration:
    """Return how this issuer knows the hub, made where it does not yet. Raises NotReached, AuthorizationInvalid.

    The order is that of MCP 2026-07-28: a client id that was entered by hand, the hub's document, registration. A
    registration at another issuer is never used.
    """
    issuer, resource = found.issuer, ""
    if place.sends_resource:
        resource = found.resource.identifier if found.resource is not None else authorization.canonical(place.url)
    row = await sync_to_async(storing.registration_of)(place, issuer.issuer)
    mark = mark_of(issuer.issuer)
    leads_back = redirect_uri(mark)
    is_new = row is None or not _fits(row, place)
    if row is None or is_new:
        row = row or UpstreamRegistration(**storing.at(place.of, place.pk), issuer=issuer.issuer)
        if place.client_id:
            await sync_to_async(_refuse_other_issuer)(place, issuer.issuer)
            row.manner, row.client_id, row.ciphertext = Manner.BY_HAND, place.client_id, ""
            row.method = ""
        elif issuer.takes_documents and (address := asking.document_address or document_address(mark)):
            row.manner, row.client_id, row.method = Manner.DOCUMENT, address, authorization.PUBLIC
            row.ciphertext = ""
        else:
            wanted = authorization_flow.registration(
                redirect_uri=leads_back, scopes=scopes, issuer=issuer, name="MCP Hub", home=endpoints.issuer()
            )
            given = await asking.registered(issuer, wanted)
            row.manner, row.client_id, row.method = Manner.DYNAMIC, given.client_id, given.method
            row.set_secret(given.client_secret)
    if found.binds and not row.proof_key:
        row.set_binding_key(new_key())
    elif not found.binds:
        row.proof_key = ""
    if row.manner == Manner.BY_HAND or (row.manner == Manner.DOCUMENT and asking.document_address):
        row.redirect_uri = redirect_uri()
    elif is_new:
        row.redirect_uri = leads_back
    row.metadata, row.resource = storing.issuer_row(issuer), resource
    return await sync_to_async(_keep)(row, actor, is_new)


async def who_lets_in(asking: IssuerClient, place: AccountAt) -> tuple[Challenge, Discovered]:
    """Discover the issuer: at an upstream by request, for a service from the operator's setting.

    Raises NotReached, AuthorizationInvalid.
    """
    if isinstance(place, HttpService):
        is_plain = place.url.startswith("http://")
        if not place.issuer:
            told = IssuerMetadata.of_addresses(place.authorization_url, place.token_url)
            return Challenge(), Discovered(told, None)
        issuer = await asking.issuer(place.issuer, is_plain_allowed=is_plain, is_pkce_demanded=False)
        return Challenge(), Discovered(issuer, None)
    headers = await sync_to_async(rendered_headers)(place)
    challenge = await asking.challenge(place.url, headers, is_stream=place.transport == SSE)
    return challenge, await asking.found(place.url, challenge, place.issuer)


def known_client(place: AccountAt, row: UpstreamRegistration) -> Client:
    """Return the hub as the issuer knows it, with its proof. Raises SecretError, AuthorizationInvalid."""
    return replace(_known_client(place, row), binding=row.binding_key())


def _known_client(place: AccountAt, row: UpstreamRegistration) -> Client:
    issuer = storing.kept_issuer(row)
    if row.manner != Manner.BY_HAND:
        return Client(row.client_id, row.method, row.secret())
    if not place.client_secret:
        return Client(row.client_id, authorization.PUBLIC)
    to = Destination(origin_of(issuer.token_endpoint), (f"{place.of}:{place.slug}",))
    read_secrets()
    try:
        proof = secret_for(place.client_secret, to.at("headers.Authorization"))
        if is_key(proof) and place.account in BY_WORD and authorization.SIGNED not in issuer.methods:
            return Client(row.client_id, authorization.PUBLIC, proof)  # the statement about a person says who asks
        method = authorization.method_for(issuer, has_secret=not is_key(proof), has_key=is_key(proof))
        if method == authorization.POST:
            secret_for(place.client_secret, to.at("body"))
    except HubError as error:
        raise AuthorizationInvalid(str(error)) from error
    return Client(row.client_id, method, proof)


def rendered_headers(connection: McpConnection) -> dict[str, str]:
    """Return the connection's own headers. Raises AuthorizationInvalid where one of their secrets must not be sent."""
    read_secrets()
    try:
        return connection.spec().rendered_headers(secret_for)
    except HubError as error:
        raise AuthorizationInvalid(str(error)) from error


def _fits(row: UpstreamRegistration, place: AccountAt) -> bool:
    """Return whether the registration is of the client that the place names, or of one that the hub made itself.

    One from before issuers had addresses of their own stays: a new one would end the accounts that it has. Its issuer
    sends nobody back to the address of another.
    """
    if place.client_id:
        return row.manner == Manner.BY_HAND and row.client_id == place.client_id
    mark = mark_of(row.issuer)
    if row.manner == Manner.DOCUMENT:
        return row.client_id not in ("", document_address()) or row.redirect_uri == redirect_uri()
    return row.manner == Manner.DYNAMIC and row.redirect_uri in (redirect_uri(mark), redirect_uri())


def _refuse_other_issuer(place: AccountAt, issuer: str) -> None:
    """A client id that was entered by hand was for the issuer of that time."""
    others = UpstreamRegistration.objects.filter(
        **storing.at(place.of, place.pk), manner=Manner.BY_HAND, client_id=place.client_id
    ).exclude(issuer=issuer)
    if (other := others.first()) is not None:
        raise AuthorizationInvalid(
            f"The client id was for the issuer {other.issuer[:200]}, and the server now names {issuer[:200]}. "
            "Nothing was sent. If that is right, register the hub there and enter the new client id."
        )


def _keep(row: UpstreamRegistration, actor: Actor, is_new: bool) -> UpstreamRegistration:
    """Store a registration; give the one that somebody else made meanwhile, if there is one.

    Accounts that were connected as another client end: their tokens are that client's.
    """
    is_changed = is_new and row.pk is not None
    try:
        with transaction.atomic():
            row.save()
            if is_new:
                storing.note_registered(row, actor)
            if is_changed:
                storing.end_all_of_registration(
                    row.pk, "The hub is another client at the issuer now. Connect it again."
                )
    except IntegrityError:
        made = storing.registration_of(row.place, row.issuer)
        if made is None:
            raise
        return made
    return row
