"""The accounts of one process: tokens kept in memory while the change bus announces no newer ones.

One resolver serves tools, resources, prompts, completion, tasks and lists, in all workers. A token is renewed by one
process at a time, which claims the row, reads it again, redeems the refresh token and stores the answer; the others
wait for that. No transaction is open while the issuer is asked.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

from channels.db import database_sync_to_async
from django.conf import settings
from django.utils import timezone

from sessions_app.advice import Advice
from sessions_app.protocol.authorization import AuthorizationInvalid, Challenge
from sessions_app.protocol.authorization_flow import WANTS_NONCE, ends_at
from tools_catalog.accounts import storing
from tools_catalog.accounts.asking import NotReached
from tools_catalog.accounts.proofs import proof
from tools_catalog.accounts.renewing import GrantOver, obtained, renewed
from tools_catalog.accounts.storing import Stored
from tools_catalog.bindings import SERVICE, origin_of
from tools_catalog.models.accounts import CLAIM_SECONDS, SHARED
from tools_catalog.secrets import SecretError
from tools_catalog.upstream.account import JAG_ACCOUNT, UNATTENDED, AccountNeeded, AccountPlace, AccountRefused
from tools_catalog.upstream.transports.base import SessionLost

_CONNECT: Final = Advice(
    page="Its operator connects it on the {of}'s page.",
    command="Connect it in a browser at {url}/admin/ ({of} {slug}); `mcphub account list` shows how it stands.",
    neutral="Its operator has to connect it.",
)
_AGAIN_SECONDS: Final = 0.1
_ELSEWHERE: Final = (
    "The address leads to another server, or accounts are used in another way, than when it was connected."
)
_PERSON: Final = "user:"
_EACH: Final = -1
"""In place of the number of a row: any may have changed."""
_MOST: Final = 2000
"""Accounts that a process keeps in memory."""
_MOST_KEYS: Final = 4
_EARLY_SECONDS: Final = 10
_MOST_NONCE: Final = 1000

_Result = TypeVar("_Result")
Key = tuple[str, int, str]


class Accounts:
    """Of one process. `forget` is called whenever any account changed."""

    def __init__(self) -> None:
        self._known: OrderedDict[Key, Stored | None] = OrderedDict()
        self._reading: dict[Key, _AccountLook] = {}
        """One look for all calls that need the same account at once."""
        self._locks: dict[Key, asyncio.Lock] = {}
        self.nonces: OrderedDict[str, str] = OrderedDict()
        """Origin -> its server's nonce for the next proof."""

    def __call__(self, place: AccountPlace, principal: str) -> HeldAccount:
        return HeldAccount(self, place, principal)

    def forget(self, number: str = "") -> None:
        """Read an account again before its next use: the row of that number; each where there is none."""
        for reading in self._reading.values():
            reading.changed.add(int(number) if number else _EACH)
        if not number:
            self._known.clear()
            return
        # Where none was found before, this may be it.
        for key in [key for key, found in self._known.items() if found is None or found.pk == int(number)]:
            del self._known[key]

    def drop(self, key: Key) -> None:
        """Read this account again before its next use."""
        self._known.pop(key, None)
        if (reading := self._reading.get(key)) is not None:
            reading.changed.add(_EACH)

    def lock(self, key: Key) -> asyncio.Lock:
        """Return the lock of an account: one task of the process renews it."""
        return self._locks.setdefault(key, asyncio.Lock())

    async def stored(self, key: Key, *, again: bool = False) -> Stored | None:
        """Return an account as it is now, `again` from the database. Raises AccountRefused where it cannot be read."""
        if key in self._known and not again:
            self._known.move_to_end(key)
            return self._known[key]
        before = self._reading.get(key)
        if before is not None and not (before.has_begun and (again or before.changed)):
            return await asyncio.shield(before.task)
        reading = self._reading[key] = _AccountLook()
        # All that wait for it may leave, and whose context it would have has threads that end with a request.
        reading.task = asyncio.create_task(self._read(key, reading, before), context=contextvars.Context())
        reading.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(reading.task)

    async def _read(self, key: Key, reading: _AccountLook, before: _AccountLook | None) -> Stored | None:
        if before is not None:
            await asyncio.wait({before.task})
        reading.has_begun = True
        reading.changed.clear()
        try:
            found = await database_sync_to_async(storing.load)(*key)
        except SecretError as error:
            raise AccountRefused(f"The account's tokens cannot be read: {error}") from error
        else:
            if not reading.concerns(found):  # else it may be older than the news
                self._known[key] = found
                while len(self._known) > _MOST:
                    self._locks.pop(self._known.popitem(last=False)[0], None)
            return found
        finally:
            if self._reading.get(key) is reading:
                del self._reading[key]


