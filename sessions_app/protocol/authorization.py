"""An MCP client's checks and choices at a server that demands OAuth (MCP 2026-07-28, Authorization). Pure.

A *resource* is the server, as its document of RFC 9728 describes it; an *issuer* is the authorization server, as RFC
8414 does. Nothing is fetched here: addresses go out, documents come in. Every refusal is an `AuthorizationInvalid`
without secrets in its sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from sessions_app.protocol.json import Json

_MOST_ADDRESS: Final = 2000
_MOST_SCOPES: Final = 200
_ENDPOINTS: Final = (
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
    "userinfo_endpoint",
)
_PORTS: Final = {"http": 80, "https": 443}
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_PARAMETER: Final = re.compile(r'\s*([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|$)')
_SCHEME: Final = re.compile(r"(?:^|,)\s*(bearer|dpop)(?=\s|,|$)", re.IGNORECASE)
OFFLINE: Final = "offline_access"
PROTECTED_RESOURCE: Final = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"

BASIC, POST, SIGNED, PUBLIC = "client_secret_basic", "client_secret_post", "private_key_jwt", "none"
PROOF_ALGORITHM: Final = "ES256"
"""By which the hub proves that it holds the key of a token (DPoP, RFC 9449)."""
METHODS: Final = (BASIC, POST, PUBLIC)
"""How the hub proves to an issuer which client it is, the best first, where it holds no key of its own."""


class AuthorizationInvalid(ValueError):
    """A statement of a server or an issuer is unusable. The sentence is the reason."""


class OtherIssuer(AuthorizationInvalid):
    """The metadata are of an issuer with another name than the one that was asked for."""


# What a server demands ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Challenge:
    """The content of `WWW-Authenticate`; absent members are empty."""

    resource_metadata: str = ""
    scopes: tuple[str, ...] = ()
    error: str = ""
    wants_proof: bool = False
    """It takes tokens that are bound to a key (DPoP)."""
    takes_bearers: bool = False

    @classmethod
    def read(cls, header: str) -> Challenge:
        """Read the challenges of the schemes Bearer and DPoP, of each parameter the first; unreadable ones are
        omitted (RFC 9110, 11.6.1).
        """
        header = header[: 4 * _MOST_ADDRESS]
        found: dict[str, str] = {}
        schemes: set[str] = set()
        position = 0
        while (begin := _SCHEME.search(header, position)) is not None:
            schemes.add(begin.group(1).lower())
            position = begin.end()
            while (one := _PARAMETER.match(header, position)) is not None:
                name, quoted, bare = one.groups()
                found.setdefault(name.lower(), bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
                position = one.end()
            position = max(begin.end(), position - 1)  # the comma before the next challenge
        return cls(
            found.get("resource_metadata", "")[:_MOST_ADDRESS],
            scopes_in(found.get("scope", "")),
            found.get("error", "")[:100],
            "dpop" in schemes,
            "bearer" in schemes,
        )


def scopes_in(text: str) -> tuple[str, ...]:
    """Return the scopes of a list of words, each once, in order; invalid ones are omitted."""
    return tuple(dict.fromkeys(each for each in text.split(" ") if _SCOPE.fullmatch(each)))[:_MOST_SCOPES]


def resource_documents(url: str, challenge: Challenge) -> tuple[str, ...]:
    """Return the possible addresses of a server's RFC 9728 metadata: the one it names, at its path, at the root."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    found = [f"{_origin(parts)}{PROTECTED_RESOURCE}{path}"] if path else []
    return tuple(
        dict.fromkeys(filter(None, [challenge.resource_metadata, *found, _origin(parts) + PROTECTED_RESOURCE]))
    )


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """A server as its document describes it."""

    identifier: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] | None = None
    """The supported scopes; None if not stated."""
    wants_proof: bool = False
    """It takes tokens that are bound to a key (DPoP)."""

    @classmethod
    def read(cls, document: Json, url: str) -> ResourceMetadata:
        """Read the document for the server at `url`. Raises AuthorizationInvalid where it describes another."""
        if not isinstance(document, dict):
            raise AuthorizationInvalid("The server's description of what protects it is no object.")
        identifier = document.get("resource")
        if not isinstance(identifier, str) or not covers_address(identifier, url):
            raise AuthorizationInvalid(
                f"The server's description is of {str(identifier)[:200]!r}, and the hub asked about {url[:200]!r}. "
                "No credentials go there."
            )
        issuers = tuple(each for each in _texts(document, "authorization_servers") if len(each) <= _MOST_ADDRESS)
        if not issuers:
            raise AuthorizationInvalid("The server's description names no authorization server.")
        wants_proof = document.get("dpop_bound_access_tokens_required") is True or PROOF_ALGORITHM in _texts(
            document, "dpop_signing_alg_values_supported"
        )
        return cls(identifier, issuers, _scopes(document), wants_proof)


