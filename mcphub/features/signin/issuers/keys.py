"""The keys of trusted issuers: read when a token needs them, kept a while, and read again for a key nobody knows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from mcphub.features.signin.issuers import documents
from mcphub.features.signin.issuers.documents import IssuerSilent
from mcphub.features.signin.issuers.trust import TokenRefused, Trust
from sessions_app.protocol.json import Json

FRESH_SECONDS = 600.0
AGAIN_SECONDS = 30.0
"""A key that nobody knows makes the hub ask again, so seldom."""
STALE_SECONDS = 3600.0
"""How long cached keys are used while the issuer does not answer."""
MOST_KEYS = 100
_SHORTEST_RSA_BITS = 2048
_CURVES = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}

PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | ed448.Ed448PublicKey


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key of an issuer: its id, which may be empty, the algorithm it is bound to, if any, and the key."""

    id: str
    algorithm: str
    public: PublicKey

    def verifies(self, algorithm: str) -> bool:
        """Return whether signatures of an algorithm can be checked with it."""
        if self.algorithm and self.algorithm != algorithm:
            return False
        if isinstance(self.public, rsa.RSAPublicKey):
            return algorithm[:2] in ("RS", "PS")
        if isinstance(self.public, ec.EllipticCurvePublicKey):
            return _CURVES.get(algorithm) == self.public.curve.name
        return algorithm == "EdDSA"

    @property
    def kind(self) -> str:
        if isinstance(self.public, rsa.RSAPublicKey):
            return f"RSA {self.public.key_size}"
        return self.public.curve.name if isinstance(self.public, ec.EllipticCurvePublicKey) else "EdDSA"


def usable(published: Iterable[Json]) -> list[SigningKey]:
    """Return the keys of a key set that can check signatures; weak, secret and strange ones are left out."""
    found = []
    for each in list(published)[:MOST_KEYS]:
        key = _read(each)
        if key is not None:
            found.append(key)
    return found


def _read(published: Json) -> SigningKey | None:
    if not isinstance(published, dict) or published.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    operations = published.get("key_ops")
    if published.get("use", "sig") != "sig" or (isinstance(operations, list) and "verify" not in operations):
        return None
    key_id, algorithm = published.get("kid", ""), published.get("alg", "")
    if not isinstance(key_id, str) or not isinstance(algorithm, str) or "d" in published:
        return None
    try:
        public = jwt.PyJWK(published).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, UnsupportedAlgorithm):
        return None
    known = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | ed448.Ed448PublicKey
    if not isinstance(public, known):
        return None
    if isinstance(public, rsa.RSAPublicKey) and public.key_size < _SHORTEST_RSA_BITS:
        return None
    return SigningKey(key_id, algorithm, public)


def chosen(keys: Iterable[SigningKey], key_id: str, algorithm: str) -> SigningKey | None:
    """Return the key that a token names, or the only one that can be meant where it names none."""
    fitting = [key for key in keys if key.verifies(algorithm) and (not key_id or key.id == key_id)]
    return fitting[0] if len(fitting) == 1 else None


def verify(text: str, key: SigningKey, algorithm: str) -> None:
    """Check a token's signature; raise TokenRefused."""
    try:
        jwt.api_jws.decode(text, key.public, algorithms=[algorithm])
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise TokenRefused("The signature of the access token is wrong.") from error


@dataclass(slots=True)
class _KeptKeys:
    keys: list[SigningKey]
    read_at: float
    tried_at: float


class KeyStore:
    """The keys that one process has read. Used on one event loop."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], _KeptKeys] = {}
        self._reading: dict[tuple[str, str], asyncio.Lock] = {}

    async def find(self, trust: Trust, key_id: str, algorithm: str) -> SigningKey:
        """Return the key that signed a token; raise TokenRefused where there is none, IssuerSilent."""
        named = (trust.issuer, trust.keys_address)
        key = self._known(named, key_id, algorithm)
        if key is None:
            async with self._reading.setdefault(named, asyncio.Lock()):
                key = self._known(named, key_id, algorithm)
                kept = self._kept.get(named)
                if key is None and (kept is None or kept.tried_at + AGAIN_SECONDS <= time.monotonic()):
                    await self._read(trust, named)
                    key = self._any(named, key_id, algorithm)
        key = key or self._any(named, key_id, algorithm)
        if key is None:
            if not self._keys(named):
                raise IssuerSilent("the keys of the issuer cannot be read.")
            raise TokenRefused("The access token is signed with a key that its issuer does not publish.")
        return key

    def _known(self, named: tuple[str, str], key_id: str, algorithm: str) -> SigningKey | None:
        kept = self._kept.get(named)
        is_fresh = kept is not None and kept.read_at + FRESH_SECONDS > time.monotonic()
        return self._any(named, key_id, algorithm) if is_fresh else None

    def _any(self, named: tuple[str, str], key_id: str, algorithm: str) -> SigningKey | None:
        return chosen(self._keys(named), key_id, algorithm)

    def _keys(self, named: tuple[str, str]) -> list[SigningKey]:
        kept = self._kept.get(named)
        return kept.keys if kept is not None and kept.read_at + STALE_SECONDS > time.monotonic() else []

    async def _read(self, trust: Trust, named: tuple[str, str]) -> None:
        now, before = time.monotonic(), self._kept.get(named)
        try:
            self._kept[named] = _KeptKeys(usable(await documents.keys(trust)), now, now)
        except IssuerSilent:
            if before is None:
                self._kept[named] = _KeptKeys([], now - FRESH_SECONDS, now)
            else:
                before.tried_at = now
