"""Which credentials the operations of an OpenAPI document want, written as references to secrets. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mcphub.features.importers.openapi.inlining import OperationRefused, Resolver
from sessions_app.protocol.authorization import OPENID, scopes_in
from sessions_app.protocol.json import Json

_LONGEST_SCOPES: Final = 1000
_LONGEST_ADDRESS: Final = 500


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of one request: headers, query parameters, and the secrets that both name."""

    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


class Security:
    """The security schemes of a document, of which the first that can be sent are taken.

    The secret of the first scheme is called as the service; the others add the name of their scheme.
    """

    def __init__(self, document: dict[str, Json], resolver: Resolver, slug: str) -> None:
        self._document = document
        components = document.get("components")
        given = components.get("securitySchemes") if isinstance(components, dict) else None
        self._schemes = {str(name): each for name, each in given.items()} if isinstance(given, dict) else {}
        self._resolver = resolver
        self._slug = slug
        self._first: str | None = None
        self._declared = _alternatives(document.get("security"))
        wanted = [[name] for name in self._schemes] if self._declared is None else self._declared
        self.shared = self._choose(wanted) or Credentials()
        """The default of all operations."""
        self.lacking = bool(any(wanted)) and not self.shared.secrets
        """Whether credentials are asked for, and none of a kind that can be written down."""

    def oauth(self, operations: Iterable[Json]) -> dict[str, str]:
        """Return the account settings of the first OAuth scheme, as a service's fields; nothing without one.

        Scopes are those that the document and these operations ask for, not all that there are.
        """
        for name in self._schemes:
            try:
                scheme = self._resolver.resolve(self._schemes[name])
            except OperationRefused:
                continue
            found = _issuer_of(scheme) if isinstance(scheme, dict) else {}
            if found:
                members = [self._document.get("security")]
                members += [each.get("security") for each in operations if isinstance(each, dict)]
                scopes = dict.fromkeys(scope for member in members for scope in _scopes_of(member, name))
                text = " ".join(scopes)
                return {**found, "account_scopes": text} if 0 < len(text) <= _LONGEST_SCOPES else found
        return {}

    def of(self, operation: dict[str, Json]) -> Credentials | None:
        """Return an operation's own credentials; None if the shared ones will do.

        It may want none. An operation with inexpressible credentials gets the shared ones, which an operator may
        write.
        """
        wanted = _alternatives(operation.get("security"))
        wanted = self._declared if wanted is None else wanted
        if wanted is None or any(self._choose([each]) == self.shared for each in wanted):
            return None
        return self._choose(wanted) or (Credentials() if not wanted or [] in wanted else None)

    def _choose(self, alternatives: list[list[str]]) -> Credentials | None:
        for names in alternatives:
            written = [self._written(name) for name in names]
            if names and all(written):
                self._first = self._first or names[0]
                secrets = {name: self._secret(name) for name in names}
                headers: dict[str, str] = {}
                query: dict[str, str] = {}
                for name, (place, key, form) in zip(names, [each for each in written if each], strict=True):
                    value = form.replace("NAME", secrets[name])
                    held = query if place == "query" else headers
                    held[key] = f"{held[key]}; {value}" if key == "Cookie" and key in held else value
                return Credentials(headers, query, tuple(secrets.values()))
        return None

    def _secret(self, scheme: str) -> str:
        if scheme == self._first:
            return self._slug
        return f"{self._slug}-{re.sub(r'[^A-Za-z0-9_.-]', '_', scheme)}"[:64]

    def _written(self, name: str) -> tuple[str, str, str] | None:
        """Return place, name and value of a scheme; None for one that no tool can send."""
        try:
            scheme = self._resolver.resolve(self._schemes.get(name))
        except OperationRefused:
            return None
        kind = scheme.get("type") if isinstance(scheme, dict) else None
        if kind == "apiKey" and isinstance(scheme.get("name"), str):
            place = scheme.get("in")
            if place == "cookie":
                return "header", "Cookie", f"{scheme['name']}={{secret:NAME}}"
            return (str(place), scheme["name"], "{secret:NAME}") if place in ("query", "header") else None
        manner = str(scheme.get("scheme")).lower() if kind == "http" else ""
        if manner == "basic":
            return "header", "Authorization", "Basic {basic:NAME}"
        if manner == "bearer" or kind in ("oauth2", "openIdConnect"):
            return "header", "Authorization", "Bearer {secret:NAME}"
        return None


def _issuer_of(scheme: dict[str, Json]) -> dict[str, str]:
    """Return the issuer of a scheme, or its addresses; nothing where they are none that a service can have."""
    if scheme.get("type") == "openIdConnect":
        address = scheme.get("openIdConnectUrl")
        is_known = _is_address(address) and str(address).endswith(OPENID)
        return {"issuer": str(address).removesuffix(OPENID)} if is_known else {}
    flows = scheme.get("flows")
    if scheme.get("type") != "oauth2" or not isinstance(flows, dict):
        return {}
    for name in ("authorizationCode", "clientCredentials"):
        flow = flows.get(name)
        if not isinstance(flow, dict) or not _is_address(flow.get("tokenUrl")):
            continue
        led_to = flow.get("authorizationUrl")
        where = {"authorization_url": str(led_to)} if name == "authorizationCode" and _is_address(led_to) else {}
        return {**where, "token_url": str(flow["tokenUrl"])}
    return {}


def _is_address(value: Json) -> bool:
    return isinstance(value, str) and value.startswith(("https://", "http://")) and len(value) <= _LONGEST_ADDRESS


def _scopes_of(member: Json, scheme: str) -> Iterator[str]:
    for each in member if isinstance(member, list) else ():
        scopes = each.get(scheme) if isinstance(each, dict) else None
        yield from (
            scopes_in(" ".join(one for one in scopes if isinstance(one, str))) if isinstance(scopes, list) else ()
        )


def _alternatives(given: Json) -> list[list[str]] | None:
    """Return a `security` member as alternatives of names that belong together; None where there is none."""
    if not isinstance(given, list):
        return None
    return [[str(name) for name in each] for each in given if isinstance(each, dict)]
