"""An MCP client's requests to an issuer and their answers: codes, tokens, registrations. Pure.

Of OAuth 2.1 with PKCE (RFC 7636), the issuer's name in the answer (RFC 9207) and registration (RFC 7591).
`authorization` decides the content and target of requests.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from sessions_app.protocol import json
from sessions_app.protocol.authorization import BASIC, METHODS, PUBLIC, AuthorizationInvalid, IssuerMetadata, scopes_in
from sessions_app.protocol.errors import ProtocolError
from sessions_app.protocol.json import Json

_MOST_ADDRESS: Final = 2000
_MOST_TOKEN: Final = 16_384
_MOST_WORDS: Final = 300
_LONGEST_LIFE_SECONDS: Final = 10 * 365 * 86400
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
"""The name of a grant for another issuer in a token exchange."""
WANTS_NONCE: Final = "use_dpop_nonce"
"""The error of a server that wants a nonce of its own in the proof (RFC 9449, 8 and 9)."""


class AnswerRefused(AuthorizationInvalid):
    """The issuer answered with an error of OAuth; `error` is its code, such as `invalid_grant`."""

    def __init__(self, sentence: str, error: str) -> None:
        super().__init__(sentence)
        self.error = error


# The authorization request and its response ---------------------------------------------------------------------


def s256(verifier: str) -> str:
    """Return the code challenge of a verifier (RFC 7636)."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def authorization_address(
    issuer: IssuerMetadata,
    *,
    client_id: str,
    redirect_uri: str,
    state: str,
    verifier: str,
    scopes: Iterable[str] = (),
    resource: str = "",
) -> str:
    """Return the address that a person's browser is led to. Raises AuthorizationInvalid where the issuer has none."""
    if not issuer.authorization_endpoint:
        raise AuthorizationInvalid("The authorization server has no page where a person could agree.")
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": s256(verifier),
        "code_challenge_method": "S256",
        "scope": " ".join(scopes),
        "resource": resource,
    }
    asked = urlencode({name: value for name, value in parameters.items() if value})
    separator = "&" if urlsplit(issuer.authorization_endpoint).query else "?"
    return f"{issuer.authorization_endpoint}{separator}{asked}"


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """The redirect of the person's browser; absent members are empty."""

    state: str = ""
    code: str = ""
    iss: str | None = None
    error: str = ""
    description: str = ""

    @classmethod
    def read(cls, query: str) -> AuthorizationResponse:
        """Read the query of the address. Raises AuthorizationInvalid where a parameter stands there twice."""
        pairs = parse_qsl(query[:_MOST_TOKEN], keep_blank_values=True, max_num_fields=50)
        found: dict[str, str] = {}
        for name, value in pairs:
            if name in found:
                raise AuthorizationInvalid("A parameter of the answer stands there twice.")
            found[name] = value
        return cls(
            found.get("state", ""),
            found.get("code", ""),
            found.get("iss"),
            found.get("error", "")[:100],
            found.get("error_description", "")[:_MOST_WORDS],
        )

    def code_from(self, issuer: IssuerMetadata) -> str:
        """Return the code, if it comes from this issuer. Raises AnswerRefused, AuthorizationInvalid.

        `iss` is compared as plain text, before anything else is believed (RFC 9207, 2.4).
        """
        if self.iss is None and issuer.names_itself:
            raise AuthorizationInvalid("The answer does not name its issuer, which this issuer always does.")
        if self.iss is not None and self.iss != issuer.issuer:
            raise AuthorizationInvalid(
                f"The answer is of the issuer {self.iss[:200]!r}, and the hub asked {issuer.issuer[:200]!r}."
            )
        if self.error:
            words = f"The authorization server answered {self.error!r}"
            raise AnswerRefused(f"{words}: {self.description}" if self.description else f"{words}.", self.error)
        if not self.code:
            raise AuthorizationInvalid("The answer holds no code.")
        return self.code


# Tokens -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """The answer of a token endpoint."""

    access_token: str
    refresh_token: str = ""
    expires_in: int | None = None
    """Seconds; None if not stated."""
    scopes: tuple[str, ...] = ()
    name: str = ""
    """Of the account, as the ID token has it; empty where there is none."""
    is_bound: bool = False
    """It is worth nothing without a proof by the key that was shown (DPoP)."""
    id_token: str = ""

    @classmethod
    def read(cls, status: int, document: Json, asked: Iterable[str], *, has_key: bool = False) -> TokenAnswer:
        """Read an answer to a request for these scopes, which showed a key or did not.

        Raises AnswerRefused, AuthorizationInvalid.
        """
        if not isinstance(document, dict):
            raise AuthorizationInvalid(f"The token endpoint answered with status {status} and no JSON object.")
        error = document.get("error")
        if not 200 <= status < 300 or isinstance(error, str):
            code = error[:100] if isinstance(error, str) else ""
            told = _refusal(status, code, document.get("error_description"))
            raise AnswerRefused(f"The authorization server gave no token: {told}", code)
        token, kind = document.get("access_token"), document.get("token_type") or "Bearer"  # some issuers leave it out
        if not isinstance(token, str) or not _TOKEN.fullmatch(token) or len(token) > _MOST_TOKEN:
            raise AuthorizationInvalid("The token endpoint gave no access token that can be sent.")
        if not isinstance(kind, str) or kind.lower() not in ("bearer", "dpop" if has_key else "bearer"):
            wanted = "DPoP or Bearer" if has_key else "Bearer"
            raise AuthorizationInvalid(f"The token is of the type {str(kind)[:50]!r}; the hub sends {wanted} tokens.")
        refresh, id_token = document.get("refresh_token"), document.get("id_token")
        scope = document.get("scope")
        return cls(
            token,
            refresh if isinstance(refresh, str) and len(refresh) <= _MOST_TOKEN else "",
            _seconds(document.get("expires_in")),
            scopes_in(scope) if isinstance(scope, str) else tuple(asked),
            name_of(_claims(id_token)),
            kind.lower() == "dpop",
            id_token if isinstance(id_token, str) and len(id_token) <= _MOST_TOKEN else "",
        )


