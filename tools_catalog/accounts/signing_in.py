"""A person signs in at an issuer for the hub: led there, and back with a code that is redeemed once.

The returning person must be the one who left, with the state of that time, in time, from the issuer asked.
"""

from __future__ import annotations

import secrets as random
from dataclasses import dataclass, replace
from typing import Final

from asgiref.sync import sync_to_async

from sessions_app import bus
from sessions_app.history.events import Actor
from sessions_app.protocol import authorization, authorization_flow, json
from sessions_app.protocol.authorization import AuthorizationInvalid, Challenge
from sessions_app.protocol.authorization_flow import AuthorizationResponse
from tools_catalog import secrets
from tools_catalog.accounts import storing
from tools_catalog.accounts.asking import Discovered, IssuerClient, NotReached
from tools_catalog.accounts.clients import known_client, redirect_uri, registration_for, who_lets_in
from tools_catalog.accounts.storing import AccountAt
from tools_catalog.models.accounts import SHARED, PendingAuthorization, UpstreamAccount
from tools_catalog.models.upstream import McpConnection
from tools_catalog.secrets import SecretError

STATE_BYTES: Final = 32
FAILURES: Final = (NotReached, AuthorizationInvalid, SecretError)
"""Obstacles to signing in; each has a sentence that can be shown."""


class NotYours(AuthorizationInvalid):
    """The state is unknown, used, too old or another person's: which of these is nobody's business."""


class NotRedeemed(AuthorizationInvalid):
    """The person returned with a response that led to no account. Another try begins at `pending`."""

    def __init__(self, words: str, pending: PendingAuthorization) -> None:
        super().__init__(words)
        self.pending = pending


@dataclass(frozen=True, slots=True)
class Begun:
    """Where a person is to be led."""

    address: str
    issuer: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Looked:
    """The information for a person before any request to the issuer. `address` is its page, without a request."""

    issuer: str
    scopes: tuple[str, ...]
    address: str


async def look(place: AccountAt, principal: str) -> Looked:
    """Find out where a sign-in would lead. Nothing is registered or kept. Raises the errors in FAILURES."""
    async with IssuerClient() as asking:
        found, scopes = await _wanted(asking, place, principal)
    return Looked(found.issuer.issuer, scopes, found.issuer.authorization_endpoint)


async def begin(
    place: AccountAt, principal: str, actor: Actor, *, elicitation_id: str = "", document_address: str = ""
) -> Begun:
    """Begin a sign-in by `actor` for the account of `principal`. Raises the errors in FAILURES."""
    async with IssuerClient(document_address) as asking:
        found, scopes = await _wanted(asking, place, principal)
        registration = await registration_for(asking, place, found, scopes, actor)
    state, verifier = random.token_urlsafe(STATE_BYTES), random.token_urlsafe(STATE_BYTES + 16)
    address = authorization_flow.authorization_address(
        found.issuer,
        client_id=registration.client_id,
        redirect_uri=registration.redirect_uri,
        state=state,
        verifier=verifier,
        scopes=scopes,
        resource=registration.resource,
    )
    kept = {
        "verifier": verifier,
        "issuer": storing.issuer_row(found.issuer),
        "redirect_uri": registration.redirect_uri,
        "resource": registration.resource,
        "scopes": list(scopes),
    }
    sealed = secrets.encrypt(json.dumps(kept).decode(), aad=PendingAuthorization.binding(state))
    await sync_to_async(PendingAuthorization.objects.begin)(
        state=state,
        person=actor.principal,
        **storing.at(place.of, place.pk),
        registration=registration,
        principal=principal,
        sealed=sealed,
        elicitation_id=elicitation_id,
    )
    return Begun(address, found.issuer.issuer, scopes)


async def finish(query: str, actor: Actor, mark: str = "") -> PendingAuthorization:
    """Redeem the response of a person's browser, and store the account. Raises NotYours, NotRedeemed.

    `mark` is that of the address where it came back: an answer at the address of another issuer is not redeemed.

    A process that dies between redeeming and storing loses the tokens: the person connects once more, and the issuer
    ends the tokens of that code on its own terms.
    """
    response = AuthorizationResponse.read(query)
    pending = await sync_to_async(PendingAuthorization.objects.take)(response.state, actor.principal)
    if pending is None:
        raise NotYours(
            "This address was not made for you, is older than ten minutes, or was used already. Connect again."
        )
    try:
        await _redeem(response, pending, actor, mark)
    except FAILURES as error:
        raise NotRedeemed(str(error), pending) from error
    if pending.principal == SHARED:
        await sync_to_async(_reconnect)(pending.place)
    return pending


