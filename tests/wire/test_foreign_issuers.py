"""Access tokens of an organisation's own authorization server: taken as the operator's row says, or refused."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import jwt
import pytest

from tests import operations
from tests.servers import FIXTURES, Hub, until
from tests.wire.issuing import ForeignIssuer, foreign_issuer, make_group, make_issuer, remove_issuer, unlink
from tests.wire.signing_in import Person, disable_person, everything_stored, make_toolset
from tests.wire.speech import Speaker
from tests.wire.test_signing_in import a_name, challenge_of


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
    with Hub(tmp_path_factory.mktemp("hub"), environment=environment, packs=["starter", FIXTURES]) as running:
        running.operate(make_toolset, "pair")
        yield running


@pytest.fixture
def issuer(hub: Hub) -> Iterator[ForeignIssuer]:
    with foreign_issuer() as made:
        yield made


@pytest.fixture
def row(hub: Hub, issuer: ForeignIssuer) -> Iterator[str]:
    """The name of the issuer's row."""
    name = a_name("issuer")
    hub.operate(make_issuer, name, issuer.url)
    hub.settle()
    yield name
    hub.operate(operations.delete, "signin.Issuer", name=name)


@pytest.fixture
def anna(hub: Hub) -> Iterator[Person]:
    with Person(hub, a_name()) as person:
        hub.settle()
        yield person


def status(hub: Hub, token: str, path: str = "/mcp") -> int:
    with Speaker(hub.url, token) as speaker:
        return speaker.post(speaker.modern_body("tools/list"), path, **speaker.modern_headers("tools/list")).status_code


def test_a_token_of_a_trusted_issuer_comes_to_an_audited_call(
    hub: Hub, issuer: ForeignIssuer, row: str, anna: Person
) -> None:
    with Speaker(hub.url, issuer.token(f"{hub.url}/mcp", anna.name)) as speaker:
        until(lambda: speaker.modern("tools/list").status_code == 200)
        assert speaker.modern_call("echo", {"text": "from elsewhere"}).status_code == 200
        call = hub.row(client=speaker.name)
    assert call["principal"] == anna.principal
    assert call["caller_label"] == f"{anna.name} via their-client ({row})"
    assert issuer.asked["/realms/work/keys"] == 1
    [linked] = hub.operate(
        operations.values, "sessions_app.AuditEvent", "after", kind="identity.linked", actor=anna.principal
    )
    assert linked["subject"] == f"subject of {anna.name}"


WRONG: dict[str, dict[str, Any]] = {
    "expired": {"exp": timedelta(seconds=-10)},
    "without an end": {"exp": None},
    "an end that is no number": {"exp": "tomorrow"},
    "issued in the future": {"iat": timedelta(seconds=5000)},
    "good only later": {"nbf": timedelta(seconds=5000)},
    "another audience": {"aud": "https://elsewhere.example/mcp"},
    "another endpoint": {"aud": "{hub}/sse"},
    "no audience": {"aud": None},
    "an audience of numbers": {"aud": [1, None, {}]},
    "another issuer": {"iss": "https://elsewhere.example"},
    "no issuer": {"iss": None},
    "no subject": {"sub": None},
    "a subject that is no text": {"sub": 7},
    "an endless subject": {"sub": "x" * 300},
    "somebody who is not here": {"sub": "nobody", "preferred_username": "nobody-at-all"},
    "nobody's name": {"sub": "nobody", "preferred_username": None},
}


def test_what_a_token_must_not_be(hub: Hub, issuer: ForeignIssuer, row: str, anna: Person) -> None:
    for name, wrong in WRONG.items():
        assert status(hub, issuer.token(f"{hub.url}/mcp", anna.name)) == 200, name
        said: dict[str, Any] = {**wrong, **({"aud": f"{hub.url}/sse"} if wrong.get("aud") == "{hub}/sse" else {})}
        with Speaker(hub.url, issuer.token(f"{hub.url}/mcp", anna.name, **said)) as speaker:
            answer = speaker.modern("tools/list")
        assert answer.status_code == 401, (name, answer.text)
        assert challenge_of(answer)["error"] == "invalid_token", name