def grant_in(status: int, document: Json) -> str:
    """Return the grant for another issuer that an exchange gave (ID-JAG). Raises AnswerRefused,
    AuthorizationInvalid.
    """
    if not isinstance(document, dict):
        raise AuthorizationInvalid(f"The company's issuer answered with status {status} and no JSON object.")
    error = document.get("error")
    if not 200 <= status < 300 or isinstance(error, str):
        code = error[:100] if isinstance(error, str) else ""
        told = _refusal(status, code, document.get("error_description"))
        raise AnswerRefused(f"The company's issuer does not vouch for the person: {told}", code)
    grant = document.get("access_token")
    if document.get("issued_token_type") != ID_JAG or not isinstance(grant, str) or not _TOKEN.fullmatch(grant):
        raise AuthorizationInvalid("The company's issuer gave no grant for another issuer (ID-JAG).")
    return grant


def ends_at(id_token: str) -> float:
    """Return the end of an ID token, in seconds since the epoch; 0 without a token or a statement."""
    claims = _claims(id_token)
    ends = claims.get("exp") if isinstance(claims, dict) else None
    return float(ends) if isinstance(ends, int | float) and not isinstance(ends, bool) else 0.0


@dataclass(frozen=True, slots=True)
class Registered:
    """An issuer's answer to a registration (RFC 7591)."""

    client_id: str
    client_secret: str = ""
    method: str = PUBLIC

    @classmethod
    def read(cls, status: int, document: Json, wanted: str) -> Registered:
        """Read the answer to a registration that asked for the method `wanted`. Raises AuthorizationInvalid."""
        if not 200 <= status < 300 or not isinstance(document, dict):
            error = document.get("error") if isinstance(document, dict) else ""
            told = document.get("error_description") if isinstance(document, dict) else ""
            raise AuthorizationInvalid(
                f"The authorization server did not register the hub: {_refusal(status, str(error or ''), told)} "
                "Enter a client id by hand."
            )
        client_id, secret = document.get("client_id"), document.get("client_secret")
        if not isinstance(client_id, str) or not client_id or len(client_id) > _MOST_ADDRESS:
            raise AuthorizationInvalid("The authorization server registered the hub without giving a client id.")
        secret = secret if isinstance(secret, str) and len(secret) <= _MOST_TOKEN else ""
        method = document.get("token_endpoint_auth_method")
        if method not in METHODS:
            method = wanted
        if not secret:
            method = PUBLIC
        return cls(client_id, secret, str(method))


def basic(client_id: str, secret: str) -> str:
    """Return the value of `Authorization` that identifies the client (RFC 6749, 2.3.1)."""
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return f"Basic {b64encode(pair.encode()).decode('ascii')}"


def registration(
    *, redirect_uri: str, scopes: Iterable[str], issuer: IssuerMetadata, name: str, home: str
) -> dict[str, Json]:
    """Return the hub's description of itself for registration."""
    method = next((each for each in METHODS if each in issuer.methods), BASIC)
    document = client_document(redirect_uri=redirect_uri, name=name, home=home, method=method)
    return {**document, "scope": " ".join(scopes)} if scopes else document


def client_document(*, redirect_uri: str, name: str, home: str, method: str = PUBLIC) -> dict[str, Json]:
    """Return the metadata of the hub as a client."""
    return {
        "client_name": name,
        "client_uri": home,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": _kind_of(redirect_uri),
    }


def name_of(claims: Json) -> str:
    """Return the name of an account: the first of the usual claims that is present. For people to read alone."""
    if not isinstance(claims, dict):
        return ""
    for claim in ("preferred_username", "email", "login", "username", "name", "sub"):
        found = claims.get(claim)
        if isinstance(found, str) and found.strip():
            return found.strip()[:200]
    return ""


# Helpers ------------------------------------------------------------------------------------------------------


def _kind_of(redirect_uri: str) -> str:
    """Return the kind of application for a redirect: only a native one returns to the machine itself (OpenID Connect
    Registration, 2).
    """
    there = urlsplit(redirect_uri)
    return "native" if there.scheme == "http" and there.hostname in ("127.0.0.1", "::1", "localhost") else "web"


def _refusal(status: int, error: str, description: Json) -> str:
    words = f"status {status}" + (f", {error[:100]}" if error else "")
    return f"{words}: {description[:_MOST_WORDS]}" if isinstance(description, str) and description else f"{words}."


def _claims(token: Json) -> Json:
    """Return the claims of an ID token received from its issuer itself, so that its signature would prove nothing
    more.
    """
    if not isinstance(token, str) or len(token) > _MOST_TOKEN or token.count(".") != 2:
        return None
    body = token.split(".")[1]
    try:
        return json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, ProtocolError):
        return None


def _seconds(value: Json) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        return None
    return min(int(value), _LONGEST_LIFE_SECONDS)
