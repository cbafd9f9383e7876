"""OpenID Connect as far as a login needs it, as functions over a provider's responses: no requests and no rows.

Of the specifications: OpenID Connect Core 1.0, Discovery 1.0, RFC 7636 (PKCE), RFC 9207 (`iss` in the response).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt

from sessions_app.protocol.json import Json

ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""Kind of a public key -> algorithms that an ID token may be signed by with it. Never `none`, never a shared secret."""
LEEWAY_SECONDS = 60
MOST_TOKEN = 64 * 1024
MOST_KEYS = 100


class LoginRefused(Exception):
    """A login by a provider that does not go on. The event has both; the page explains `code` to the person."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


class ProviderFault(Exception):
    """The provider could not be reached, or sent an invalid response. The sentence is for the operator."""


class UnknownKey(ProviderFault):
    """The ID token names a key that is not among those known; the provider may have new ones."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """A provider's metadata: addresses, and request methods."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    names_issuer: bool = False
    """Whether each response carries `iss` (RFC 9207)."""
    takes_basic: bool = True
    has_pkce: bool = False
    scopes: tuple[str, ...] = ()
    """Those that it lists; empty: it lists none."""


def discovery_address(issuer: str) -> str:
    return issuer.rstrip("/") + "/.well-known/openid-configuration"


def metadata_of(issuer: str, document: Json) -> Metadata:
    """Read a discovery document; raise ProviderFault where it is another issuer's or lacks an address."""
    if not isinstance(document, dict):
        raise ProviderFault("The discovery document is no JSON object.")
    if document.get("issuer") != issuer:
        raise ProviderFault(
            f"The discovery document names the issuer {str(document.get('issuer'))[:200]!r}, not {issuer!r}. Enter the "
            "issuer exactly as the provider writes it."
        )
    found = {name: _address(issuer, document, name, needed=True) for name in _NEEDED}
    found |= {name: _address(issuer, document, name, needed=False) for name in _USEFUL}
    methods = document.get("token_endpoint_auth_methods_supported")
    pkce = document.get("code_challenge_methods_supported")
    scopes = document.get("scopes_supported")
    return Metadata(
        issuer=issuer,
        **found,
        names_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
        has_pkce=isinstance(pkce, list) and "S256" in pkce,
        scopes=tuple(each for each in scopes if isinstance(each, str)) if isinstance(scopes, list) else (),
    )


_NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_USEFUL = ("userinfo_endpoint", "end_session_endpoint")


def _address(issuer: str, document: Mapping[str, Json], name: str, *, needed: bool) -> str:
    value = document.get(name)
    if value is None and not needed:
        return ""
    parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
    schemes = ("https",) if issuer.startswith("https:") else ("https", "http")
    if not isinstance(value, str) or parts.scheme not in schemes or not parts.hostname or parts.fragment:
        raise ProviderFault(f"The discovery document has no usable {name}.")
    return value


# The way there -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """A started login: secrets shared by this browser and the hub until the provider answers."""

    provider: str
    state: str
    nonce: str
    verifier: str
    started_at: float
    next: str = ""
    links_user: int | None = None
    """The person who links the provider to their account; None: a login."""
    invitation: str = ""
    """The digest of the invitation that is accepted by this login."""

    @classmethod
    def begin(cls, provider: str, now: float, **more: Any) -> Started:
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(provider, state, nonce, verifier, started_at=now, **more)

    def as_json(self) -> dict[str, Json]:
        return asdict(self)