def test_a_token_whose_issuer_has_another_closing_slash_is_refused_with_that_reason(
    hub: Hub, issuer: ForeignIssuer, row: str, anna: Person
) -> None:
    with Speaker(hub.url, issuer.token(f"{hub.url}/mcp", anna.name, iss=f"{issuer.url}/")) as speaker:
        answer = speaker.modern("tools/list")
    assert answer.status_code == 401
    assert "differs by the slash at its end" in answer.text


def resigned(token: str, header: dict[str, Any], key: Any = None, algorithm: str = "none") -> str:
    """Return a token with another header, signed with another key, by HMAC, or not at all."""
    payload = json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))
    if algorithm.startswith("RS"):
        return jwt.encode(payload, key, algorithm, headers=header)
    parts = [encoded(json.dumps(each).encode()) for each in ({**header, "alg": algorithm}, payload)]
    digest = hmac.digest(key, ".".join(parts).encode(), "sha256") if algorithm == "HS256" else b""
    return ".".join([*parts, encoded(digest)])


def encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def test_how_a_token_must_not_be_signed(hub: Hub, issuer: ForeignIssuer, row: str, anna: Person) -> None:
    good = issuer.token(f"{hub.url}/mcp", anna.name)
    until(lambda: status(hub, good) == 200)
    [published] = issuer.published()
    secret = json.dumps(published).encode()  # a key that everybody knows, taken for a secret
    other = ForeignIssuer()
    other.close()
    head, body, signature = good.split(".")
    cut = f"{head}.{body}.{signature[:-6]}AAAAAA"
    bad = {
        "unsigned": resigned(good, {"typ": "at+jwt", "kid": "first"}),
        "HMAC with the public key": resigned(good, {"kid": "first"}, secret, "HS256"),
        "another's key under the same id": resigned(good, {"kid": "first"}, other.keys["first"], "RS256"),
        "an algorithm that the row does not name": resigned(good, {"kid": "first"}, issuer.keys["first"], "RS512"),
        "a broken signature": cut,
        "no signature": f"{head}.{body}.",
        "an ID-JAG": issuer.token(f"{hub.url}/mcp", anna.name, headers={"typ": "oauth-id-jag+jwt"}),
        "an ID token's logout": issuer.token(f"{hub.url}/mcp", anna.name, headers={"typ": "logout+jwt"}),
        "critical extensions": issuer.token(f"{hub.url}/mcp", anna.name, headers={"crit": ["exp"], "exp": 1}),
        "a key id that is no text": issuer.token(f"{hub.url}/mcp", anna.name, headers={"kid": "x" * 5000}),
        "huge": issuer.token(f"{hub.url}/mcp", anna.name, padding="x" * 20_000),
        "deep": f"{head}.{urlsafe_b64encode(b'[' * 5000).decode()}.{signature}",
        "not base64": f"{head}.%%%.{signature}",
    }
    for name, token in bad.items():
        assert status(hub, token) == 401, name
    assert status(hub, good) == 200


def test_a_new_key_is_found_and_made_up_ones_make_nobody_ask_again(
    hub: Hub, issuer: ForeignIssuer, row: str, anna: Person
) -> None:
    assert status(hub, issuer.token(f"{hub.url}/mcp", anna.name)) == 200
    asked = issuer.asked["/realms/work/keys"]
    for number in range(30):
        assert status(hub, issuer.token(f"{hub.url}/mcp", anna.name, headers={"kid": f"made up {number}"})) == 401
    assert issuer.asked["/realms/work/keys"] <= asked + 1


def test_a_token_opens_the_endpoints_it_is_for_and_no_other(hub: Hub, issuer: ForeignIssuer, anna: Person) -> None:
    name = a_name("issuer")
    hub.operate(make_issuer, name, issuer.url, audiences={"api://hub": "/mcp/s/pair"}, scopes_always=["tools:list"])
    token = issuer.token(f"{hub.url}/mcp", anna.name, aud=["api://hub", "other"], scope=None)
    until(lambda: status(hub, token, "/mcp/s/pair") == 200)
    assert status(hub, token) == 401
    with Speaker(hub.url, token) as speaker:
        assert speaker.http.get("/api/invocations/", headers=speaker.headers()).status_code == 401
    hub.operate(remove_issuer, name)
    until(lambda: status(hub, token, "/mcp/s/pair") == 401)


