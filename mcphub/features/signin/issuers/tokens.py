"""Access tokens of trusted issuers, as one process judges them: by kept keys, or by the issuer's answer."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping

from channels.db import database_sync_to_async

from mcphub.features.signin.issuers import keys, persons, trust
from mcphub.features.signin.issuers.documents import IssuerSilent, question
from mcphub.features.signin.issuers.keys import KeyStore
from mcphub.features.signin.issuers.trust import Judgement, TokenRefused, Trust
from sessions_app.caller import Caller
from sessions_app.history import bounded
from sessions_app.kit.shown import clipped
from sessions_app.protocol import json
from sessions_app.protocol.authorization import is_same_but_slash
from sessions_app.protocol.errors import ServerBusy, Unauthenticated
from sessions_app.protocol.json import Json
from sessions_app.tokens import AccessGrant
from tools_catalog.secrets import SecretError

logger = logging.getLogger(__name__)

SIGNED_SECONDS = 300.0
"""So long a signed token is taken without another look at its keys and its person."""
ASKED_SECONDS = 60.0
"""So long an issuer's answer about a token holds."""
LONGEST_CLAIMS = 16_000
"""Characters of a token's claims, as JSON, that rules about calls may read."""
REFUSED_SECONDS = 30.0
"""So long the hub does not ask again about a token that the issuer did not know."""
_MOST_REFUSED = 5000
QUESTIONS_A_SECOND = 20
_OWN = ("mcph_", "mcpa_", "mcpr_", "YOUR-KEY")
"""Prefixes of the hub's own keys and tokens; an unknown one is not shown to issuers."""


class ForeignTokens:
    """One process's knowledge of trusted issuers. Used on one event loop."""

    def __init__(self) -> None:
        self.keys = KeyStore()
        self._trusted: dict[str, Trust] | None = None
        self._version = 0
        self._refused: dict[bytes, float] = {}
        """Digest of a token that its issuer did not know -> until when (monotonic seconds)."""
        self._questions = (0, 0)
        """The second, and how often an issuer was asked in it."""

    def forget(self) -> None:
        """Read the rows again at the next token."""
        self._version += 1
        self._trusted = None
        self._refused.clear()

    async def find(self, text: str) -> AccessGrant:
        """Return the verdict on a token of another issuer; raise Unauthenticated, ServerBusy."""
        if text.startswith(_OWN):
            raise Unauthenticated("The key is unknown or was revoked. Ask the operator for a new one.")
        trusted = await self.trusted()
        if not trusted:
            raise Unauthenticated("The key is unknown or was revoked. Ask the operator for a new one.")
        try:
            if trust.is_signed(text):
                return await self._signed(trusted, text)
            asked = next((each for each in trusted.values() if each.is_asked), None)
            if asked is None:
                raise TokenRefused("It is no key of this hub, and no token of an issuer that this hub trusts.")
            return await self._asked(asked, text)
        except TokenRefused as refusal:
            if not isinstance(refusal, trust.TokenExpired):
                bounded.note("token.refused", reason=str(refusal))
            raise Unauthenticated(f"The credential is not accepted. {refusal}") from refusal
        except IssuerSilent as error:
            logger.warning("A token cannot be judged, because its issuer does not answer: %s", error)
            raise ServerBusy("The issuer of the access token does not answer. Try again in a moment.") from error

    async def trusted(self) -> Mapping[str, Trust]:
        """Return the enabled issuers by their names."""
        found = self._trusted
        if found is None:
            version = self._version
            found = await database_sync_to_async(enabled)()
            if version == self._version:
                self._trusted = found
        return found

    async def _signed(self, trusted: Mapping[str, Trust], text: str) -> AccessGrant:
        token = trust.opened(text)
        rule = trusted.get(token.issuer)
        if rule is None:
            raise TokenRefused(_untrusted(trusted, token.issuer))
        if rule.is_asked:
            return await self._asked(rule, text)
        for check in trust.judge_header(rule, token):
            if not check.is_good:
                raise TokenRefused(check.words)
        key = await self.keys.find(rule, token.key_id, token.algorithm)
        keys.verify(text, key, token.algorithm)
        judged = trust.judge_claims(rule, token.claims, time.time())
        judged.demand()
        return await _granted(rule, judged, token.claims, SIGNED_SECONDS)

    async def _asked(self, rule: Trust, text: str) -> AccessGrant:
        if len(text) > trust.MOST_CHARACTERS:
            raise TokenRefused(f"The access token has more than {trust.MOST_CHARACTERS} characters.")
        digest, now = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), time.monotonic()
        if self._refused.get(digest, 0.0) > now:
            raise TokenRefused("The issuer does not know the access token, or it is over.")
        second, count = int(now), self._questions[1] + 1 if self._questions[0] == int(now) else 1
        if count > QUESTIONS_A_SECOND:
            raise ServerBusy("Too many unknown access tokens come at once. Try again in a moment.")
        self._questions = (second, count)
        answer = await question(rule, text)
        if answer.get("active") is not True:
            if len(self._refused) >= _MOST_REFUSED:
                self._refused.clear()
            self._refused[digest] = now + REFUSED_SECONDS
            raise TokenRefused("The issuer does not know the access token, or it is over.")
        claims = {"exp": time.time() + ASKED_SECONDS, **answer}
        judged = trust.judge_claims(rule, claims, time.time())
        judged.demand()
        return await _granted(rule, judged, claims, ASKED_SECONDS)


def enabled() -> dict[str, Trust]:
    """Read the enabled issuers, except those with an unreadable secret."""
    from mcphub.features.signin.issuers.models import Issuer

    found = {}
    for row in Issuer.objects.filter(enabled=True):
        try:
            found[row.issuer] = row.trust()
        except SecretError as error:
            logger.error("The trusted issuer %s is left out: %s", row.name, error)
    return found


async def _granted(rule: Trust, judged: Judgement, claims: Mapping[str, Json], seconds: float) -> AccessGrant:
    caller = await database_sync_to_async(_caller)(rule, judged, claims)
    return AccessGrant(
        caller=caller, endpoints=judged.endpoints, expires_at=judged.expires_at, look_again_at=time.time() + seconds
    )


def _untrusted(trusted: Mapping[str, Trust], issuer: str) -> str:
    words = "The access token is of an issuer that this hub does not trust."
    if any(is_same_but_slash(issuer, name) for name in trusted):
        words += " One that it trusts differs by the slash at its end: its row must have the issuer as tokens have it."
    return words


def claims_text(claims: Mapping[str, Json]) -> str:
    """Return claims as rules about calls read them; empty where there are too many: then no rule finds its claim."""
    text = json.canonical(dict(claims))
    return text if len(text) <= LONGEST_CLAIMS else ""


def _caller(rule: Trust, judged: Judgement, claims: Mapping[str, Json]) -> Caller:
    user = persons.person_of(rule, judged.subject, claims)
    client = f"{clipped(judged.client, 100) or 'a client'} ({rule.name})"
    return Caller(
        principal=f"user:{user.pk}",
        label=f"{user.get_username()} via {client}",
        scopes=judged.scopes,
        groups=frozenset(user.groups.values_list("pk", flat=True)) | judged.groups,
        allowed_client=client,
        claims=claims_text(claims),
    )
