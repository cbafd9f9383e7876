"""Tokens without a person: renewed by a refresh token, or got by the hub's own credentials."""

from __future__ import annotations

from collections.abc import Sequence

from channels.db import database_sync_to_async

from sessions_app.protocol import authorization
from sessions_app.protocol.authorization import Challenge
from sessions_app.protocol.authorization_flow import AnswerRefused, TokenAnswer
from tools_catalog.accounts import storing
from tools_catalog.accounts.asking import IssuerClient
from tools_catalog.accounts.clients import known_client, registration_for, rendered_headers
from tools_catalog.models.accounts import SHARED, UpstreamAccount, UpstreamRegistration
from tools_catalog.models.upstream import McpConnection
from tools_catalog.upstream.spec import CLIENT_ACCOUNT, SSE


class GrantOver(Exception):
    """The issuer said that the grant is over; only a person can make another."""


async def renewed(row: UpstreamAccount) -> TokenAnswer:
    """Redeem the refresh token of an account whose row was claimed.

    Raises GrantOver for `invalid_grant` alone; NotReached, AuthorizationInvalid, SecretError for what may pass.
    """
    registration, connection = row.registration, row.connection
    if connection.account == CLIENT_ACCOUNT:
        wanted = authorization.union(row.scopes.split(), row.wanted_scopes.split())
        return (await _by_credentials(connection, wanted))[1]
    if registration is None or not row.refresh:
        raise GrantOver("There is nothing to renew the account's token by. Connect it again.")
    issuer = storing.kept_issuer(registration)
    client = await database_sync_to_async(known_client)(connection, registration)
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


async def obtained(connection_id: int) -> None:
    """Get and store the first token of the hub's own account. Raises NotReached, AuthorizationInvalid, SecretError."""
    connection = await database_sync_to_async(McpConnection.objects.get)(pk=connection_id)
    registration, answer = await _by_credentials(connection, ())
    await database_sync_to_async(storing.connect)(connection, SHARED, registration, answer, storing.HUB)


async def _by_credentials(connection: McpConnection, wanted: Sequence[str]) -> tuple[UpstreamRegistration, TokenAnswer]:
    async with IssuerClient() as asking:
        headers = await database_sync_to_async(rendered_headers)(connection)
        is_stream = connection.transport == SSE
        challenge = await asking.challenge(connection.url, headers, is_stream=is_stream)
        found = await asking.found(connection.url, challenge)
        registration = await registration_for(asking, connection, found, (), storing.HUB)
        client = await database_sync_to_async(known_client)(connection, registration)
        own = tuple(connection.account_scopes.split())
        chosen = own or authorization.scopes_to_ask(Challenge(scopes=challenge.scopes), found.resource, found.issuer)
        scopes = authorization.union([each for each in chosen if each != authorization.OFFLINE], wanted)
        form = {"grant_type": "client_credentials"}
        if scopes:
            form["scope"] = " ".join(scopes)
        if registration.resource:
            form["resource"] = registration.resource
        return registration, await asking.tokens(found.issuer, client, form, scopes)
