"""Tokens without a person: renewed by a refresh token, or got by the hub's own credentials."""

from __future__ import annotations

from collections.abc import Sequence

from channels.db import database_sync_to_async

from sessions_app.protocol import authorization
from sessions_app.protocol.authorization import Challenge
from sessions_app.protocol.authorization_flow import AnswerRefused, TokenAnswer
from tools_catalog.accounts import storing
from tools_catalog.accounts.asking import IssuerClient
from tools_catalog.accounts.clients import known_client, registration_for, who_lets_in
from tools_catalog.accounts.storing import AccountAt
from tools_catalog.models.accounts import SHARED, UpstreamAccount, UpstreamRegistration
from tools_catalog.models.services import HttpService
from tools_catalog.models.upstream import McpConnection
from tools_catalog.upstream.account import CLIENT_ACCOUNT


class GrantOver(Exception):
    """The issuer said that the grant is over; only a person can make another."""


async def renewed(row: UpstreamAccount) -> TokenAnswer:
    """Redeem the refresh token of an account whose row was claimed.

    Raises GrantOver for `invalid_grant` alone; NotReached, AuthorizationInvalid, SecretError for what may pass.
    """
    registration, place = row.registration, row.place
    if place.account == CLIENT_ACCOUNT:
        wanted = authorization.union(row.scopes.split(), row.wanted_scopes.split())
        return (await _by_credentials(place, wanted))[1]
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


async def obtained(of: str, place_id: int) -> None:
    """Get and store the first token of the hub's own account. Raises NotReached, AuthorizationInvalid, SecretError."""
    place = await database_sync_to_async(_place)(of, place_id)
    registration, answer = await _by_credentials(place, ())
    await database_sync_to_async(storing.connect)(place, SHARED, registration, answer, storing.HUB)


def _place(of: str, place_id: int) -> AccountAt:
    if of == HttpService.of:
        return HttpService.objects.get(pk=place_id)
    return McpConnection.objects.get(pk=place_id)


async def _by_credentials(place: AccountAt, wanted: Sequence[str]) -> tuple[UpstreamRegistration, TokenAnswer]:
    async with IssuerClient() as asking:
        challenge, found = await who_lets_in(asking, place)
        registration = await registration_for(asking, place, found, (), storing.HUB)
        client = await database_sync_to_async(known_client)(place, registration)
        own = tuple(place.account_scopes.split())
        chosen = own or authorization.scopes_to_ask(Challenge(scopes=challenge.scopes), found.resource, found.issuer)
        scopes = authorization.union([each for each in chosen if each != authorization.OFFLINE], wanted)
        form = {"grant_type": "client_credentials"}
        if scopes:
            form["scope"] = " ".join(scopes)
        if registration.resource:
            form["resource"] = registration.resource
        return registration, await asking.tokens(found.issuer, client, form, scopes)
