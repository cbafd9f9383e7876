"""What a client checks and chooses where a server demands OAuth, judged by the functions of Python's SDK."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mcp.client.auth import utils as sdk
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.shared.auth import OAuthMetadata

from sessions_app.protocol import authorization, authorization_flow
from sessions_app.protocol.authorization import (
    AuthorizationInvalid,
    Challenge,
    IssuerMetadata,
    OtherIssuer,
    ResourceMetadata,
)
from sessions_app.protocol.authorization_flow import AnswerRefused, AuthorizationResponse, Registered, TokenAnswer

WORDS = st.text("abcdefghij", min_size=1, max_size=6)
PATHS = st.lists(WORDS, max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts))
ORIGINS = st.sampled_from(["https://mcp.example", "https://mcp.example:8443", "http://localhost:3000"])
SCOPES = st.lists(st.sampled_from(["read", "write", "mcp:basic", "https://x/y"]), max_size=4, unique=True)
ISSUER = "https://issuer.example/tenant"
KNOWN = {
    "issuer": ISSUER,
    "authorization_endpoint": "https://issuer.example/authorize",
    "token_endpoint": "https://issuer.example/token",
    "code_challenge_methods_supported": ["S256"],
}


def issuer(**more: object) -> IssuerMetadata:
    return IssuerMetadata.read({**KNOWN, **more}, ISSUER)


@given(ORIGINS, PATHS, st.booleans())
def test_a_server_is_described_where_the_sdk_looks(origin: str, path: str, is_told: bool) -> None:
    told = f"{origin}/described" if is_told else ""
    found = authorization.resource_documents(origin + path, Challenge(resource_metadata=told))
    assert list(found) == sdk.build_protected_resource_metadata_discovery_urls(told or None, origin + path)


@given(ORIGINS, PATHS)
def test_an_issuer_is_described_where_the_sdk_looks(origin: str, path: str) -> None:
    found = authorization.issuer_documents(origin + path)
    assert list(found) == sdk.build_oauth_authorization_server_metadata_discovery_urls(origin + path, "https://x/")


@given(SCOPES, SCOPES, SCOPES)
def test_the_union_keeps_what_there_was_in_its_order(one: list[str], two: list[str], three: list[str]) -> None:
    found = authorization.union(one, two, three)
    assert set(found) == {*one, *two, *three}
    assert len(set(found)) == len(found)
    assert found[: len(one)] == tuple(one)
    joined = sdk.union_scopes(" ".join(one), " ".join(two))
    assert " ".join(authorization.union(one, two)) == (joined or "")


@given(SCOPES, WORDS, st.sampled_from(["", "Basic realm=x, ", 'DPoP algs="ES256", ']))
def test_a_challenge_reads_as_it_was_written(scopes: list[str], address: str, before: str) -> None:
    metadata = f"https://mcp.example/{address}"
    header = f'{before}Bearer error="insufficient_scope", scope="{" ".join(scopes)}", resource_metadata="{metadata}"'
    takes_proofs = before.startswith("DPoP")
    assert Challenge.read(header) == Challenge(metadata, tuple(scopes), "insufficient_scope", takes_proofs, True)
    response = httpx2.Response(401, headers={"WWW-Authenticate": header})
    assert sdk.extract_resource_metadata_from_www_auth(response) == metadata


def test_a_challenge_of_dpop_alone_is_read() -> None:
    found = Challenge.read('DPoP error="use_dpop_nonce", resource_metadata="https://mcp.example/here", algs="ES256"')
    assert (found.error, found.wants_proof, found.takes_bearers) == ("use_dpop_nonce", True, False)
    assert found.resource_metadata == "https://mcp.example/here"


@given(st.text(max_size=400))
def test_a_challenge_of_any_text_is_read_in_bounds(header: str) -> None:
    found = Challenge.read(header)
    assert len(found.resource_metadata) <= 2000
    assert all(scope and " " not in scope for scope in found.scopes)


@given(ORIGINS, PATHS, PATHS)
def test_a_description_of_another_server_is_refused(origin: str, path: str, other: str) -> None:
    assume(not f"{path}/".startswith(f"{other}/"))
    document = {"resource": origin + other, "authorization_servers": [ISSUER]}
    with pytest.raises(AuthorizationInvalid, match="No credentials go there"):
        ResourceMetadata.read(document, origin + path)
    with pytest.raises(AuthorizationInvalid):
        ResourceMetadata.read({**document, "resource": f"https://evil.example{path}"}, origin + path)
    assert ResourceMetadata.read({**document, "resource": origin + path}, f"{origin}{path}/").issuers == (ISSUER,)


@given(st.sampled_from([ISSUER + "/", ISSUER.upper(), "https://evil.example", "", None]))
def test_metadata_of_another_issuer_are_refused_as_by_the_sdk(named: str | None) -> None:
    with pytest.raises(AuthorizationInvalid):
        IssuerMetadata.read({**KNOWN, "issuer": named}, ISSUER)
    if named:
        with pytest.raises(OAuthFlowError):
            sdk.validate_metadata_issuer(OAuthMetadata.model_validate({**KNOWN, "issuer": named}), ISSUER)


@pytest.mark.parametrize("methods", [None, [], ["plain"], "S256"])
def test_an_issuer_without_s256_is_refused(methods: object) -> None:
    with pytest.raises(AuthorizationInvalid, match="S256"):
        issuer(code_challenge_methods_supported=methods)


@pytest.mark.parametrize(
    "address",
    ["http://issuer.example/token", "javascript:alert(1)", "https://u:p@issuer.example/", "/token", 5, "https://"],
)
def test_an_endpoint_that_nothing_may_be_sent_to_is_refused(address: object) -> None:
    for member in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
        with pytest.raises(AuthorizationInvalid):
            issuer(**{member: address})


def test_http_passes_where_the_server_itself_is_reached_so() -> None:
    plain = {name: value.replace("https", "http") if isinstance(value, str) else value for name, value in KNOWN.items()}
    assert (
        IssuerMetadata.read(plain, plain["issuer"], is_plain_allowed=True).token_endpoint
        == "http://issuer.example/token"
    )


@given(SCOPES, SCOPES, st.booleans())
def test_scopes_are_those_demanded_or_else_all_that_are_supported(
    demanded: list[str], supported: list[str], is_offline: bool
) -> None:
    who = issuer(scopes_supported=["read", *(["offline_access"] if is_offline else [])])
    resource = ResourceMetadata("https://mcp.example", (ISSUER,), tuple(supported))
    found = authorization.scopes_to_ask(Challenge(scopes=tuple(demanded)), resource, who)
    assert set(found) - {"offline_access"} == set(demanded or supported)
    assert ("offline_access" in found) is (is_offline and bool(demanded or supported))


def test_the_address_of_the_request_has_all_that_the_profile_demands() -> None:
    address = authorization_flow.authorization_address(
        issuer(),
        client_id="hub",
        redirect_uri="https://hub.example/connect/callback/",
        state="a state",
        verifier="v" * 43,
        scopes=["read", "write"],
        resource="https://mcp.example/mcp",
    )
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    assert asked == {
        "response_type": "code",
        "client_id": "hub",
        "redirect_uri": "https://hub.example/connect/callback/",
        "state": "a state",
        "code_challenge": authorization_flow.s256("v" * 43),
        "code_challenge_method": "S256",
        "scope": "read write",
        "resource": "https://mcp.example/mcp",
    }
    # RFC 7636, appendix B.
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert authorization_flow.s256(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@given(st.sampled_from([None, ISSUER, ISSUER + "/", "https://evil.example", ""]), st.booleans())
def test_the_issuer_of_an_answer_is_compared_as_the_sdk_compares_it(iss: str | None, names_itself: bool) -> None:
    who = issuer(authorization_response_iss_parameter_supported=names_itself)
    answer = AuthorizationResponse(state="s", code="c", iss=iss)
    metadata = OAuthMetadata.model_validate({**KNOWN, "authorization_response_iss_parameter_supported": names_itself})
    try:
        sdk.validate_authorization_response_iss(iss, metadata)
    except OAuthFlowError:
        with pytest.raises(AuthorizationInvalid):
            answer.code_from(who)
    else:
        assert answer.code_from(who) == "c"


def test_an_error_is_believed_of_the_right_issuer_only() -> None:
    denied = AuthorizationResponse.read("error=access_denied&state=s&iss=https%3A%2F%2Fevil.example")
    with pytest.raises(AuthorizationInvalid, match="evil") as refused:
        denied.code_from(issuer())
    assert not isinstance(refused.value, AnswerRefused)
    with pytest.raises(AnswerRefused, match="access_denied"):
        AuthorizationResponse.read("error=access_denied&state=s").code_from(issuer())


@pytest.mark.parametrize("query", ["code=a&code=b&state=s", "state=s&state=t&code=a"])
def test_a_parameter_that_stands_there_twice_is_refused(query: str) -> None:
    with pytest.raises(AuthorizationInvalid, match="twice"):
        AuthorizationResponse.read(query)


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (200, None),
        (200, []),
        (200, {}),
        (200, {"access_token": "a b", "token_type": "bearer"}),
        (200, {"access_token": "a\r\nX: y", "token_type": "bearer"}),
        (200, {"access_token": "é", "token_type": "bearer"}),
        (200, {"access_token": "a", "token_type": "DPoP"}),
        (200, {"access_token": "a", "token_type": "mac"}),
        (200, {"access_token": "a", "token_type": ["Bearer"]}),
        (200, {"error": "invalid_grant"}),
        (400, {"access_token": "a", "token_type": "bearer"}),
    ],
)
def test_an_answer_without_a_token_that_can_be_sent_is_refused(status: int, document: object) -> None:
    with pytest.raises(AuthorizationInvalid):
        TokenAnswer.read(status, document, ())


@given(st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=14)))
def test_a_life_of_any_kind_is_seconds_or_unknown(expires_in: object) -> None:
    answer = {"access_token": "a", "token_type": "Bearer", "expires_in": expires_in, "scope": "read"}
    found = TokenAnswer.read(200, answer, ("read", "write"))
    assert found.expires_in is None or 0 <= found.expires_in <= 10 * 365 * 86400
    assert found.scopes == ("read",)
    assert TokenAnswer.read(200, {**answer, "scope": None}, ("read", "write")).scopes == ("read", "write")


def test_the_code_of_a_refusal_is_told_apart() -> None:
    with pytest.raises(AnswerRefused) as refused:
        TokenAnswer.read(400, {"error": "invalid_grant", "error_description": "gone"}, ())
    assert refused.value.error == "invalid_grant"


@pytest.mark.parametrize(
    ("supported", "has_secret", "has_key", "chosen"),
    [
        (["client_secret_basic", "client_secret_post"], True, False, "client_secret_basic"),
        (["client_secret_post"], True, False, "client_secret_post"),
        (["private_key_jwt"], False, True, "private_key_jwt"),
        (["none"], False, False, "none"),
        (["client_secret_basic"], False, False, "none"),
    ],
)
def test_the_hub_proves_who_it_is_as_the_issuer_takes_it(
    supported: list[str], has_secret: bool, has_key: bool, chosen: str
) -> None:
    who = issuer(token_endpoint_auth_methods_supported=supported)
    assert authorization.method_for(who, has_secret=has_secret, has_key=has_key) == chosen


def test_a_secret_goes_to_no_issuer_that_takes_none() -> None:
    with pytest.raises(AuthorizationInvalid, match="private_key_jwt"):
        authorization.method_for(
            issuer(token_endpoint_auth_methods_supported=["private_key_jwt"]), has_secret=True, has_key=False
        )


def test_a_registration_tells_how_the_client_is_known() -> None:
    given_secret = {"client_id": "hub", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}
    assert Registered.read(201, given_secret, "none") == Registered("hub", "s", "client_secret_post")
    assert Registered.read(201, {"client_id": "hub"}, "client_secret_basic").method == "none"
    with pytest.raises(AuthorizationInvalid, match="by hand"):
        Registered.read(403, {"error": "access_denied"}, "none")


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"sub": "7", "email": "ada@example.org"}, "ada@example.org"),
        ({"sub": "7", "email": "ada@example.org", "preferred_username": "ada"}, "ada"),
        ({"sub": "x" * 500}, "x" * 200),
        ({"name": 3}, ""),
    ],
)
def test_an_account_is_called_by_what_its_id_token_says(claims: dict[str, Any], name: str) -> None:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    answer = {"access_token": "t", "token_type": "Bearer", "id_token": f"e30.{body}.s"}
    assert TokenAnswer.read(200, answer, ()).name == name


@pytest.mark.parametrize("token", ["", "a.b", "a.!!.c", "a.e30.c", "a.W10.c", 7, None])
def test_an_id_token_that_cannot_be_read_gives_no_name(token: object) -> None:
    answer: Any = {"access_token": "t", "token_type": "Bearer", "id_token": token}
    assert TokenAnswer.read(200, answer, ()).name == ""


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("https://a.example/", "https://a.example", True),
        ("https://a.example", "https://a.example/", True),
        ("https://a.example//", "https://a.example", False),
        ("https://a.example/tenant/", "https://a.example/tenant", False),
        ("https://a.example/Tenant", "https://a.example/tenant", False),
        ("HTTPS://A.example:443/tenant", "https://a.example/tenant", True),
        ("https://a.example:8443", "https://a.example", False),
        ("http://a.example", "https://a.example", False),
        ("https://u@a.example", "https://a.example", False),
        ("https://a.example/#", "https://a.example", False),
        ("https://[a.example", "https://a.example", False),
        ("https://a.example/?", "https://a.example/", False),
        ("https://b.example", "https://a.example/", False),
        ("https://A.example", "https://a.example/", True),
    ],
)
def test_spellings_of_one_address_are_one_issuer(one: str, other: str, is_same: bool) -> None:
    assert authorization.is_same_issuer(one, other) is is_same
    if is_same:
        assert IssuerMetadata.read({**KNOWN, "issuer": one}, other).issuer == one


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("https://a.example/tenant/", "https://a.example/tenant", True),
        ("https://A.example/o/app", "https://a.example/o/app/", True),
        ("https://a.example/tenant//", "https://a.example/tenant", False),
        ("https://b.example/tenant/", "https://a.example/tenant", False),
    ],
)
def test_a_closing_slash_of_a_path_is_part_of_a_name(one: str, other: str, is_same: bool) -> None:
    assert authorization.is_same_but_slash(one, other) is is_same
    with pytest.raises(OtherIssuer, match="Nothing is sent"):
        IssuerMetadata.read({**KNOWN, "issuer": one}, other)


@pytest.mark.parametrize("kind", [{}, {"token_type": None}, {"token_type": ""}, {"token_type": "BEARER"}])
def test_a_token_without_a_type_is_a_bearer_token(kind: dict[str, Any]) -> None:
    answer = TokenAnswer.read(200, {"access_token": "a", **kind}, ("read",), has_key=True)
    assert answer.access_token == "a"
    assert not answer.is_bound


@pytest.mark.parametrize("status", [200, 201, 202])
def test_a_token_comes_with_any_status_of_success(status: int) -> None:
    given = {"access_token": "t", "token_type": "Bearer"}
    assert authorization_flow.TokenAnswer.read(status, given, ()).access_token == "t"