def test_claims_become_scopes_and_groups(hub: Hub, issuer: ForeignIssuer, anna: Person) -> None:
    name = a_name("issuer")
    hub.operate(make_group, "echoers")
    hub.operate(
        make_issuer,
        name,
        issuer.url,
        scope_claim="scp",
        scopes={"hub.use": ["tools:call"], "hub.look": ["tools:list"]},
        groups_claim="roles",
        groups={"speakers": "echoers"},
    )
    hub.operate(operations.show_to_group_only, "tools_catalog.McpToolDefinition", {"name": "echo"}, "echoers")
    try:
        looks = issuer.token(f"{hub.url}/mcp", anna.name, scp=["hub.look"], roles=["others"])
        uses = issuer.token(f"{hub.url}/mcp", anna.name, scp=["hub.use"], roles=["speakers"])
        until(lambda: status(hub, looks) == 200)
        with Speaker(hub.url, looks) as speaker:
            refused = speaker.modern_call("add", {"a": 1, "b": 2})
            assert (refused.status_code, challenge_of(refused)["error"]) == (403, "insufficient_scope")

            def sees(key: str) -> bool:
                speaker.key = key
                listed = speaker.modern("tools/list").json()["result"]["tools"]
                return "echo" in [tool["name"] for tool in listed]

            until(lambda: not sees(looks))
            assert sees(uses)
            assert speaker.modern_call("echo", {"text": "by role"}).status_code == 200
    finally:
        hub.operate(operations.show_to_all, "tools_catalog.McpToolDefinition", {"name": "echo"})
        hub.operate(operations.delete, "signin.Issuer", name=name)


def switch_off(hub: Hub, row: str, person: str) -> None:
    hub.operate(operations.change, "signin.Issuer", {"name": row}, enabled=False)


def disable(hub: Hub, row: str, person: str) -> None:
    hub.operate(disable_person, person)


def unlinks(hub: Hub, row: str, person: str) -> None:
    hub.operate(unlink, person)


@pytest.mark.parametrize("end", [switch_off, disable, unlinks])
def test_all_that_is_open_ends_with_the_row_the_person_or_the_link(
    hub: Hub, issuer: ForeignIssuer, row: str, anna: Person, end: Any
) -> None:
    with Speaker(hub.url, issuer.token(f"{hub.url}/mcp", anna.name)) as speaker:
        until(lambda: speaker.modern("tools/list").status_code == 200)
        session = speaker.open_session()
        with speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, listening):
            end(hub, row, anna.name)
            assert list(listening) == []
        if end is not unlinks:  # who comes again with a good token is linked anew
            until(lambda: speaker.modern("tools/list").status_code == 401)


def test_a_subject_keeps_its_person_though_the_name_moves(
    hub: Hub, issuer: ForeignIssuer, row: str, anna: Person
) -> None:
    until(lambda: status(hub, issuer.token(f"{hub.url}/mcp", anna.name)) == 200)
    with Speaker(hub.url, issuer.token(f"{hub.url}/mcp", anna.name, preferred_username="another name")) as speaker:
        assert speaker.modern_call("echo", {"text": "still me"}).status_code == 200
        assert hub.row(client=speaker.name)["principal"] == anna.principal
    thief = issuer.token(f"{hub.url}/mcp", anna.name, sub="another subject")
    assert status(hub, thief) == 401


def test_who_logs_in_by_the_issuer_is_known_by_the_subject(
    hub: Hub, issuer: ForeignIssuer, row: str, anna: Person
) -> None:
    known = {"user_id": anna.id, "issuer": issuer.url, "subject": "of the login", "issuer_name": "Work"}
    hub.operate(operations.create, "login.LinkedIdentity", **known)
    token = issuer.token(f"{hub.url}/mcp", "another name", sub="of the login")
    with Speaker(hub.url, token) as speaker:
        until(lambda: speaker.modern("tools/list").status_code == 200)
        assert speaker.modern_call("echo", {"text": "the same"}).status_code == 200
        assert hub.row(client=speaker.name)["principal"] == anna.principal


@pytest.mark.parametrize("right", ["is_staff", "is_superuser"])
def test_a_name_alone_leads_to_nobody_who_may_see_the_console(
    hub: Hub, issuer: ForeignIssuer, row: str, anna: Person, right: str
) -> None:
    hub.operate(operations.update, "auth.User", {"pk": anna.id}, **{right: True})
    hub.settle()
    assert status(hub, issuer.token(f"{hub.url}/mcp", anna.name)) == 401
    hub.operate(operations.update, "auth.User", {"pk": anna.id}, **{right: False})
    hub.settle()
    assert status(hub, issuer.token(f"{hub.url}/mcp", anna.name)) == 200