class _AccountLook:
    """A look at one account, under way."""

    task: asyncio.Task[Stored | None]

    def __init__(self) -> None:
        self.has_begun = False
        self.changed: set[int] = set()
        """Rows that changed since it began."""

    def concerns(self, found: Stored | None) -> bool:
        """Return whether what was found may have changed since."""
        return _EACH in self.changed or (bool(self.changed) if found is None else found.pk in self.changed)


class HeldAccount:
    """The account of one session with an upstream: `upstream.account.Account`."""

    def __init__(self, accounts: Accounts, place: AccountPlace, principal: str) -> None:
        self._accounts = accounts
        self._place = place
        self._principal = principal
        self._key = (place.of, place.id, principal)
        self._since: datetime | None = None
        """The connection time of the account whose token was returned first."""
        self._keys: OrderedDict[str, str] = OrderedDict()
        """The newest tokens that are bound to keys, with these."""

    async def token(self) -> str:
        """Return the token to send, renewed where it is about to end."""
        if self._place.is_personal and self._principal != SHARED and not self._principal.startswith(_PERSON):
            raise self._needed(None)
        stored = await self._accounts.stored(self._key)
        if not self._is_good(stored):
            # It may have been connected just now, by a page that another process served.
            stored = await self._accounts.stored(self._key, again=True)
        if stored is None:
            if self._is_unattended:
                return await self._first()
            if self._place.of == SERVICE:  # many APIs answer strangers too, with less
                raise self._needed(None)
            return ""
        if not self._is_good(stored):
            if self._is_unattended:
                return await self._first()
            raise self._needed(stored, _ELSEWHERE if stored.is_connected else "")
        if self._since is None:
            self._since = stored.connected_at
        elif self._since != stored.connected_at:
            raise SessionLost("The account was connected anew.")
        if stored.renews_at is None or stored.renews_at > timezone.now():
            return self._given(stored)
        return await self._renewed_early(stored)

    def headers(self, token: str, method: str, url: str) -> dict[str, str]:
        key = self._keys.get(token)
        if key is None:
            return {"Authorization": f"Bearer {token}"}
        nonce = self._accounts.nonces.get(origin_of(url), "")
        return {"Authorization": f"DPoP {token}", "DPoP": proof(key, method, url, token=token, nonce=nonce)}

    def heard(self, url: str, nonce: str) -> None:
        known = self._accounts.nonces
        known[origin_of(url)] = nonce[:_MOST_NONCE]
        known.move_to_end(origin_of(url))
        if len(known) > _MOST:
            known.popitem(last=False)

    async def is_connected(self) -> bool:
        if self._is_unattended:
            return self._principal.startswith(_PERSON)
        stored = await self._accounts.stored(self._key)
        return self._is_good(stored) or self._is_good(await self._accounts.stored(self._key, again=True))

    async def refused(self, sent: str, status: int, challenge: str) -> None:
        """Come back where another try may be let in: the token was renewed, here or by another process."""
        demanded = Challenge.read(challenge)
        if demanded.error == WANTS_NONCE and sent in self._keys:
            return
        stored = await self._accounts.stored(self._key, again=True)
        if stored is not None and stored.is_connected and stored.access != sent:
            return
        if status == 403:
            await self._step_up(stored, demanded)
        elif stored is None or not stored.is_connected:
            await self._want(demanded)
        elif demanded.wants_proof and not demanded.takes_bearers and not stored.is_bound:
            await self._end(stored, demanded, "The upstream takes tokens only that are bound to a key (DPoP) now.")
        else:
            await self._renew_or_end(stored, demanded)

    async def _step_up(self, stored: Stored | None, demanded: Challenge) -> None:
        # Some name the scopes that they want, and leave the error out.
        is_step_up = demanded.error == "insufficient_scope" or (not demanded.error and demanded.scopes)
        if not is_step_up or stored is None or not stored.is_connected:
            raise AccountRefused("The upstream refuses this to the account (status 403).")
        if not await self._database(lambda: storing.step_up(stored.pk, demanded)):
            raise AccountRefused(
                "The upstream refuses this to the account although it has the scopes, or cannot get them. "
                f"It asks for: {' '.join(demanded.scopes)[:300] or 'nothing that it names'}."
            )
        if self._is_unattended:
            await self._renew(stored)
            return
        raise self._needed(stored, f"The account needs more rights there: {' '.join(demanded.scopes)[:300]}.")

    async def _want(self, demanded: Challenge) -> None:
        if self._is_unattended:
            raise AccountRefused("The upstream refuses the hub's own account. Tell the hub's operator.")
        await self._database(lambda: storing.note_challenge(*self._key, demanded))
        raise self._needed(None)

    async def _renew_or_end(self, stored: Stored, demanded: Challenge) -> None:
        """Renew a token that the upstream refused; where nothing can, the account is over."""
        if stored.has_refresh or self._is_unattended:
            await self._renew(stored)
            return
        words = "The upstream does not take the account's token any more, and the issuer gave none to renew it by."
        await self._end(stored, demanded, words)

    async def _end(self, stored: Stored, demanded: Challenge, words: str) -> None:
        """End an account that opens nothing any more; one that needs nobody comes back by the next try."""
        await self._database(lambda: storing.end(stored.pk, stored.generation, words))
        await self._database(lambda: storing.note_challenge(*self._key, demanded))
        self._accounts.drop(self._key)
        if not self._is_unattended:
            raise self._needed(None, words)

    # Renewal ------------------------------------------------------------------------------------------

    async def _renewed_early(self, stored: Stored) -> str:
        is_over = stored.expires_at is not None and stored.expires_at <= timezone.now()
        if not stored.has_refresh and not self._is_unattended:
            return self._given(stored)  # the upstream says whether it still takes it
        try:
            return await self._renew(stored)
        except AccountRefused:
            if is_over:
                raise
            return self._given(stored)

    async def _renew(self, stored: Stored) -> str:
        """Return a token newer than these, made here or by another process. Raises AccountNeeded, AccountRefused."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CLAIM_SECONDS
        async with self._accounts.lock(self._key):
            while True:
                now = await self._database(lambda: storing.load(*self._key))
                if now is None or not now.is_connected:
                    raise self._needed(now)
                if now.generation != stored.generation:
                    return self._given(now)
                if await self._redeemed(stored):
                    continue
                if loop.time() > until:
                    raise AccountRefused(
                        "Another process of the hub renews the account's token, and is not done. Retry."
                    )
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _redeemed(self, stored: Stored) -> bool:
        """Redeem the refresh token, unless another process does; return whether this one did."""
        row = await self._database(lambda: storing.claim(stored.pk, stored.generation))
        if row is None:
            return False
        try:
            answer = await renewed(row, await self._id_token())
        except GrantOver as error:
            over = str(error)
            await self._database(lambda: storing.end(row.pk, row.generation, over))
        except (NotReached, AuthorizationInvalid, SecretError) as error:
            words = str(error)
            await self._database(lambda: storing.release(row.pk, row.generation, words))
            raise AccountRefused(f"The account's token cannot be renewed now: {words} Try again.") from error
        except BaseException:
            # Shielded: a call that is cancelled must not keep the others from renewing.
            await asyncio.shield(self._database(lambda: storing.release(row.pk, row.generation, row.failure)))
            raise
        else:
            await asyncio.shield(self._database(lambda: storing.renew(row, answer)))
        self._accounts.drop(self._key)
        return True

    async def _first(self) -> str:
        """Get the first token of the hub's own account. Raises AccountRefused."""
        async with self._accounts.lock(self._key):
            stored = await self._accounts.stored(self._key, again=True)
            if not self._is_good(stored):
                try:
                    await obtained(*self._key, await self._id_token())
                except (NotReached, AuthorizationInvalid, SecretError) as error:
                    raise AccountRefused(f"The hub gets no token for {self._place.slug}: {error}") from error
                stored = await self._accounts.stored(self._key, again=True)
            return self._given(stored) if stored is not None else ""

    async def _id_token(self) -> str:
        """Return the ID token that identifies the person to the issuer, if another issuer provides it."""
        if self._place.account != JAG_ACCOUNT:
            return ""
        if self._place.identity is None:
            raise AccountRefused(f"{self._place.slug} names no company's issuer. Tell the hub's operator.")
        return await HeldAccount(self._accounts, self._place.identity, self._principal).id_token()

    async def id_token(self) -> str:
        """Return the ID token of this account, renewed where it has ended. Raises AccountNeeded, AccountRefused."""
        stored = await self._accounts.stored(self._key, again=True)
        if stored is None or not self._is_good(stored):
            raise self._needed(stored)
        if _has_ended(stored.id_token) and stored.has_refresh:
            await self._renew(stored)
            stored = await self._accounts.stored(self._key, again=True)
        if stored is None or _has_ended(stored.id_token):
            raise self._needed(None, "Its issuer does not say any more who you are: connect it again.")
        return stored.id_token

    def _given(self, stored: Stored) -> str:
        if stored.proof_key:
            self._keys[stored.access] = stored.proof_key
            while len(self._keys) > _MOST_KEYS:
                self._keys.popitem(last=False)
        return stored.access

    # Words --------------------------------------------------------------------------------------------

    def _is_good(self, stored: Stored | None) -> bool:
        if stored is None or not stored.is_connected or (stored.is_bound and not stored.proof_key):
            return False
        return stored.is_for(self._place.url, self._place.account)

    @property
    def _is_unattended(self) -> bool:
        return self._place.account in UNATTENDED

    def _needed(self, stored: Stored | None, why: str = "") -> AccountNeeded:
        slug = self._place.slug
        why = why or (stored.failure if stored is not None and stored.failure else "")
        if not self._place.is_personal:
            how = _CONNECT.words(of=self._place.of, slug=slug, url=settings.MCPHUB_PUBLIC_URL.rstrip("/"))
            what = f"The hub's account at {slug} is not connected. {how}"
        elif self._principal == SHARED:
            what = f"Nobody's account is chosen to read the lists of {slug}. Its operator connects one for them."
        elif not self._principal.startswith(_PERSON):
            what = (
                f"{slug} takes each person's own account; this call is no person's. Sign in, or use a key of your own."
            )
        else:
            what = f"Your account at {slug} is not connected."
            return AccountNeeded(f"{what} {why}".strip(), slug, self._principal, self._place.of)
        return AccountNeeded(f"{what} {why}".strip(), slug, of=self._place.of)

    async def _database(self, function: Callable[[], _Result]) -> _Result:
        return await database_sync_to_async(function)()


def _has_ended(id_token: str) -> bool:
    return ends_at(id_token) <= time.time() + _EARLY_SECONDS
