"""Proofs that the hub holds the key that a token is bound to (DPoP, RFC 9449): one for each request."""

from __future__ import annotations

import hashlib
import secrets
import time
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sessions_app.protocol.json import Json
from tools_catalog.accounts.assertions import encoded, signed_by_curve

_COORDINATE_BYTES: Final = 32
_KEPT: Final = 500
"""Keys that a process keeps ready."""


class _Ready(NamedTuple):
    key: ec.EllipticCurvePrivateKey
    header: dict[str, Json]


def new_key() -> str:
    """Return a private key as PEM, on P-256."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem.decode("ascii")


def proof(pem: str, method: str, url: str, *, token: str = "", nonce: str = "") -> str:
    """Return the header DPoP of one request that has this token, with the nonce that its server gave last."""
    ready = _ready(pem)
    claims: dict[str, Json] = {
        "jti": secrets.token_urlsafe(16),
        "htm": method,
        "htu": urlsplit(url)._replace(query="", fragment="").geturl(),
        "iat": int(time.time()),
    }
    if token:
        claims["ath"] = encoded(hashlib.sha256(token.encode("ascii")).digest())
    if nonce:
        claims["nonce"] = nonce
    return signed_by_curve(ready.key, ready.header, claims)


@lru_cache(_KEPT)
def _ready(pem: str) -> _Ready:
    key = serialization.load_pem_private_key(pem.encode("ascii"), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    point = key.public_key().public_numbers()
    x, y = (encoded(each.to_bytes(_COORDINATE_BYTES, "big")) for each in (point.x, point.y))
    return _Ready(key, {"typ": "dpop+jwt", "jwk": {"kty": "EC", "crv": "P-256", "x": x, "y": y}})
