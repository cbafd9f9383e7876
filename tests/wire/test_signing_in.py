"""A client needs nothing but the address, a person nothing but their login: the whole way, and every way astray."""

from __future__ import annotations

import html
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.signing_in import (
    Client,
    Person,
    age_refreshes,
    disable_person,
    everything_stored,
    expire_tokens,
    join,
    leave,
    make_toolset,
    make_workspace,
    refresh_often,
    take_back,
    told_to,
)
from tests.wire.speech import Speaker


def a_name(of: str = "anna") -> str:
    return f"{of}-{uuid.uuid4().hex[:8]}"


def challenge_of(answer: httpx2.Response) -> dict[str, str]:
    scheme, _, words = answer.headers["www-authenticate"].partition(" ")
    assert scheme == "Bearer"
    return dict(re.findall(r'(\w+)="([^"]*)"', words))


def status_at(speaker: Speaker, method: str, path: str) -> int:
    """Ask and give the status, though the answer may be a stream without an end."""
    with speaker.http.stream(method, path, headers=speaker.headers()) as answer:
        return answer.status_code


@pytest.fixture
def anna(hub: Hub) -> Iterator[Person]:
    with Person(hub, a_name()) as person:
        yield person


@pytest.fixture(scope="module")
def client_id(hub: Hub) -> str:
    """Registered once: so many a minute may be."""
    with Client(hub) as made:
        return made.id


@pytest.fixture
def client(hub: Hub, client_id: str) -> Iterator[Client]:
    with Client(hub, id=client_id) as made:
        yield made


def test_a_client_with_nothing_but_the_address_comes_to_an_audited_call(hub: Hub, anna: Person) -> None:
    with Speaker(hub.url, None) as stranger:
        refused = stranger.modern("tools/list")
        assert refused.status_code == 401
        challenge = refused.headers["www-authenticate"]
        assert challenge == (
            f'Bearer resource_metadata="{hub.url}/.well-known/oauth-protected-resource/mcp", '
            'scope="tools:list tools:call"'
        )
        of_endpoint = stranger.http.get("/.well-known/oauth-protected-resource/mcp").json()
        assert of_endpoint["resource"] == f"{hub.url}/mcp"
        [issuer] = of_endpoint["authorization_servers"]
        of_server = stranger.http.get("/.well-known/oauth-authorization-server").json()
        assert of_server["issuer"] == issuer == hub.url
    with Client(hub, "Claude") as client:
        told = told_to(anna.answers(client.address()))
        assert told["iss"] == hub.url
        assert told["state"] == "a state"
        tokens = client.redeem(told["code"]).json()
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] <= 3600
    with Speaker(hub.url, tokens["access_token"]) as speaker:
        assert speaker.modern("tools/list").status_code == 200
        answer = speaker.modern_call("echo", {"text": "signed in"})
        assert answer.status_code == 200, answer.text
        row = hub.row(client=speaker.name)
    assert row["principal"] == anna.principal
    assert "Claude" in row["caller_label"]
    assert anna.name in row["caller_label"]


# The endpoints, and what they tell a stranger --------------------------------------------------------

URN = "urn:ietf:params:oauth:grant-type:"
ENDPOINTS = ["/mcp", "/sse", "/mcp/events", "/v1", "/mcp/s/pair", "/mcp/s/pair/sse"]
ADDRESSES = [
    ("POST", "/mcp", "/mcp"),
    ("GET", "/mcp", "/mcp"),
    ("DELETE", "/mcp/", "/mcp"),
    ("GET", "/sse", "/sse"),
    ("POST", "/messages", "/sse"),
    ("GET", "/mcp/events", "/mcp/events"),
    ("POST", "/mcp/messages", "/mcp/events"),
    ("POST", "/mcp/s/pair", "/mcp/s/pair"),
    ("GET", "/mcp/s/pair/sse", "/mcp/s/pair/sse"),
    ("POST", "/mcp/s/pair/messages", "/mcp/s/pair/sse"),
    ("GET", "/v1/models", "/v1"),
    ("POST", "/v1/chat/completions", "/v1"),
    ("POST", "/v1/responses", "/v1"),
]


