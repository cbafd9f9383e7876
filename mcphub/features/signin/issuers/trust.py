"""The validity and rights of a trusted issuer's access token: pure, check by check, each with its reason.

The one place where such a token is judged. The call path takes the first check that fails; the page that tests an
issuer shows them all.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field

from sessions_app import endpoints
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError
from sessions_app.protocol.json import Json

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Algorithms that a row may accept: signatures with a public key. `none` and HMAC are not among them."""
MOST_CHARACTERS = 16 * 1024
"""Of a token."""
_MOST_VALUES = 200
_LONGEST_ID = 255
_LEEWAY_SECONDS = 60
_TYPES = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})


class TokenRefused(ValueError):
    """The token is unacceptable; the message is the reason, without any part of it."""


class TokenExpired(TokenRefused):
    """It was good; a client comes so once an hour, and gets another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """An operator's settings of an issuer."""

    pk: int
    name: str
    issuer: str
    algorithms: frozenset[str]
    is_asked: bool = False
    """Its tokens are judged by asking it (RFC 7662), not by its keys."""
    keys_address: str = ""
    """The address of its keys; empty: from its metadata."""
    question_address: str = ""
    client_id: str = ""
    secret: str = field(default="", repr=False)
    audiences: Mapping[str, str] = field(default_factory=dict)
    """Audience -> the endpoint that it stands for, besides the endpoints' own addresses."""
    person_claim: str = ""
    makes_people: bool = False
    groups_claim: str = ""
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Value of the claim -> groups of the hub."""
    scope_claim: str = "scope"
    scopes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A scope of the issuer -> scopes of the hub. The hub's own names stand for themselves."""
    scopes_always: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One check: `kind` is its name, `words` its result."""

    kind: str
    is_good: bool
    words: str


@dataclass(frozen=True, slots=True)
class OpenedToken:
    """A signed token, read and not believed yet."""

    header: dict[str, Json]
    claims: dict[str, Json]

    @property
    def algorithm(self) -> str:
        return _text(self.header.get("alg"))

    @property
    def key_id(self) -> str:
        return _text(self.header.get("kid"))

    @property
    def issuer(self) -> str:
        return _text(self.claims.get("iss"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The rights of a token's claims under a row."""

    checks: tuple[Check, ...]
    subject: str
    client: str
    endpoints: frozenset[str]
    scopes: frozenset[str]
    groups: frozenset[int]
    expires_at: float
    """Seconds since the epoch."""

    def demand(self) -> None:
        """Raise TokenRefused with the reason of the first check that failed."""
        bad = [check for check in self.checks if not check.is_good]
        if bad:
            is_only_over = len(bad) == 1 and bad[0].kind == "lifetime"
            raise (TokenExpired if is_only_over else TokenRefused)(bad[0].words)


def is_signed(text: str) -> bool:
    """Return whether a token has the form of a signed JWT."""
    return text.count(".") == 2 and text.startswith("ey")


def opened(text: str) -> OpenedToken:
    """Read a signed token without believing it; raise TokenRefused."""
    if len(text) > MOST_CHARACTERS:
        raise TokenRefused(f"The access token has more than {MOST_CHARACTERS} characters.")
    if not text.isascii() or text.count(".") != 2:
        raise TokenRefused("The access token is no signed JWT: three parts with full stops between.")
    header, claims, _signature = text.split(".")
    return OpenedToken(_part(header, "header"), _part(claims, "payload"))


def judge_header(trust: Trust, token: OpenedToken) -> tuple[Check, ...]:
    """Check the signing header, before any key lookup."""
    kind = _text(token.header.get("typ")).lower()
    key_id = token.header.get("kid")
    return (
        Check(
            "algorithm",
            token.algorithm in trust.algorithms,
            f"It is signed with {_shown(token.header.get('alg'))}; accepted are {', '.join(sorted(trust.algorithms))}.",
        ),
        Check(
            "type",
            kind in _TYPES and "crit" not in token.header,
            f"Its type is {_shown(token.header.get('typ'))}; an access token's is at+jwt, JWT or none, without crit.",
        ),
        Check(
            "key",
            key_id is None or (isinstance(key_id, str) and 0 < len(key_id) <= _LONGEST_ID),
            "It names its key." if key_id is not None else "It names no key.",
        ),
    )


