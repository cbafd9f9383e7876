"""Access tokens of people who signed in: their form, and the resulting caller.

The one place that judges the hub's tokens: existence, endpoint, expiry, rights. Those of other issuers are judged by
whoever is given as `elsewhere`, and kept here, too. Rows are read when a token is first seen and kept until it ends
or the change bus announces a change, so a hub with many tokens starts as quickly as one with none, and a call by
token asks the database nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, replace
from typing import Protocol

from channels.db import database_sync_to_async
from django.conf import settings

from sessions_app import endpoints
from sessions_app.caller import Caller
from sessions_app.history import bounded
from sessions_app.history.events import Actor
from sessions_app.protocol.errors import ServerBusy, Unauthenticated

ACCESS, REFRESH = "mcpa", "mcpr"
"""Prefixes of access and refresh tokens."""
_TAG_CHARACTERS = 16
_MOST_KEPT = 20_000
_AT_ONCE = 4
"""Tokens that a process looks up at one moment; the other requests keep their connections to the database."""
_AT_ONCE_ELSEWHERE = 8
_MOST_WAITING = 200


def new_text(kind: str) -> str:
    """Make the text of a token. Its end proves that this hub made it, so that guesses cost no look at the database."""
    body = f"{kind}_{secrets.token_urlsafe(32)}"
    return f"{body}.{_tag(body)}"


def is_own(text: str) -> bool:
    """Return whether the hub made this access token, at whatever time."""
    body, _, tag = text.rpartition(".")
    return body.startswith(f"{ACCESS}_") and text.isascii() and hmac.compare_digest(tag, _tag(body))


def _tag(body: str) -> str:
    key = b"mcphub tokens " + settings.SECRET_KEY.encode()
    return hmac.digest(key, body.encode(), hashlib.sha256).hex()[:_TAG_CHARACTERS]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGrant:
    """The content of one token: its person, its endpoint, and its expiry."""

    caller: Caller
    endpoints: frozenset[str]
    expires_at: float
    """Seconds since the epoch."""
    look_again_at: float = float("inf")
    """Until then it is taken without another look."""

    def caller_at(self, endpoint: str) -> Caller:
        """Return the caller; raise Unauthenticated where the token is over, or for another endpoint."""
        if self.expires_at <= time.time():
            raise Unauthenticated("The access token has expired. Get another with the refresh token, or sign in again.")
        if endpoint not in self.endpoints:
            bounded.note(
                "token.refused",
                actor=Actor(self.caller.principal, self.caller.label),
                reason="it is for another endpoint",
                endpoint=endpoint,
                of=sorted(self.endpoints),
            )
            raise Unauthenticated("The access token is for another endpoint. Sign in for this one.")
        return self.caller


class Elsewhere(Protocol):
    """Judges tokens that the hub did not make."""

    async def find(self, text: str) -> AccessGrant:
        """Return the content of a token; raise Unauthenticated, ServerBusy."""

    def forget(self) -> None:
        """Read the trusted issuers again."""


class AccessTokens:
    """The tokens that one process has seen, by the digest of their text."""

    def __init__(self, elsewhere: Elsewhere | None = None) -> None:
        self._elsewhere = elsewhere
        self._grants: dict[bytes, AccessGrant] = {}
        self._reading: dict[bytes, asyncio.Task[AccessGrant]] = {}
        """One look for all requests that show the same token at once."""
        self._rooms = {True: asyncio.Semaphore(_AT_ONCE), False: asyncio.Semaphore(_AT_ONCE_ELSEWHERE)}
        """For the hub's own tokens, and for those of other issuers, which may be slow."""
        self._waiting = {True: 0, False: 0}

    def known(self, digest: bytes) -> AccessGrant | None:
        found = self._grants.get(digest)
        return found if found is None or found.look_again_at > time.time() else None

    async def find(self, digest: bytes, text: str) -> AccessGrant:
        """Return the content of a token; raise Unauthenticated if it is unknown or revoked, ServerBusy at a bound."""
        found = self.known(digest)
        if found is not None:
            return found
        reading = self._reading.get(digest)
        if reading is None:
            is_ours = is_own(text)
            if not settings.MCPHUB_SIGN_IN or not (is_ours or self._elsewhere is not None):
                raise Unauthenticated("The key is unknown or was revoked. Ask the operator for a new one.")
            if self._waiting[is_ours] >= _MOST_WAITING:
                raise ServerBusy
            reading = self._reading[digest] = asyncio.create_task(self._read(digest, text, is_ours))
        return await asyncio.shield(reading)

    async def _read(self, digest: bytes, text: str, is_ours: bool) -> AccessGrant:
        this = asyncio.current_task()
        self._waiting[is_ours] += 1
        try:
            async with self._rooms[is_ours]:
                if is_ours or self._elsewhere is None:
                    found = await database_sync_to_async(read)(digest)
                else:
                    found = self.known(digest) or await self._elsewhere.find(text)
            if found is None:
                raise Unauthenticated("The access token was revoked, or has expired. Sign in again.")
        except Unauthenticated:
            self._end(digest)
            raise
        else:
            if self._reading.get(digest) is this:  # else it was forgotten meanwhile: what was read may be stale
                if len(self._grants) >= _MOST_KEPT:
                    self._grants.clear()
                self._grants[digest] = found
            return found
        finally:
            self._waiting[is_ours] -= 1
            if self._reading.get(digest) is this:
                del self._reading[digest]

    def forget(self, digest: str) -> None:
        """Read a token again when it is next seen; all of them where `digest`, in hexadecimal, is empty."""
        if digest:
            self._grants.pop(bytes.fromhex(digest), None)
            self._reading.pop(bytes.fromhex(digest), None)
            return
        self._grants.clear()
        self._reading.clear()
        if self._elsewhere is not None:
            self._elsewhere.forget()

    def _end(self, digest: bytes) -> None:
        """End a token that was valid until now: its open sessions end with the next sweep."""
        before = self._grants.get(digest)
        if before is not None:
            self._grants[digest] = replace(before, expires_at=0.0, look_again_at=0.0)

    def drop_expired(self, now: float) -> set[str]:
        """Forget expired tokens; return the principals without any remaining one."""
        over = {digest for digest, grant in self._grants.items() if grant.expires_at <= now}
        gone = {self._grants.pop(digest).caller.principal for digest in over}
        return gone - {grant.caller.principal for grant in self._grants.values()}


def read(digest: bytes) -> AccessGrant | None:
    """Read a token from the database; None where there is none, or its person may not come in any more."""
    from oauth2_provider.models import AccessToken

    row = AccessToken.objects.filter(token_checksum=digest.hex()).select_related("user", "application").first()
    if row is None or row.user is None or not row.user.is_active or row.application is None:
        return None
    if len(row.resource) != 1 or not (endpoint := endpoints.named(row.resource[0])):
        return None
    scopes = {allowed for scope in row.scope.split() for allowed in endpoints.SCOPES.get(scope, ())}
    client = f"{row.application.name[:100] or 'a client'} (client {row.application.pk})"
    caller = Caller(
        principal=f"user:{row.user.pk}",
        label=f"{row.user.get_username()} via {client}",
        scopes=frozenset(scopes),
        groups=frozenset(row.user.groups.values_list("pk", flat=True)),
        allowed_client=client,
    )
    return AccessGrant(caller=caller, endpoints=frozenset({endpoint}), expires_at=row.expires.timestamp())