@pytest.mark.parametrize(("method", "path", "endpoint"), ADDRESSES)
def test_every_address_leads_a_stranger_to_the_document_of_its_endpoint(
    hub: Hub, method: str, path: str, endpoint: str
) -> None:
    with Speaker(hub.url, None) as stranger:
        refused = stranger.http.request(method, path)
        assert refused.status_code == 401
        told = challenge_of(refused)
        assert told["resource_metadata"] == f"{hub.url}/.well-known/oauth-protected-resource{endpoint}"
        assert "error" not in told
        document = stranger.http.get(told["resource_metadata"])
        assert document.headers["access-control-allow-origin"] == "*"
        assert document.json()["resource"] == f"{hub.url}{endpoint}"
        assert document.json()["authorization_servers"] == [hub.url]
        assert document.json()["scopes_supported"] == told["scope"].split()
        known = stranger.http.request(method, path, headers={"authorization": "Bearer nothing"})
        assert known.status_code == 401
        assert challenge_of(known)["error"] == "invalid_token"


def test_the_document_of_the_whole_hub_names_it(hub: Hub) -> None:
    with Speaker(hub.url, None) as stranger:
        document = stranger.http.get("/.well-known/oauth-protected-resource").json()
        assert document["resource"] == hub.url
        missing = stranger.http.get("/.well-known/oauth-protected-resource/nowhere")
        assert (missing.status_code, missing.json()["error"]) == (404, "not_found")


def test_documents_speak_of_the_name_of_this_machine_that_the_client_uses(hub: Hub) -> None:
    other = hub.url.replace("127.0.0.1", "localhost")
    with Speaker(other, None) as stranger:
        told = challenge_of(stranger.http.post("/mcp"))
        assert told["resource_metadata"].startswith(other)
        document = stranger.http.get(told["resource_metadata"]).json()
    assert document["resource"] == f"{other}/mcp"
    assert document["authorization_servers"] == [hub.url]


def test_a_token_for_one_name_of_this_machine_opens_the_other(hub: Hub, anna: Person, client: Client) -> None:
    other = hub.url.replace("127.0.0.1", "localhost")
    told = told_to(anna.answers(client.address(resource=f"{other}/mcp/")))
    token = client.redeem(told["code"], resource=f"{other}/mcp").json()["access_token"]
    for url in (hub.url, other):
        with Speaker(url, token) as speaker:
            assert speaker.modern("tools/list").status_code == 200


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_token_of_one_endpoint_opens_no_other(hub: Hub, anna: Person, client: Client, endpoint: str) -> None:
    hub.operate(make_toolset, "pair")
    hub.settle()
    token = client.sign_in(anna, endpoint, scope=None)["access_token"]
    with Speaker(hub.url, token) as speaker:
        for method, path, own in ADDRESSES:
            answer = status_at(speaker, method, path)
            assert (answer == 401) == (own != endpoint), (method, path, answer)
        assert speaker.http.get("/api/invocations/", headers=speaker.headers()).status_code == 401


