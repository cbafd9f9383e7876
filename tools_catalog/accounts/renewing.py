"""Tokens without a person: renewed by a refresh token, or got by the hub's own credentials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from channels.db import database_sync_to_async
from django.contrib.auth import get_user_model

from sessions_app.kit.people_tables import person_key
from sessions_app.protocol import authorization
from sessions_app.protocol.authorization import AuthorizationInvalid, Challenge, IssuerMetadata
from sessions_app.protocol.authorization_flow import ID_JAG, AnswerRefused, TokenAnswer
from tools_catalog.accounts import storing
from tools_catalog.accounts.asking import Client, IssuerClient
from tools_catalog.accounts.assertions import statement_about
from tools_catalog.accounts.clients import known_client, registration_for, who_lets_in
from tools_catalog.accounts.storing import AccountAt
from tools_catalog.accounts.workload import workload_token
from tools_catalog.models.accounts import SHARED, UpstreamAccount, UpstreamRegistration
from tools_catalog.models.services import HttpService
from tools_catalog.models.upstream import McpConnection
from tools_catalog.upstream.account import BEHALF_ACCOUNT, EXCHANGE_ACCOUNT, JAG_ACCOUNT, UNATTENDED, WORKLOAD_ACCOUNT

_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
_GRANTS: Final[dict[str, Callable[[str], dict[str, str]]]] = {
    BEHALF_ACCOUNT: lambda statement: {"grant_type": _JWT_BEARER, "assertion": statement},
    EXCHANGE_ACCOUNT: lambda statement: {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": statement,
        "subject_token_type": _JWT,
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
    },
}
"""How the hub's word about a person becomes a token: RFC 7523, 2.1, and RFC 8693, 2.1."""


class GrantOver(Exception):
    """The issuer reported the grant as expired; only a person can create another."""


async def renewed(row: UpstreamAccount, id_token: str = "") -> TokenAnswer:
    """Redeem the refresh token of an account with a claimed row. `id_token` identifies the person (ID-JAG).

    Raises GrantOver for `invalid_grant` alone; NotReached, AuthorizationInvalid, SecretError for temporary problems.
    """
    registration, place = row.registration, row.place
    if place.account in UNATTENDED:
        wanted = authorization.union(row.scopes.split(), row.wanted_scopes.split())
        return (await _by_credentials(place, row.principal, wanted, id_token))[1]
    if registration is None or not row.refresh:
        raise GrantOver("There is nothing to renew the account's token by. Connect it again.")
    issuer = storing.kept_issuer(registration)
    client = await database_sync_to_async(known_client)(place, registration)
    form = {"grant_type": "refresh_token", "refresh_token": row.opened("refresh")}
    if registration.resource:
        form["resource"] = registration.resource
    async with IssuerClient() as asking:
        try:
            return await asking.tokens(issuer, client, form, row.scopes.split())
        except AnswerRefused as error:
            if error.error == "invalid_grant":
                raise GrantOver(f"The issuer ended the account ({error}). Connect it again.") from error
            raise


async def obtained(of: str, place_id: int, principal: str, id_token: str = "") -> None:
    """Get and store the first token of an account that needs no person at a browser.

    Raises NotReached, AuthorizationInvalid, SecretError.
    """
    place = await database_sync_to_async(_place)(of, place_id)
    registration, answer = await _by_credentials(place, principal, (), id_token)
    await database_sync_to_async(storing.connect)(place, principal, registration, answer, storing.HUB)


async def _vouched(
    place: McpConnection,
    principal: str,
    id_token: str,
    audience: str,
    registration: UpstreamRegistration,
    scopes: Sequence[str],
) -> str:
    """Let the company's issuer vouch for a person to the issuer `audience` (ID-JAG: RFC 8693, 2.1)."""
    known = await database_sync_to_async(_known_at_company)(place, principal)
    if known is None or not id_token:
        raise AuthorizationInvalid("The company's issuer is not known any more. Tell the hub's operator.")
    company, client = known
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": ID_JAG,
        "subject_token": id_token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "audience": audience,
        "resource": registration.resource or authorization.canonical(place.url),
    }
    if scopes:
        form["scope"] = " ".join(scopes)
    async with IssuerClient() as asking:
        return await asking.grant(company, client, form)


def _known_at_company(place: McpConnection, principal: str) -> tuple[IssuerMetadata, Client] | None:
    row = storing.account_at(place.identity, principal) if place.identity is not None else None
    if row is None or row.registration is None:
        return None
    return storing.kept_issuer(row.registration), known_client(row.place, row.registration)


def _called(principal: str) -> str:
    """Return the name of a person of the hub. Raises AuthorizationInvalid where there is none any more."""
    found = get_user_model().objects.filter(pk=person_key(principal), is_active=True).first()
    if found is None:
        raise AuthorizationInvalid("The person of this call is disabled.")
    return found.get_username()


def _place(of: str, place_id: int) -> AccountAt:
    if of == HttpService.of:
        return HttpService.objects.get(pk=place_id)
    return McpConnection.objects.select_related("identity").get(pk=place_id)


async def _by_credentials(
    place: AccountAt, principal: str, wanted: Sequence[str], id_token: str
) -> tuple[UpstreamRegistration, TokenAnswer]:
    async with IssuerClient() as asking:
        challenge, found = await who_lets_in(asking, place)
        row = await database_sync_to_async(storing.account_at)(place, principal)
        if row is not None and row.wants_proof:
            found = replace(found, wants_proof=True)
        registration = await registration_for(asking, place, found, (), storing.HUB)
        client = await database_sync_to_async(known_client)(place, registration)
        own = tuple(place.account_scopes.split())
        chosen = own or authorization.scopes_to_ask(Challenge(scopes=challenge.scopes), found.resource, found.issuer)
        scopes = authorization.union([each for each in chosen if each != authorization.OFFLINE], wanted)
        form = {"grant_type": "client_credentials"}
        if place.account == WORKLOAD_ACCOUNT:
            token = await database_sync_to_async(workload_token)(place.slug)
            form = {"grant_type": _JWT_BEARER, "assertion": token}
        if isinstance(place, McpConnection) and place.account == JAG_ACCOUNT:
            form = {
                "grant_type": _JWT_BEARER,
                "assertion": await _vouched(place, principal, id_token, found.issuer.issuer, registration, scopes),
            }
        elif principal != SHARED:
            person = await database_sync_to_async(_called)(principal)
            statement = statement_about(client.proof, client.client_id, person, found.issuer, scopes)
            form = _GRANTS[place.account](statement)
        if scopes:
            form["scope"] = " ".join(scopes)
        if registration.resource:
            form["resource"] = registration.resource
        return registration, await asking.tokens(found.issuer, client, form, scopes)
