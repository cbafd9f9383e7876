"""What the hub believes of a provider, as pure functions: discovery, the answer, the ID token."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.login import entering
from mcphub.features.login.providers import oidc
from mcphub.features.login.providers.oidc import LoginRefused, ProviderFault, Started

ISSUER = "https://login.example/realms/staff"
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": "https://login.example/auth",
    "token_endpoint": "https://login.example/token",
    "jwks_uri": "https://login.example/keys",
    "authorization_response_iss_parameter_supported": True,
}
METADATA = oidc.metadata_of(ISSUER, DOCUMENT)
NONCE = "the nonce"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
PEM = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def jwk(key: Any, key_id: str | None) -> dict[str, Any]:
    of = jwt.algorithms.RSAAlgorithm if key in (RSA, OTHER) else jwt.algorithms.ECAlgorithm
    own = json.loads(of.to_jwk(key.public_key()))
    return own if key_id is None else {**own, "kid": key_id}


KEYS = oidc.keys_of({"keys": [jwk(RSA, "one"), jwk(EC, "two"), {"kty": "oct", "k": "c2VjcmV0", "kid": "three"}, "x"]})


def token(key: Any = RSA, algorithm: str = "RS256", key_id: str | None = "one", **changed: Any) -> str:
    """Return a signed token; claims that are a `timedelta` are counted from the moment at which it is signed."""
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": "s1", "aud": "hub", "exp": now + 300, "iat": now, "nonce": NONCE, **changed}
    claims = {
        name: now + int(value.total_seconds()) if isinstance(value, timedelta) else value
        for name, value in claims.items()
        if value is not None
    }
    return jwt.encode(claims, key, algorithm, headers={} if key_id is None else {"kid": key_id})


def claims_of(text: str) -> dict[str, Any]:
    return oidc.claims_of(text, KEYS, METADATA, "hub", NONCE)


def test_a_token_for_this_login_is_believed() -> None:
    assert claims_of(token())["sub"] == "s1"
    assert claims_of(token(EC, "ES256", "two"))["sub"] == "s1"
    assert claims_of(token(algorithm="PS256"))["sub"] == "s1"
    assert claims_of(token(key_id=None))["sub"] == "s1"
    assert claims_of(token(aud=["hub", "other"], azp="hub"))["sub"] == "s1"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"iss": "https://evil.example"}, "id_token"),
        ({"aud": "another"}, "id_token"),
        ({"aud": ["hub", "another"]}, "azp"),
        ({"azp": "another"}, "azp"),
        ({"exp": timedelta(seconds=-120)}, "id_token"),
        ({"exp": None}, "id_token"),
        ({"iat": timedelta(hours=1)}, "id_token"),
        ({"nbf": timedelta(hours=1)}, "id_token"),
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"nonce": 7}, "nonce"),
        ({"sub": ""}, "sub"),
        ({"sub": "x" * 256}, "sub"),
        ({"sub": "a\x00b"}, "sub"),
    ],
)
def test_a_token_of_something_else_is_refused(changed: dict[str, Any], code: str) -> None:
    with pytest.raises(LoginRefused) as refusal:
        claims_of(token(**changed))
    assert refusal.value.code == code


def _b64(value: object) -> str:
    return jwt.utils.base64url_encode(json.dumps(value).encode()).decode()


def test_a_token_that_nobody_signed_is_refused() -> None:
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": "s1", "aud": "hub", "exp": now + 300, "iat": now, "nonce": NONCE}
    signed = jwt.api_jws.PyJWS()
    with_public_key = signed.encode(json.dumps(claims).encode(), b"\x00" * 64, "HS256", headers={"kid": "one"})
    for text in (
        jwt.encode(claims, None, "none"),
        with_public_key,
        f"{_b64({'alg': 'RS256'})}.{_b64(claims)}.",
        "",
        "x",
    ):
        with pytest.raises((LoginRefused, oidc.UnknownKey)):
            claims_of(text)
    with pytest.raises(LoginRefused, match="signature"):
        claims_of(token(OTHER))
    with pytest.raises(oidc.UnknownKey):
        claims_of(token(key_id="four"))
    with pytest.raises(oidc.UnknownKey):
        claims_of(token(EC, "ES256", "one"))
    with pytest.raises(LoginRefused, match="too large"):
        claims_of(token(more="x" * oidc.MOST_TOKEN))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"issuer": ISSUER + "/"}, "names the issuer"),
        ({"issuer": None}, "names the issuer"),
        ({"token_endpoint": None}, "token_endpoint"),
        ({"token_endpoint": "http://login.example/token"}, "token_endpoint"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"),
        ({"jwks_uri": ["https://login.example"]}, "jwks_uri"),
    ],
)
def test_a_document_of_another_provider_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ProviderFault, match=words):
        oidc.metadata_of(ISSUER, {**DOCUMENT, **changed})


def test_an_answer_counts_for_its_own_login() -> None:
    started = Started.begin("corp", 0.0)
    oidc.check_answer(METADATA, started, started.state, ISSUER)
    for state, issuer in [("", ISSUER), ("x", ISSUER), (started.state, None), (started.state, "https://evil.example")]:
        with pytest.raises(LoginRefused):
            oidc.check_answer(METADATA, started, state, issuer)
    address = oidc.authorization_address(METADATA, "hub", "https://hub.example/login/back/corp/", "openid", started)
    assert "code_challenge_method=S256" in address
    assert started.verifier not in address


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_JSON)
def test_any_document_is_read_or_refused(document: Any) -> None:
    for read in (lambda: oidc.metadata_of(ISSUER, document), lambda: oidc.keys_of(document)):
        with pytest.raises(ProviderFault):
            read()
        assert oidc.texts_in({"groups": document}, "groups") is not None


@given(st.text())
def test_any_token_is_refused(text: str) -> None:
    with pytest.raises((LoginRefused, oidc.UnknownKey)):
        claims_of(text)


@given(st.text() | st.text("/\\.:@ht ps\t\n").map(lambda text: "/" + text))
def test_a_login_leads_to_pages_of_the_hub_alone(wanted: str) -> None:
    page = entering.own_page(wanted)
    assert page in ("", wanted)
    if page:
        assert page.startswith("/")
        assert page[1:2] not in ("/", "\\")
        assert page.isprintable()


def test_claims_may_lie_within_others() -> None:
    claims = {"realm_access": {"roles": ["a", 1, "b"]}, "https://x.example/groups": "c"}
    assert oidc.texts_in(claims, "realm_access.roles") == ["a", "b"]
    assert oidc.texts_in(claims, "https://x.example/groups") == ["c"]
    assert oidc.texts_in(claims, "nothing.there") == []