def test_a_person_signs_in_at_the_address_of_a_workspace_and_is_narrowed_to_it(hub: Hub, client: Client) -> None:
    hub.operate(make_workspace, "team", "team people")
    with Person(hub, a_name(), ("team people",)) as member, Person(hub, a_name()) as other:
        until(lambda: member.asked(client.address(resource=f"{hub.url}/w/team/mcp")).status_code == 200)
        tokens = client.sign_in(member, "/w/team/mcp", scope=None)
        refused = told_to(other.asked(client.address(resource=f"{hub.url}/w/team/mcp")))
        assert refused["error"] == "invalid_target"
    with Speaker(hub.url, tokens["access_token"]) as speaker:
        assert speaker.modern("tools/list").status_code == 401  # of another endpoint
        body = speaker.modern_body("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
        headers = speaker.modern_headers("tools/call", {"name": "echo"})
        assert speaker.post(body, "/w/team/mcp", **headers).status_code == 200
        assert hub.row(client=speaker.name)["workspace"] == "team"
    with Speaker(hub.url, None) as stranger:
        told = challenge_of(stranger.http.post("/w/team/mcp"))
        assert told["resource_metadata"] == f"{hub.url}/.well-known/oauth-protected-resource/w/team/mcp"
        assert stranger.http.get(told["resource_metadata"]).json()["resource"] == f"{hub.url}/w/team/mcp"


def test_a_token_in_the_address_opens_nothing(hub: Hub, anna: Person, client: Client) -> None:
    token = client.sign_in(anna)["access_token"]
    with Speaker(hub.url, None) as speaker:
        answer = speaker.post(speaker.modern_body("tools/list"), path=f"/mcp?access_token={token}")
    assert answer.status_code == 401


def test_a_token_that_may_only_list_is_told_which_scopes_a_call_needs(hub: Hub, anna: Person, client: Client) -> None:
    tokens = client.sign_in(anna, scope="tools:list")
    assert tokens["scope"] == "tools:list"
    with Speaker(hub.url, tokens["access_token"]) as speaker:
        assert speaker.modern("tools/list").status_code == 200
        stateless = speaker.modern_call("echo", {"text": "no"})
        in_session = speaker.call(speaker.open_session(), "echo", {"text": "no"})
    for refused in (stateless, in_session):
        assert refused.status_code == 403, refused.text
        told = challenge_of(refused)
        assert told["error"] == "insufficient_scope"
        assert told["scope"] == "tools:list tools:call"
        assert told["resource_metadata"].endswith("/.well-known/oauth-protected-resource/mcp")


def test_who_may_call_tools_may_list_them(hub: Hub, anna: Person, client: Client) -> None:
    with Speaker(hub.url, client.sign_in(anna, scope="tools:call")["access_token"]) as speaker:
        assert speaker.modern("tools/list").status_code == 200


def test_a_key_opens_every_endpoint_as_before(hub: Hub, keys: dict[str, str]) -> None:
    with Speaker(hub.url, keys["lister"]) as speaker:
        assert speaker.modern("tools/list").status_code == 200
        refused = speaker.modern_call("echo", {"text": "no"})
    assert refused.status_code == 403
    assert "www-authenticate" not in refused.headers


def test_what_the_server_says_of_itself_is_what_it_does(hub: Hub) -> None:
    with Speaker(hub.url, None) as stranger:
        document = stranger.http.get("/.well-known/oauth-authorization-server").json()
        assert document["code_challenge_methods_supported"] == ["S256"]
        assert "none" in document["token_endpoint_auth_methods_supported"]
        assert document["client_id_metadata_document_supported"] is True
        assert document["authorization_response_iss_parameter_supported"] is True
        for name in ("token_endpoint", "revocation_endpoint", "registration_endpoint"):
            assert stranger.http.get(document[name]).status_code == 405
            preflight = stranger.http.options(document[name], headers={"origin": "https://client.example"})
            assert preflight.headers["access-control-allow-origin"] == "*"
        assert stranger.http.get(document["authorization_endpoint"]).status_code == 302


# Asking -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"resource": "https://elsewhere.example/mcp"}, "invalid_target"),
        ({"resource": None}, "invalid_target"),
        ({"resource": "{hub}/admin/"}, "invalid_target"),
        ({"resource": "{hub}/mcp#part"}, "invalid_target"),
        ({"resource": "{hub}/mcp?x=1"}, "invalid_target"),
        ({"resource": "{hub}/mcp/s/nowhere"}, "invalid_target"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": "audit:read"}, "invalid_scope"),
    ],
)
def test_a_client_is_told_what_is_wrong_with_what_it_asks(
    hub: Hub, anna: Person, client: Client, wrong: dict[str, str | None], error: str
) -> None:
    asked = {name: value and value.replace("{hub}", hub.url) for name, value in wrong.items()}
    told = told_to(anna.asked(client.address(**asked)))
    assert told["error"] == error
    assert told["error_description"]
    assert (told["state"], told["iss"]) == ("a state", hub.url)


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_id": "nobody"},
        {"client_id": None},
        {"client_id": "a\x00b"},
        {"redirect_uri": "http://127.0.0.1:41999/other"},
        {"redirect_uri": "http://localhost:41999/callback"},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "http://127.0.0.1:41999/callback#x"},
        {"redirect_uri": "http://127.0.0.1:41999/callback?to=https://evil.example"},
        {"redirect_uri": "javascript:alert(1)"},
    ],
)
@pytest.mark.parametrize("prompt", [None, "none"])
def test_nobody_is_sent_where_no_client_said_that_it_waits(
    hub: Hub, anna: Person, client: Client, wrong: dict[str, str | None], prompt: str | None
) -> None:
    answer = anna.asked(client.address(**wrong, prompt=prompt))
    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert "This client can't sign you in" in html.unescape(answer.text)
    with Speaker(hub.url, None) as stranger:
        elsewhere = stranger.http.get(client.address(**wrong, prompt=prompt))
    assert elsewhere.status_code == 400 or elsewhere.headers["location"].startswith("/oauth/login/")


