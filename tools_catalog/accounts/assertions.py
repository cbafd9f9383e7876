"""The proof of a client with a private key: a signed statement of its identity (RFC 7523, `private_key_jwt`)."""

from __future__ import annotations

import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from typing import Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from sessions_app.protocol import json
from sessions_app.protocol.authorization import AuthorizationInvalid, IssuerMetadata
from sessions_app.protocol.json import Json

_LASTS_SECONDS: Final = 60
_CURVES: Final = {"secp256r1": ("ES256", hashes.SHA256(), 32), "secp384r1": ("ES384", hashes.SHA384(), 48)}


def is_key(text: str) -> bool:
    """Return whether a secret is a private key and not a password."""
    return text.lstrip().startswith("-----BEGIN ")


def signed_assertion(pem: str, client_id: str, issuer: IssuerMetadata) -> str:
    """Return the statement for one request to an issuer. Raises AuthorizationInvalid for a key that cannot sign it."""
    return _signed(pem, {"iss": client_id, "sub": client_id, "aud": issuer.audience})


def statement_about(pem: str, client_id: str, person: str, issuer: IssuerMetadata, scopes: Iterable[str]) -> str:
    """Return the hub's word that it acts for a person (RFC 7523, 2.1). Raises AuthorizationInvalid as above.

    `person` is their name at the issuer. Some issuers read the scopes here alone.
    """
    asked = " ".join(scopes)
    claims: dict[str, Json] = {"iss": client_id, "sub": person, "aud": issuer.audience}
    return _signed(pem, {**claims, "scope": asked} if asked else claims)


def signed_by_curve(key: ec.EllipticCurvePrivateKey, header: dict[str, Json], claims: dict[str, Json]) -> str:
    """Return a JWT that such a key signs."""
    name, digest, size = _CURVES[key.curve.name]
    body = _body(name, claims, header)
    r, s = decode_dss_signature(key.sign(body.encode(), ec.ECDSA(digest)))
    return f"{body}.{encoded(r.to_bytes(size, 'big') + s.to_bytes(size, 'big'))}"


def encoded(raw: bytes) -> str:
    """Return bytes as JWTs have them (RFC 7515, base64url)."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _signed(pem: str, about: dict[str, Json]) -> str:
    try:
        key = serialization.load_pem_private_key(pem.strip().encode(), None)
    except (ValueError, TypeError) as error:
        raise AuthorizationInvalid(
            "The client secret is no private key that can be read: PEM without a password."
        ) from error
    now = int(time.time())
    claims: dict[str, Json] = {**about, "jti": secrets.token_urlsafe(16), "iat": now, "exp": now + _LASTS_SECONDS}
    if isinstance(key, rsa.RSAPrivateKey):
        body = _body("RS256", claims)
        return f"{body}.{encoded(key.sign(body.encode(), padding.PKCS1v15(), hashes.SHA256()))}"
    if isinstance(key, ed25519.Ed25519PrivateKey):
        body = _body("EdDSA", claims)
        return f"{body}.{encoded(key.sign(body.encode()))}"
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return signed_by_curve(key, {"typ": "JWT"}, claims)
    raise AuthorizationInvalid("The private key is neither RSA, nor P-256 or P-384, nor Ed25519.")


def _body(algorithm: str, claims: dict[str, Json], more: dict[str, Json] | None = None) -> str:
    header = {"alg": algorithm, **(more or {"typ": "JWT"})}
    return f"{encoded(json.dumps(header))}.{encoded(json.dumps(claims))}"