def test_people_are_made_where_the_row_says_so(hub: Hub, issuer: ForeignIssuer) -> None:
    name, person = a_name("issuer"), a_name("new")
    hub.operate(make_issuer, name, issuer.url, makes_people=True)
    until(lambda: status(hub, issuer.token(f"{hub.url}/mcp", person)) == 200)
    assert hub.operate(operations.values, "auth.User", "is_staff", username=person) == [False]
    assert status(hub, issuer.token(f"{hub.url}/mcp", "a name\n")) == 401
    hub.operate(operations.delete, "signin.Issuer", name=name)


def test_an_issuer_that_is_down_makes_nobody_an_outsider(hub: Hub, issuer: ForeignIssuer, anna: Person) -> None:
    issuer.is_down = True
    name = a_name("issuer")
    hub.operate(make_issuer, name, issuer.url)
    until(lambda: status(hub, issuer.token(f"{hub.url}/mcp", anna.name)) == 503)
    hub.operate(operations.delete, "signin.Issuer", name=name)


def test_an_opaque_token_is_judged_by_asking(hub: Hub, issuer: ForeignIssuer, anna: Person) -> None:
    name = a_name("issuer")
    hub.operate(make_issuer, name, issuer.url, "the hub's secret", method="asked", client_id="mcp-hub")
    issuer.opaque = {
        "good": {"active": True, **issuer.claims(f"{hub.url}/mcp", anna.name)},
        "brief": {"active": True, **issuer.claims(f"{hub.url}/mcp", anna.name, iss=None, exp=None)},
        "elsewhere": {"active": True, **issuer.claims(f"{hub.url}/mcp", anna.name, aud="https://elsewhere.example")},
        "strange": {"active": "yes", **issuer.claims(f"{hub.url}/mcp", anna.name)},
    }
    try:
        hub.settle()
        assert status(hub, "good") == status(hub, "brief") == 200
        for token in ("elsewhere", "strange", "unknown"):
            assert status(hub, token) == 401, token
        asked = issuer.asked["/realms/work/introspect"]
        assert {status(hub, "good") for _ in range(5)} == {200}
        assert {status(hub, token) for token in ("unknown", "mcph_00000000_of-the-hub", "YOUR-KEY")} == {401}
        assert issuer.asked["/realms/work/introspect"] == asked
        assert set(issuer.secrets) == {"Basic bWNwLWh1Yjp0aGUraHViJTI3cytzZWNyZXQ="}
        kept = "\n".join(hub.operate(everything_stored)) + hub.log()
        assert "the hub's secret" not in kept
        answers = {status(hub, f"guess {number}") for number in range(60)}
        assert answers <= {401, 503}
    finally:
        hub.operate(operations.delete, "signin.Issuer", name=name)


def test_documents_name_issuers_that_the_operator_announces(hub: Hub, issuer: ForeignIssuer) -> None:
    name = a_name("issuer")
    hub.operate(make_issuer, name, issuer.url, announced=True)
    with Speaker(hub.url, None) as stranger:
        document = stranger.http.get("/.well-known/oauth-protected-resource/mcp").json()
        assert document["authorization_servers"] == [hub.url, issuer.url]
        hub.operate(operations.change, "signin.Issuer", {"name": name}, announced=False)
        document = stranger.http.get("/.well-known/oauth-protected-resource/mcp").json()
        assert document["authorization_servers"] == [hub.url]
    hub.operate(operations.delete, "signin.Issuer", name=name)


def test_no_text_of_a_token_is_kept(hub: Hub, issuer: ForeignIssuer, row: str, anna: Person) -> None:
    good, bad = issuer.token(f"{hub.url}/mcp", anna.name), issuer.token(f"{hub.url}/mcp", anna.name, aud="elsewhere")
    until(lambda: status(hub, good) == 200)
    assert status(hub, bad) == 401
    with Speaker(hub.url, None) as stranger:
        stranger.http.get("/mcp/s/none", headers={"authorization": f"Bearer {bad}"})
    kept = "\n".join(hub.operate(everything_stored)) + hub.log()
    assert not [token for token in (good, bad) if token in kept or token.rpartition(".")[0] in kept]