def test_a_program_of_this_machine_may_wait_at_any_port(hub: Hub, anna: Person, client: Client) -> None:
    client.redirect_uri = "http://127.0.0.1:5/callback"
    assert client.sign_in(anna)["access_token"]


def test_a_stranger_logs_in_first(hub: Hub, client: Client) -> None:
    with Speaker(hub.url, None) as stranger:
        answer = stranger.http.get(client.address())
        assert answer.status_code == 302
        assert answer.headers["location"].startswith("/oauth/login/?next=/oauth/authorize/")
        assert stranger.http.get(answer.headers["location"]).status_code == 200


def test_a_link_alone_lets_nobody_in(hub: Hub, anna: Person, client: Client) -> None:
    address = client.address()
    page = anna.asked(address)
    assert page.status_code == 200
    assert "location" not in page.headers
    assert page.headers["x-frame-options"] == "DENY"
    without = anna.http.post(address, data={"allow": "1"})
    assert without.status_code == 403
    assert hub.operate(operations.count, "oauth2_provider.Grant", user=anna.id) == 0
    assert hub.operate(operations.count, "signin.Consent", user=anna.id) == 0


def test_a_person_may_say_no(hub: Hub, anna: Person, client: Client) -> None:
    told = told_to(anna.answers(client.address(), "deny"))
    assert told.pop("error_description")
    assert told == {"error": "access_denied", "state": "a state", "iss": hub.url}
    assert hub.operate(operations.count, "signin.Consent", user=anna.id) == 0


def test_the_page_says_who_asks_for_what(hub: Hub, anna: Person) -> None:
    with Client(hub, "Cl\u202eaude <b>") as client:
        page = anna.asked(client.address())
    assert "Cl\\u202eaude &lt;b&gt;" in page.text
    for words in ("127.0.0.1", f"{hub.url}/mcp", "echo", "on your own machine", anna.name, "nobody has verified it"):
        assert words in page.text
    assert "form-action &#x27;self&#x27;" not in page.text
    assert "form-action 'self' http://127.0.0.1:41999" in page.headers["content-security-policy"]
    assert page.headers["cache-control"].count("no-store")


def test_the_page_speaks_russian_to_who_reads_it(hub: Hub, anna: Person, client: Client) -> None:
    page = anna.http.get(client.address(), headers={"accept-language": "ru"})
    assert '<html lang="ru">' in page.text


WAITING = "https://client.example/callback"


def test_what_was_allowed_is_not_asked_again(hub: Hub, anna: Person) -> None:
    with Client(hub, redirect_uri=WAITING) as client:
        less = {"scope": "tools:list"}
        assert "code" in told_to(anna.answers(client.address(**less)))
        assert "code" in told_to(anna.asked(client.address(**less)))
        assert anna.asked(client.address()).status_code == 200  # more is asked
        assert anna.asked(client.address(**less, prompt="consent")).status_code == 200
        assert anna.asked(client.address("/sse", **less)).status_code == 200
        told_to(anna.answers(client.address()))
        assert "code" in told_to(anna.asked(client.address()))
        with Person(hub, a_name("boris")) as boris:
            assert boris.asked(client.address(**less)).status_code == 200


def test_a_program_of_this_machine_is_asked_about_each_time(hub: Hub, anna: Person, client: Client) -> None:
    client.sign_in(anna)
    page = anna.asked(client.address())
    assert page.status_code == 200
    assert "You authorized this client before, with the same access." in page.text


# Tokens --------------------------------------------------------------------------------------------------


def code_of(anna: Person, client: Client) -> str:
    return told_to(anna.answers(client.address()))["code"]


def refused(answer: Any, error: str = "invalid_grant", status: int = 400) -> None:
    assert answer.headers["content-type"].startswith("application/json"), answer.text
    assert (answer.status_code, answer.json()["error"]) == (status, error), answer.text
    assert answer.json()["error_description"]
    assert answer.headers["cache-control"] == "no-store"


def test_a_code_is_redeemed_once(hub: Hub, anna: Person, client: Client) -> None:
    code = code_of(anna, client)
    tokens = client.redeem(code).json()
    with Client(hub) as other:
        refused(other.redeem(code))
    with Speaker(hub.url, tokens["access_token"]) as speaker:
        assert speaker.modern("tools/list").status_code == 200
        refused(client.redeem(code))
        until(lambda: speaker.modern("tools/list").status_code == 401)
    refused(client.refresh(tokens["refresh_token"]))