def covers_address(identifier: str, url: str) -> bool:
    """Return whether a metadata document's resource is the address, or a parent of it."""
    try:
        named, asked = urlsplit(identifier), urlsplit(url)
        if named.fragment or named.username is not None or _place(named) != _place(asked):
            return False
    except ValueError:
        return False
    return f"{asked.path.rstrip('/')}/".startswith(f"{named.path.rstrip('/')}/")


def canonical(url: str) -> str:
    """Return an address as a resource is named: without fragment, and without a slash at the end (RFC 8707)."""
    return url.partition("#")[0].rstrip("/")


# Who lets in --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IssuerMetadata:
    """An authorization server as its metadata describe it; addresses are empty where it has none."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    userinfo_endpoint: str = ""
    scopes: tuple[str, ...] = ()
    methods: tuple[str, ...] = (BASIC,)
    algorithms: tuple[str, ...] = ()
    takes_documents: bool = False
    """A client id may be the address of a document that describes the client."""
    names_itself: bool = False
    """Every authorization response holds `iss` (RFC 9207)."""
    binds: bool = False
    """It binds tokens to a key that the hub can have (DPoP)."""
    is_entered: bool = False
    """An operator entered its addresses; it has no name of its own."""

    @property
    def audience(self) -> str:
        """The audience of a signed statement of the hub (RFC 7523, 3)."""
        return self.token_endpoint if self.is_entered else self.issuer

    @classmethod
    def read(
        cls, document: Json, expected: str, *, is_plain_allowed: bool = False, is_pkce_demanded: bool = True
    ) -> IssuerMetadata:
        """Read metadata that were fetched for the issuer `expected`; `is_plain_allowed` lets http pass.

        `is_pkce_demanded` is MCP's demand on issuers. Elsewhere the hub sends a challenge as well, and issuers that
        do not know it ignore it.

        Raises OtherIssuer for those of another issuer (RFC 8414, 3.3), AuthorizationInvalid for those without PKCE by
        S256, or with addresses that nothing may be sent to.
        """
        if not isinstance(document, dict):
            raise AuthorizationInvalid("The authorization server's metadata are no object.")
        issuer = document.get("issuer")
        if not isinstance(issuer, str) or not is_same_issuer(issuer, expected):
            raise OtherIssuer(
                f"The metadata are of the issuer {str(document.get('issuer'))[:200]!r}, and the hub asked for "
                f"{expected[:200]!r}. Nothing is sent to it."
            )
        if is_pkce_demanded and "S256" not in _texts(document, "code_challenge_methods_supported"):
            raise AuthorizationInvalid("The authorization server does not say that it has PKCE with S256.")
        addresses: dict[str, Any] = {name: _address(document, name, is_plain_allowed) for name in _ENDPOINTS}
        if not addresses["token_endpoint"]:
            raise AuthorizationInvalid("The authorization server's metadata name no token endpoint.")
        return cls(
            issuer,
            **addresses,
            scopes=_scopes(document) or (),
            methods=_texts(document, "token_endpoint_auth_methods_supported") or (BASIC,),
            algorithms=_texts(document, "token_endpoint_auth_signing_alg_values_supported"),
            takes_documents=document.get("client_id_metadata_document_supported") is True,
            names_itself=document.get("authorization_response_iss_parameter_supported") is True,
            binds=PROOF_ALGORITHM in _texts(document, "dpop_signing_alg_values_supported"),
        )

    @classmethod
    def of_addresses(cls, authorization_endpoint: str, token_endpoint: str) -> IssuerMetadata:
        """Return an issuer that publishes nothing, by the addresses that an operator entered. Its name is its
        origin.
        """
        return cls(
            _origin(urlsplit(token_endpoint)),
            authorization_endpoint,
            token_endpoint,
            methods=(BASIC, POST, PUBLIC, SIGNED),
            is_entered=True,
        )

    @classmethod
    def without_metadata(cls, url: str) -> IssuerMetadata:
        """Return the issuer of a server of 2025-03-26 that publishes nothing: the endpoints that revision names."""
        origin = _origin(urlsplit(url))
        return cls(
            origin, f"{origin}/authorize", f"{origin}/token", f"{origin}/register", methods=(BASIC, POST, PUBLIC)
        )


def is_same_issuer(one: str, other: str) -> bool:
    """Return whether two names are of one issuer: the same text, but for what is no other address by RFC 3986 (6.2.2.1,
    6.2.3): the case of scheme and host, the scheme's own port, a lone slash after the origin.
    """
    return one == other or _normalised(one) == _normalised(other)


def is_same_but_slash(one: str, other: str) -> bool:
    """Return whether two names are of one issuer if a slash at the end of the path is no part of a name. By RFC 8414 it
    is one: `/a` and `/a/` may be two issuers of one host.
    """
    return is_same_issuer(one.removesuffix("/"), other.removesuffix("/"))


def issuer_documents(issuer: str) -> tuple[str, ...]:
    """Return where an issuer's metadata may stand, in the order of MCP 2026-07-28. Raises AuthorizationInvalid."""
    try:
        parts = urlsplit(issuer)
        is_well = parts.scheme in _PORTS and parts.hostname and not parts.query and not parts.fragment
        if not is_well or parts.username is not None or parts.port == 0:
            raise ValueError
    except ValueError as error:
        raise AuthorizationInvalid(f"{issuer[:200]!r} is no issuer: it must be an address without a query.") from error
    origin, path = _origin(parts), parts.path.rstrip("/")
    if not path:
        return (origin + AUTHORIZATION_SERVER, origin + OPENID)
    return (origin + AUTHORIZATION_SERVER + path, origin + OPENID + path, origin + path + OPENID)