async def _redeem(response: AuthorizationResponse, pending: PendingAuthorization, actor: Actor, mark: str) -> None:
    kept = json.loads(secrets.decrypt(pending.sealed, aad=PendingAuthorization.binding(response.state)).encode())
    issuer = storing.issuer_from(kept["issuer"])
    if kept["redirect_uri"] != redirect_uri(mark):
        raise AuthorizationInvalid(
            f"The answer came back at an address that is not the one for {issuer.issuer}: another issuer gave it. "
            "Nothing was sent anywhere. Connect again, and only where you trust the server."
        )
    code = response.code_from(issuer)
    place, registration = pending.place, pending.registration
    client = await sync_to_async(known_client)(place, registration)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": kept["redirect_uri"],
        "code_verifier": kept["verifier"],
    }
    if kept["resource"]:
        form["resource"] = kept["resource"]
    async with IssuerClient() as asking:
        answer = await asking.tokens(issuer, client, form, kept["scopes"])
        answer = replace(answer, name=await asking.name(issuer, client, answer))
    await sync_to_async(storing.connect)(place, pending.principal, registration, answer, actor)


async def disconnect(account: UpstreamAccount, actor: Actor) -> str:
    """End an account and revoke its tokens at the issuer; return the part that failed at the issuer, or nothing.

    The hub forgets the tokens first, whatever becomes of the issuer.
    """
    tokens = await sync_to_async(_tokens)(account)
    await sync_to_async(storing.end)(account.pk, None, "Disconnected.", actor)
    registration = account.registration
    if registration is None or not tokens:
        return ""
    issuer = storing.kept_issuer(registration)
    try:
        client = await sync_to_async(known_client)(account.place, registration)
        async with IssuerClient() as asking:
            taken_back = [await asking.revoke(issuer, client, token) for token in tokens]
    except FAILURES as error:
        return f"The issuer {issuer.issuer} could not be told: {error}"
    return "" if all(taken_back) else f"The issuer {issuer.issuer} takes no tokens back: end the access there, too."


async def _wanted(asking: IssuerClient, place: AccountAt, principal: str) -> tuple[Discovered, tuple[str, ...]]:
    """Discover the issuer, and choose the scopes: more than now if the server demands more."""
    stored = await sync_to_async(storing.load)(place.of, place.pk, principal)
    row = await sync_to_async(storing.account_at)(place, principal)
    if isinstance(place, McpConnection) and row is not None and (row.wanted_scopes or row.wanted_document):
        # What it demanded last.
        challenge = Challenge(row.wanted_document, tuple(row.wanted_scopes.split()), wants_proof=row.wants_proof)
        found = await asking.found(place.url, challenge, place.issuer)
    else:
        challenge, found = await who_lets_in(asking, place)
        if row is not None:
            found = replace(found, wants_proof=found.wants_proof or row.wants_proof)
            challenge = Challenge(scopes=authorization.union(challenge.scopes, row.wanted_scopes.split()))
    own = tuple(place.account_scopes.split())
    chosen = own or authorization.scopes_to_ask(challenge, found.resource, found.issuer)
    if stored is not None and stored.is_connected:
        chosen = authorization.union(stored.scopes, challenge.scopes, chosen)
    return found, chosen


def _reconnect(place: AccountAt) -> None:
    """Restart the connections whose lists the account reads."""
    slugs = [place.slug] if isinstance(place, McpConnection) else place.vouches_for.values_list("slug", flat=True)
    for slug in slugs:
        bus.publish(bus.UPSTREAM_RECONNECT, slug)


def _tokens(account: UpstreamAccount) -> list[str]:
    try:
        return [token for token in (account.opened("refresh"), account.opened("access")) if token]
    except SecretError:
        return []