def test_a_code_that_comes_again_ends_what_was_refreshed_since(hub: Hub, anna: Person, client: Client) -> None:
    code = code_of(anna, client)
    tokens = client.refresh(client.redeem(code).json()["refresh_token"]).json()
    others = client.redeem(code_of(anna, client)).json()
    refused(client.redeem(code))
    refused(client.refresh(tokens["refresh_token"]))
    assert client.refresh(others["refresh_token"]).status_code == 200


def test_a_code_is_good_for_who_asked_for_it_alone(hub: Hub, anna: Person, client: Client) -> None:
    code = code_of(anna, client)
    refused(client.redeem(code, code_verifier="x" * 43))
    refused(client.redeem(code, code_verifier=None), "invalid_request")
    refused(client.redeem(code, redirect_uri="http://127.0.0.1:1/callback"), "invalid_request")
    refused(client.redeem(code, resource=f"{hub.url}/sse"), "invalid_target")
    refused(client.redeem(code, resource="https://elsewhere.example/mcp"), "invalid_target")
    with Client(hub) as other:
        other.verifier = client.verifier
        refused(other.redeem(code))
    refused(client.redeem(code, client_id="nobody"), "invalid_client", 401)
    assert client.redeem(code).status_code == 200


def test_a_code_ends(hub: Hub, anna: Person, client: Client) -> None:
    code = code_of(anna, client)
    hub.operate(operations.update, "oauth2_provider.Grant", {"user": anna.id}, expires="2020-01-01T00:00:00Z")
    refused(client.redeem(code))


@pytest.mark.parametrize("grant", ["password", "urn:ietf:params:oauth:grant-type:token-exchange", "x", None])
def test_other_grants_are_not_given(client: Client, grant: str | None) -> None:
    refused(client.token(grant_type=grant, client_id=client.id, username="x", password="y"), "unsupported_grant_type")


def test_a_refresh_gives_new_tokens_and_ends_the_old_ones(hub: Hub, anna: Person, client: Client) -> None:
    first = client.sign_in(anna)
    with Speaker(hub.url, first["access_token"]) as speaker:
        assert speaker.modern("tools/list").status_code == 200
        second = client.refresh(first["refresh_token"])
        assert second.status_code == 200, second.text
        until(lambda: speaker.modern("tools/list").status_code == 401)
        speaker.key = second.json()["access_token"]
        assert speaker.modern("tools/list").status_code == 200
    assert second.json()["scope"] == "tools:list tools:call"
    third = client.refresh(second.json()["refresh_token"], scope="tools:list offline_access", resource=f"{hub.url}/mcp")
    assert third.json()["scope"] == "tools:list"


@pytest.mark.parametrize("wrong", ["mcpr_x.y", "", "\x00"])
def test_a_wrong_refresh_token_is_an_invalid_grant(client: Client, wrong: str) -> None:
    refused(client.refresh(wrong), "invalid_grant" if wrong.isprintable() else "invalid_request")


def test_a_refresh_token_is_bound_to_its_client_and_endpoint(hub: Hub, anna: Person, client: Client) -> None:
    token = client.sign_in(anna)["refresh_token"]
    with Client(hub) as other:
        refused(other.refresh(token))
    refused(client.refresh(token, resource=f"{hub.url}/sse"), "invalid_target")
    refused(client.refresh(token, scope="chat"), "invalid_scope")
    assert client.refresh(token).status_code == 200


def test_two_refreshes_at_once_leave_one_sign_in(hub: Hub, anna: Person, client: Client) -> None:
    token = client.sign_in(anna)["refresh_token"]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: client.refresh(token), range(6)))
    [won] = [answer.json() for answer in answers if answer.status_code == 200]
    assert {answer.json()["error"] for answer in answers if answer.status_code != 200} == {"invalid_grant"}
    with Speaker(hub.url, won["access_token"]) as speaker:
        assert speaker.modern("tools/list").status_code == 200
    assert client.refresh(won["refresh_token"]).status_code == 200