def _normalised(name: str) -> tuple[object, ...]:
    try:
        parts = urlsplit(name)
        is_plain = parts.scheme in _PORTS and parts.hostname and parts.username is None and not {"?", "#"} & set(name)
        return (*_place(parts), "" if parts.path == "/" else parts.path) if is_plain else (name,)
    except ValueError:
        return (name,)


def server_issuer(url: str) -> str:
    """Return the issuer of a server that describes no protection: its own origin (MCP 2025-03-26)."""
    return _origin(urlsplit(url))


def method_for(issuer: IssuerMetadata, *, has_secret: bool, has_key: bool) -> str:
    """Choose how the hub proves which client it is. Raises AuthorizationInvalid where there is no common way."""
    if has_key:
        possible: tuple[str, ...] = (SIGNED,)
    elif has_secret:
        possible = (BASIC, POST)
    else:
        possible = (PUBLIC,)
    for method in possible:
        if method in issuer.methods:
            return method
    if not has_secret and not has_key:
        return PUBLIC  # many name only what clients with a secret do
    raise AuthorizationInvalid(
        f"The authorization server takes {', '.join(issuer.methods)[:200]}, and the hub can do {', '.join(possible)}."
    )


# Scopes -------------------------------------------------------------------------------------------------------


def scopes_to_ask(challenge: Challenge, resource: ResourceMetadata | None, issuer: IssuerMetadata) -> tuple[str, ...]:
    """Choose the initial scopes: the challenge's, else all that the server supports, else none.

    `offline_access` is asked for where the issuer has it, so that the account outlives its first token.
    """
    chosen = challenge.scopes or (resource.scopes if resource is not None and resource.scopes else ())
    return union(chosen, [OFFLINE]) if chosen and OFFLINE in issuer.scopes else tuple(chosen)


def union(*lists: Iterable[str]) -> tuple[str, ...]:
    """Return all scopes of these lists, each once, in their order."""
    return tuple(dict.fromkeys(scope for each in lists for scope in each))


# Helpers ------------------------------------------------------------------------------------------------------


def _scopes(document: Mapping[str, Json]) -> tuple[str, ...] | None:
    if not isinstance(document.get("scopes_supported"), list):
        return None
    return scopes_in(" ".join(_texts(document, "scopes_supported")))


def _texts(document: Mapping[str, Json], member: str) -> tuple[str, ...]:
    found = document.get(member)
    return tuple(each for each in found if isinstance(each, str))[:_MOST_SCOPES] if isinstance(found, list) else ()


def _address(document: Mapping[str, Json], member: str, is_plain_allowed: bool) -> str:
    value = document.get(member)
    if value is None or value == "":
        return ""
    schemes = ("https", "http") if is_plain_allowed else ("https",)
    try:
        parts = urlsplit(value) if isinstance(value, str) and len(value) <= _MOST_ADDRESS else urlsplit("")
        is_well = parts.scheme in schemes and parts.hostname and not parts.fragment and parts.username is None
        if not is_well or not _TOKEN.fullmatch(str(value)):
            raise ValueError
        _place(parts)
    except ValueError as error:
        raise AuthorizationInvalid(f"The metadata's {member} is no address that the hub may use.") from error
    return str(value)


def _origin(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc}"


def _place(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
