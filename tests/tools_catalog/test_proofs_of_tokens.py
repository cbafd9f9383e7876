"""Proofs that go with tokens (DPoP), and the tokens of the platform that runs the hub."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol.authorization import AuthorizationInvalid, IssuerMetadata, ResourceMetadata
from sessions_app.protocol.authorization_flow import ID_JAG, TokenAnswer, ends_at, grant_in
from tools_catalog.accounts.proofs import new_key, proof
from tools_catalog.accounts.workload import workload_token

KEY = new_key()
TOKENS = st.text("abcdefghijklmnopqrstuvwxyzABCDEF0123456789-._~+/=", min_size=1, max_size=80)


def read(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims, checked by the key that the header shows, as a server does."""
    header = jwt.get_unverified_header(text)
    claims = jwt.decode(text, jwt.PyJWK(header["jwk"]), algorithms=["ES256"])
    return header, claims


@given(TOKENS, st.sampled_from(["", "a nonce"]), st.sampled_from(["", "?q=1#here"]))
def test_a_proof_is_of_one_request_with_one_token(token: str, nonce: str, more: str) -> None:
    header, claims = read(proof(KEY, "POST", f"https://mcp.example/mcp{more}", token=token, nonce=nonce))
    assert header["typ"] == "dpop+jwt"
    assert "d" not in header["jwk"]
    assert (claims["htm"], claims["htu"]) == ("POST", "https://mcp.example/mcp")
    assert claims.get("nonce", "") == nonce
    digest = hashlib.sha256(token.encode()).digest()
    assert claims["ath"] == urlsafe_b64encode(digest).rstrip(b"=").decode()


def test_no_proof_comes_twice() -> None:
    made = {read(proof(KEY, "GET", "https://mcp.example/"))[1]["jti"] for _ in range(100)}
    assert len(made) == 100


def test_each_key_is_another() -> None:
    assert len({new_key() for _ in range(10)}) == 10


@pytest.mark.parametrize(
    ("document", "wants"),
    [
        ({}, False),
        ({"dpop_bound_access_tokens_required": True}, True),
        ({"dpop_signing_alg_values_supported": ["RS256", "ES256"]}, True),
        ({"dpop_signing_alg_values_supported": ["RS256"]}, False),
        ({"dpop_bound_access_tokens_required": "yes", "dpop_signing_alg_values_supported": "ES256"}, False),
    ],
)
def test_a_server_says_whether_it_takes_bound_tokens(document: dict[str, Any], wants: bool) -> None:
    whole = {"resource": "https://mcp.example/mcp", "authorization_servers": ["https://id.example"], **document}
    assert ResourceMetadata.read(whole, "https://mcp.example/mcp").wants_proof is wants


def test_an_issuer_binds_by_an_algorithm_that_the_hub_has() -> None:
    whole = {"issuer": "https://id.example", "token_endpoint": "https://id.example/token"}
    whole |= {"code_challenge_methods_supported": ["S256"]}
    for algorithms, binds in ((["ES256"], True), (["EdDSA"], False), (["none"], False), (None, False)):
        found = IssuerMetadata.read({**whole, "dpop_signing_alg_values_supported": algorithms}, "https://id.example")
        assert found.binds is binds


def test_a_bound_token_is_taken_only_by_who_showed_a_key() -> None:
    answer: Any = {"access_token": "abc", "token_type": "DPoP"}
    assert TokenAnswer.read(200, answer, (), has_key=True).is_bound
    with pytest.raises(AuthorizationInvalid, match="DPoP"):
        TokenAnswer.read(200, answer, ())
    assert not TokenAnswer.read(200, {**answer, "token_type": "Bearer"}, (), has_key=True).is_bound


def test_a_grant_for_another_issuer_is_no_token() -> None:
    whole: Any = {"access_token": "a.b.c", "issued_token_type": ID_JAG, "token_type": "N_A"}
    assert grant_in(200, whole) == "a.b.c"
    for spoilt in ({**whole, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}, {}, [], None):
        with pytest.raises(AuthorizationInvalid):
            grant_in(200, spoilt)
    with pytest.raises(AuthorizationInvalid, match="does not vouch"):
        grant_in(400, {"error": "access_denied"})


@pytest.mark.parametrize("token", ["", "a.b.c", "no jwt", "e30.e30.x"])
def test_an_id_token_that_says_nothing_has_ended(token: str) -> None:
    assert ends_at(token) == 0


class TestTokensOfTheWorkload:
    @pytest.fixture
    def folder(self, tmp_path: Path, settings: Any) -> Path:
        settings.MCPHUB_WORKLOAD_TOKENS = str(tmp_path)
        return tmp_path

    def test_a_connection_has_its_own_or_that_of_all_and_each_is_read_again(self, folder: Path) -> None:
        (folder / "token").write_text("for.all.1\n")
        assert workload_token("hr") == "for.all.1"
        (folder / "hr").write_text("for.hr.1")
        assert workload_token("hr") == "for.hr.1"
        (folder / "hr").write_text("for.hr.2")
        assert workload_token("hr") == "for.hr.2"

    @pytest.mark.parametrize("content", [b"", b"no jwt", b"a.b.\xff\x00", b"a.b." + b"c" * 20_000])
    def test_what_is_no_jwt_is_not_sent(self, content: bytes, folder: Path) -> None:
        (folder / "hr").write_bytes(content)
        with pytest.raises(AuthorizationInvalid, match="holds no JWT"):
            workload_token("hr")

    def test_without_a_file_or_a_folder_the_operator_hears_what_is_missing(self, folder: Path, settings: Any) -> None:
        with pytest.raises(AuthorizationInvalid, match="neither a file hr"):
            workload_token("hr")
        settings.MCPHUB_WORKLOAD_TOKENS = ""
        with pytest.raises(AuthorizationInvalid, match="set MCPHUB_WORKLOAD_TOKENS"):
            workload_token("hr")