def test_a_replayed_refresh_token_ends_all_that_came_of_it(hub: Hub, anna: Person, client: Client) -> None:
    first = client.sign_in(anna)
    apart = client.sign_in(anna)
    second = client.refresh(first["refresh_token"]).json()
    hub.operate(age_refreshes, anna.name, 60)
    refused(client.refresh(first["refresh_token"]))
    with Speaker(hub.url, second["access_token"]) as speaker:
        until(lambda: speaker.modern("tools/list").status_code == 401)
    refused(client.refresh(second["refresh_token"]))
    assert client.refresh(apart["refresh_token"]).status_code == 200
    assert kinds_of(hub, anna).count("token.replayed") == 1


def test_a_client_that_refreshes_without_end_waits(hub: Hub, anna: Person, client: Client) -> None:
    tokens = client.sign_in(anna)
    hub.operate(refresh_often, anna.name)
    refused(client.refresh(tokens["refresh_token"]), "temporarily_unavailable", 429)


def test_a_client_gives_its_tokens_back(hub: Hub, anna: Person, client: Client) -> None:
    tokens = client.sign_in(anna)
    with Speaker(hub.url, tokens["access_token"]) as speaker, Client(hub) as other:
        assert speaker.modern("tools/list").status_code == 200
        strange = {"token": tokens["refresh_token"], "client_id": other.id}
        assert client.http.post("/oauth/revoke/", data=strange).status_code == 200
        assert speaker.modern("tools/list").status_code == 200
        own = {"token": tokens["refresh_token"], "client_id": client.id}
        assert client.http.post("/oauth/revoke/", data=own).status_code == 200
        until(lambda: speaker.modern("tools/list").status_code == 401)
    refused(client.refresh(tokens["refresh_token"]))
    assert "token.revoked" in kinds_of(hub, anna)


def test_a_token_that_is_over_opens_nothing(hub: Hub, anna: Person, client: Client) -> None:
    tokens = client.sign_in(anna)
    with Speaker(hub.url, tokens["access_token"]) as speaker:
        assert speaker.modern("tools/list").status_code == 200
        assert hub.operate(expire_tokens, anna.name) == 1
        until(lambda: speaker.modern("tools/list").status_code == 401)
        over = speaker.modern("tools/list")
    assert "expired" in over.json()["error"]["message"]
    assert client.refresh(tokens["refresh_token"]).status_code == 200


# What ends ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [take_back, disable_person], ids=["consent", "person"])
def test_all_that_is_open_ends_with_the_consent_or_the_person(hub: Hub, anna: Person, client: Client, end: Any) -> None:
    tokens = client.sign_in(anna)
    code = code_of(anna, client)
    with Speaker(hub.url, tokens["access_token"]) as speaker:
        session = speaker.open_session()
        with speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, listening):
            hub.operate(end, anna.name)
            assert list(listening) == []
        until(lambda: speaker.modern("tools/list").status_code == 401)
    mine = {"principal": anna.principal}
    until(lambda: set(hub.operate(operations.values, "sessions_app.McpSession", "state", **mine)) == {"closed"})
    refused(client.refresh(tokens["refresh_token"]))
    refused(client.redeem(code))


def test_a_person_who_is_disabled_lets_nobody_in(hub: Hub, anna: Person, client: Client) -> None:
    hub.operate(disable_person, anna.name)
    answer = anna.asked(client.address())
    assert answer.status_code == 302
    assert answer.headers["location"].startswith("/oauth/login/")


def test_tools_follow_the_groups_of_the_person(hub: Hub, anna: Person, client: Client) -> None:
    hub.operate(operations.show_to_group_only, "tools_catalog.McpToolDefinition", {"name": "echo"}, "echoers")
    try:
        with Speaker(hub.url, client.sign_in(anna)["access_token"]) as speaker:

            def sees() -> bool:
                tools = speaker.modern("tools/list").json()["result"]["tools"]
                return "echo" in [tool["name"] for tool in tools]

            until(lambda: not sees())
            assert "<code>echo</code>" not in anna.asked(client.address()).text
            hub.operate(join, anna.name, "echoers")
            until(sees)
            assert "<code>echo</code>" in anna.asked(client.address()).text
            hub.operate(leave, anna.name, "echoers")
            until(lambda: not sees())
    finally:
        hub.operate(operations.show_to_all, "tools_catalog.McpToolDefinition", {"name": "echo"})
        hub.settle()


# What is kept -------------------------------------------------------------------------------------------