def judge_claims(trust: Trust, claims: Mapping[str, Json], now: float) -> Judgement:
    """Check the claims of a token, after its signature or its issuer's answer was accepted. `now` is in seconds."""
    audience, found = _audience(trust, claims.get("aud"))
    expires_at, moments = lifetime(claims, now)
    subject = _text(claims.get("sub"))
    is_subject = 0 < len(subject) <= _LONGEST_ID and subject.isprintable()
    scopes, named = _scopes(trust, claims)
    words = ", ".join(sorted(scopes)) or "nothing"
    return Judgement(
        checks=(
            Check(
                "issuer",
                # The answer to a question may leave it out: who was asked is known.
                claims.get("iss") == trust.issuer or (trust.is_asked and "iss" not in claims),
                f"Its issuer is {_shown(claims.get('iss'))}; this row trusts {trust.issuer}.",
            ),
            audience,
            *moments,
            Check("subject", is_subject, "It names whom it is for." if is_subject else "It has no usable sub."),
            Check("scopes", True, f"Its scopes {_shown(' '.join(named))} allow {words}."),
        ),
        subject=subject if is_subject else "",
        client=_text(claims.get("client_id") or claims.get("azp") or claims.get("cid"))[:100],
        endpoints=found,
        scopes=scopes,
        groups=frozenset(
            group for value in _values(claims.get(trust.groups_claim)) for group in trust.groups.get(value, ())
        ),
        expires_at=expires_at,
    )


def _part(part: str, name: str) -> dict[str, Json]:
    try:
        raw = urlsafe_b64decode(part + "=" * (-len(part) % 4))
        value = json.loads(raw, max_depth=16)
    except (HubError, ValueError, binascii.Error) as error:
        raise TokenRefused(f"The {name} of the access token is not JSON in base64url.") from error
    if not isinstance(value, dict):
        raise TokenRefused(f"The {name} of the access token is no JSON object.")
    return value


def _audience(trust: Trust, aud: Json) -> tuple[Check, frozenset[str]]:
    found = set()
    for value in _values(aud):
        found |= {endpoints.named(value), trust.audiences.get(value, "")}
    found.discard("")
    if found:
        return Check("audience", True, f"It is for {', '.join(sorted(found))}."), frozenset(found)
    own = endpoints.identifier(endpoints.MAIN)
    words = f"Its audience is {_shown(aud)}, which stands for no endpoint of this hub, such as {own}."
    return Check("audience", False, words), frozenset()


def lifetime(claims: Mapping[str, Json], now: float) -> tuple[float, list[Check]]:
    """Return the token's expiry, in seconds since the epoch, and the verdict on its times."""
    ends, begins = _moment(claims.get("exp")), [_moment(claims.get(name)) for name in ("nbf", "iat")]
    early = [moment for moment in begins if moment is not None and moment > now + _LEEWAY_SECONDS]
    broken = [name for name in ("exp", "nbf", "iat") if name in claims and _moment(claims[name]) is None]
    if broken:
        return 0.0, [Check("lifetime", False, f"Its {broken[0]} is no number of seconds.")]
    if ends is None:
        return 0.0, [Check("lifetime", False, "It does not say when it ends: exp is missing.")]
    if early:
        return ends, [Check("lifetime", False, f"It holds only in {round(max(early) - now)} seconds.")]
    if ends <= now:
        return ends, [Check("lifetime", False, f"It expired {round(now - ends)} seconds ago.")]
    return ends, [Check("lifetime", True, f"It holds for {round(ends - now)} more seconds.")]


def _moment(value: Json) -> float | None:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12 else None
    )


def _scopes(trust: Trust, claims: Mapping[str, Json]) -> tuple[frozenset[str], list[str]]:
    value = claims.get(trust.scope_claim)
    named = value.split() if isinstance(value, str) else _values(value)
    own = {scope for name in named for scope in (name, *trust.scopes.get(name, ()))} | set(trust.scopes_always)
    return frozenset(allowed for scope in own for allowed in endpoints.SCOPES.get(scope, ())), named[:_MOST_VALUES]


def _values(value: Json) -> list[str]:
    """Return the texts of a claim that is a text or an array of them."""
    found = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [each for each in found[:_MOST_VALUES] if isinstance(each, str)]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _shown(value: Json) -> str:
    """Return a claim as a reason quotes it: short, and with nothing that a terminal or a page would obey."""
    text = value if isinstance(value, str) else "missing" if value is None else json.dumps(value).decode()
    return ascii(text[:80]) if value is not None else text