def authorization_address(metadata: Metadata, client_id: str, redirect_uri: str, scopes: str, started: Started) -> str:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(started.verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "scope": scopes,
        "state": started.state,
        "nonce": started.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    separator = "&" if "?" in metadata.authorization_endpoint else "?"
    return f"{metadata.authorization_endpoint}{separator}{urlencode(asked)}"


def logout_address(metadata: Metadata, client_id: str, leads_back: str) -> str:
    """Return where a person ends their login at the provider (OpenID Connect RP-Initiated Logout 1.0); empty: nowhere.

    Without an ID token, which the hub does not keep, the provider asks the person first.
    """
    if not metadata.end_session_endpoint:
        return ""
    separator = "&" if "?" in metadata.end_session_endpoint else "?"
    asked = {"client_id": client_id, "post_logout_redirect_uri": leads_back}
    return f"{metadata.end_session_endpoint}{separator}{urlencode(asked)}"


def check_answer(metadata: Metadata, started: Started, state: str, issuer: str | None) -> None:
    """Raise LoginRefused where the answer is not to this login, or of another issuer."""
    if not hmac.compare_digest(started.state.encode(), state.encode("utf-8", "surrogatepass")):
        raise LoginRefused("state", "not of this login")
    if issuer is None and metadata.names_issuer:
        raise LoginRefused("iss", "missing")
    if issuer is not None and issuer != metadata.issuer:
        raise LoginRefused("iss", "another issuer")


# The ID token --------------------------------------------------------------------------------------------


def keys_of(document: Json) -> dict[str, list[jwt.PyJWK]]:
    """Return the keys of a provider by their id; keys that this hub cannot use are left out. Raises ProviderFault."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ProviderFault("The address of the keys answers no list of keys.")
    found: dict[str, list[jwt.PyJWK]] = {}
    for each in listed[:MOST_KEYS]:
        if not isinstance(each, dict) or each.get("kty") not in ALGORITHMS or each.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK.from_dict(each)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        found.setdefault(str(each.get("kid", "")), []).append(key)
    return found


def claims_of(
    token: str, keys: Mapping[str, list[jwt.PyJWK]], metadata: Metadata, client_id: str, nonce: str
) -> dict[str, Json]:
    """Return the claims of an ID token that was issued for this very login.

    Raises UnknownKey where its key is none of `keys`, LoginRefused for everything else that is wrong with it.
    """
    if len(token) > MOST_TOKEN:
        raise LoginRefused("id_token", "too large")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise LoginRefused("id_token", "no JWT") from error
    algorithm, key_id = str(header.get("alg")), header.get("kid")
    if not any(algorithm in known for known in ALGORITHMS.values()):
        raise LoginRefused("algorithm", algorithm[:20])
    candidates = keys.get(str(key_id), []) if key_id is not None else [each for some in keys.values() for each in some]
    candidates = [key for key in candidates if algorithm in ALGORITHMS[key.key_type or ""]]
    if not candidates:
        raise UnknownKey("The ID token is signed by a key that the provider does not publish.")
    claims = _verified(token, candidates, algorithm, metadata, client_id)
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not subject.isascii() or "\x00" in subject:
        raise LoginRefused("sub", "none")
    own = claims.get("nonce")
    if not isinstance(own, str) or not hmac.compare_digest(own.encode("utf-8", "surrogatepass"), nonce.encode()):
        raise LoginRefused("nonce", "not of this login")
    audience = claims.get("aud")
    is_for_many = isinstance(audience, list) and len(audience) > 1
    if claims.get("azp", None if is_for_many else client_id) != client_id:
        raise LoginRefused("azp", "another client")
    return claims


def _verified(token: str, keys: list[jwt.PyJWK], algorithm: str, metadata: Metadata, client_id: str) -> dict[str, Any]:
    problem: jwt.PyJWTError = jwt.InvalidSignatureError()
    for key in keys:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=client_id,
                issuer=metadata.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except jwt.InvalidSignatureError as error:
            problem = error
        except jwt.PyJWTError as error:
            raise LoginRefused("id_token", type(error).__name__) from error
        else:
            return claims
    raise LoginRefused("signature") from problem


def texts_in(claims: Mapping[str, Json], name: str) -> list[str]:
    """Return the texts of a claim that is a text, a list of texts, or (with dots) lies within others; at most 1000."""
    value: Any = claims.get(name)
    if value is None and "." in name:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)][:1000] if isinstance(value, list) else []