def test_no_text_of_a_token_is_kept_anywhere(hub: Hub, anna: Person, client: Client) -> None:
    first = client.sign_in(anna)
    code = code_of(anna, client)
    second = client.refresh(first["refresh_token"]).json()
    with Speaker(hub.url, second["access_token"]) as speaker:
        speaker.modern_call("echo", {"text": "signed in"})
        speaker.http.get("/mcp/s/none", headers=speaker.headers())
        hub.row(client=speaker.name)
    client.refresh(first["refresh_token"])
    client.redeem(code, code_verifier="x" * 43)
    secrets = [tokens[name] for tokens in (first, second) for name in ("access_token", "refresh_token")]
    kept = "\n".join(hub.operate(everything_stored)) + hub.log()
    assert not [secret for secret in secrets if secret in kept or secret.rpartition(".")[0] in kept]
    assert code not in hub.log()


def test_consents_and_tokens_are_on_record(hub: Hub, anna: Person, client: Client) -> None:
    tokens = client.sign_in(anna)
    client.refresh(tokens["refresh_token"])
    assert hub.operate(take_back, anna.name) == 1
    assert kinds_of(hub, anna) == ["consent.given", "token.issued", "token.refreshed"]
    [gone] = hub.operate(
        operations.values, "sessions_app.AuditEvent", "after", kind="consent.revoked", subject_label__contains=anna.name
    )
    assert gone["person"] == anna.principal
    assert gone["tokens"] == 1


def kinds_of(hub: Hub, person: Person) -> list[str]:
    kinds: list[str] = hub.operate(operations.values, "sessions_app.AuditEvent", "kind", actor=person.principal)
    return kinds


def test_a_hub_that_lets_nobody_sign_in_has_no_door_for_it(
    hub: Hub, tmp_path: Path, anna: Person, client: Client
) -> None:
    """Nor does a token of before open it."""
    token = client.sign_in(anna)["access_token"]
    environment = {
        "MCPHUB_SIGN_IN": "0",
        "MCPHUB_PUBLIC_URL": hub.url,
        "MCPHUB_DATABASE_URL": f"sqlite:///{hub.data}/hub.sqlite3",
        "MCPHUB_SECRET_KEY_FILE": f"{hub.data}/secret_key",
    }
    with Hub(tmp_path, environment=environment) as closed, Speaker(closed.url, token) as speaker:
        answer = speaker.modern("tools/list")
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer realm="mcphub"')
        documents = ["/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"]
        for path in ["/oauth/login/", "/oauth/authorize/", "/oauth/token/", "/oauth/register/", *documents]:
            assert speaker.http.get(path).status_code == 404
    hub.settle()  # what the other hub wrote at its start is no news on a stream of the next test


# Two workers ---------------------------------------------------------------------------------------------


def test_two_workers_know_a_new_token_at_once_and_forget_it_together(pair: Hub) -> None:
    with Person(pair, a_name()) as anna, Client(pair) as client:
        tokens = client.sign_in(anna)

        def seen() -> list[int]:
            statuses = []
            for _ in range(8):  # each a connection of its own, which either worker may take
                with Speaker(pair.url, tokens["access_token"]) as speaker:
                    statuses.append(speaker.modern("tools/list").status_code)
            return statuses

        assert set(seen()) == {200}
        assert pair.operate(take_back, anna.name) == 1
        until(lambda: set(seen()) == {401})


def test_two_workers_leave_one_sign_in_of_many_refreshes(pair: Hub) -> None:
    with Person(pair, a_name()) as anna, Client(pair) as client:
        token = client.sign_in(anna)["refresh_token"]
        clients = [Client(pair, id=client.id) for _ in range(6)]
        try:
            with ThreadPoolExecutor(6) as pool:
                answers = list(pool.map(lambda each: each.refresh(token), clients))
        finally:
            for each in clients:
                each.http.close()
        [won] = [answer.json() for answer in answers if answer.status_code == 200]
        assert {answer.json()["error"] for answer in answers if answer.status_code != 200} == {"invalid_grant"}
        assert client.refresh(won["refresh_token"]).status_code == 200


@pytest.mark.parametrize("end", [take_back, disable_person], ids=["consent", "person"])
def test_two_workers_end_what_is_open(pair: Hub, end: Any) -> None:
    with Person(pair, a_name()) as anna, Client(pair) as client:
        tokens = client.sign_in(anna)
        with Speaker(pair.url, tokens["access_token"]) as speaker:
            session = speaker.open_session()
            with speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, listening):
                pair.operate(end, anna.name)
                assert list(listening) == []
        assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
