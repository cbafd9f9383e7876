"""Accounts at an upstream that demands OAuth: a real server and issuer on Python's SDK, behind a real hub."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.servers import Hub, until
from tests.upstreams import accounts
from tests.upstreams.conftest import Peer
from tests.waiting import PATIENCE_SECONDS
from tests.wire.signing_in import Client, Person, everything_stored
from tests.wire.speech import LEGACY, META, Speaker, events


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with Peer("oauth.py") as running:
        yield running


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Two workers, so that pages, calls and renewals meet over the database."""
    folder = tmp_path_factory.mktemp("accounts")
    made = Hub(folder, flags=["--workers", "2"], environment={"MCPHUB_EGRESS_ALLOW": "127.0.0.1,localhost"})
    with accounts.hub_url(made) as running:
        yield running


@pytest.fixture(scope="module")
def operator(hub: Hub) -> Iterator[Person]:
    with Person(hub, "chief") as person:
        hub.operate(accounts.make_operator, "chief")
        yield person


@pytest.fixture(scope="module")
def people(hub: Hub) -> Iterator[dict[str, tuple[Person, str]]]:
    """Two persons without rights, each with a token of the hub's own."""
    made: dict[str, tuple[Person, str]] = {}
    with Client(hub) as client, Person(hub, "anna") as anna, Person(hub, "boris") as boris:
        for person in (anna, boris):
            made[person.name] = person, client.sign_in(person)["access_token"]
        yield made


@pytest.fixture(scope="module")
def shared(hub: Hub, peer: Peer, operator: Person) -> str:
    """A connection whose account an operator connected for all."""
    hub.operate(accounts.add, "one", peer.url, "shared", policy="hold_all")
    until(lambda: "not connected" in hub.operate(accounts.state, "one")["error"])
    page = accounts.connect(operator, "/connect/to/one/", "house")
    assert "is connected" in page.text
    until(lambda: hub.operate(accounts.approve_tools, "one"))
    until(lambda: "result" in call(hub, hub.key, "one_whoami"))
    hub.settle()  # the other worker serves them, too
    return "one"


@pytest.fixture(scope="module")
def own(hub: Hub, peer: Peer, operator: Person, people: Any) -> str:
    """A connection where each calls as himself; the operator's account lists the tools."""
    hub.operate(accounts.add, "own", peer.url, "personal")
    accounts.connect(operator, "/connect/to/own/?as=all", "lister")
    until(lambda: "result" in call(hub, hub.key, "own_whoami"))
    hub.settle()  # the other worker serves it, too
    return "own"


@pytest.fixture
def personal(hub: Hub, own: str, people: Any) -> str:
    """That connection, where Anna has the account of Alice and Boris that of Bob, whatever a test before ended."""
    known = hub.operate(accounts.state, own)["accounts"]
    for name, subject in (("anna", "alice"), ("boris", "bob")):
        person = people[name][0]
        if known.get(person.principal, {}).get("state") != "connected":
            accounts.connect(person, "/connect/to/own/", subject)
    return own


def call(hub: Hub, token: str, tool: str, **capabilities: Any) -> dict[str, Any]:
    """Call without a session; give the result or the error."""
    with Speaker(hub.url, token) as speaker:
        meta = {f"{META}clientCapabilities": capabilities} if capabilities else {}
        answer = speaker.modern_call(tool, **meta)
        if answer.headers["content-type"].startswith("text/event-stream"):  # the call took long
            return list(events(answer))[-1]
        told: dict[str, Any] = answer.json()
        return told


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


def test_a_connection_without_an_account_says_that_the_server_demands_one(hub: Hub, peer: Peer) -> None:
    hub.operate(accounts.add, "bare", peer.url, "none")
    until(lambda: "choose the account of the connection" in hub.operate(accounts.state, "bare")["error"])
    hub.operate(operations.change, "tools_catalog.McpConnection", {"slug": "bare"}, enabled=False)


def test_an_operator_connects_one_account_and_everybody_calls_with_it(hub: Hub, shared: str) -> None:
    assert text_of(call(hub, hub.key, "one_whoami")) == "house"
    assert hub.operate(accounts.state, shared)["accounts"][""]["state"] == "connected"
    assert "account.connected" in hub.operate(accounts.events_of, shared)


def test_a_token_that_ended_is_renewed_without_a_failed_call(hub: Hub, peer: Peer, shared: str) -> None:
    before = accounts.control(peer.url)["refreshes"]
    assert hub.operate(accounts.age_tokens, shared) == 1
    hub.settle()
    assert text_of(call(hub, hub.key, "one_whoami")) == "house"
    assert accounts.control(peer.url)["refreshes"] > before
    # One that the upstream refuses although the hub takes it for good is renewed as well, within the call.
    accounts.control(peer.url, expire=True)
    assert text_of(call(hub, hub.key, "one_whoami")) == "house"
    assert accounts.control(peer.url)["reused"] == 0


def test_many_calls_in_two_workers_renew_a_token_once(hub: Hub, peer: Peer, shared: str) -> None:
    before = accounts.control(peer.url)
    rounds = 10
    with ThreadPoolExecutor(8) as callers:
        for _ in range(rounds):
            hub.operate(accounts.age_tokens, shared)
            hub.settle()
            answers = list(callers.map(lambda _number: call(hub, hub.key, "one_whoami"), range(16)))
            assert {text_of(answer) for answer in answers} == {"house"}
    now = accounts.control(peer.url)
    assert now["reused"] == before["reused"] == 0
    assert now["refreshes"] - before["refreshes"] == rounds


@pytest.mark.parametrize("broken", ["html", "away", "slow"])
def test_an_issuer_that_is_broken_ends_no_account(broken: str, hub: Hub, peer: Peer, shared: str) -> None:
    accounts.control(peer.url, broken=broken, expire=True)
    answer = call(hub, hub.key, "one_whoami")
    assert answer["result"]["isError"], answer
    assert "cannot be renewed now" in text_of(answer)
    assert hub.operate(accounts.state, shared)["accounts"][""]["state"] == "connected"
    accounts.control(peer.url, broken="")
    until(lambda: text_of(call(hub, hub.key, "one_whoami")) == "house")


def test_a_token_that_the_server_gives_back_is_cut_out_and_stands_nowhere(hub: Hub, shared: str) -> None:
    answer = text_of(call(hub, hub.key, "one_leak"))
    assert answer.startswith("the token is ")
    assert len(answer) < 40, answer
    rows = [row for row in hub.operate(everything_stored) if "upstreamaccount" in row]
    assert rows
    assert not any("house" in row for row in rows)


def test_a_person_without_rights_connects_no_account_for_all(hub: Hub, shared: str, people: Any) -> None:
    anna, _token = people["anna"]
    assert anna.http.get("/connect/to/one/").status_code == 404
    assert anna.http.get("/connect/to/one/?as=all").status_code == 404


def test_each_person_calls_with_an_account_of_their_own(hub: Hub, own: str) -> None:
    with Client(hub) as client, Person(hub, "ella") as ella, Person(hub, "fred") as fred:
        of_ella, of_fred = (client.sign_in(person)["access_token"] for person in (ella, fred))
        refused = call(hub, of_ella, "own_whoami")
        assert "result" in refused, refused
        assert refused["result"]["isError"], refused
        words = text_of(refused)
        assert f"{hub.url}/connect/to/own/?link=" in words
        address = next(word for word in words.split() if word.startswith("http"))
        # Somebody else's browser learns nothing there, and connects nothing.
        assert fred.http.get(address.removeprefix(hub.url)).status_code == 403
        accounts.connect(ella, address, "alice")
        assert text_of(call(hub, of_ella, "own_whoami")) == "alice"
        assert call(hub, of_fred, "own_whoami")["result"]["isError"]
        accounts.connect(fred, "/connect/to/own/", "bob")
        for _ in range(3):
            assert text_of(call(hub, of_fred, "own_whoami")) == "bob"
            assert text_of(call(hub, of_ella, "own_whoami")) == "alice"


def test_resources_and_prompts_are_read_with_the_account_of_who_reads(hub: Hub, personal: str, people: Any) -> None:
    _boris, of_boris = people["boris"]
    with Speaker(hub.url, of_boris) as speaker:
        until(lambda: "result" in speaker.modern("resources/read", {"uri": "account://me"}).json())
        read = speaker.modern("resources/read", {"uri": "account://me"}).json()
        assert read["result"]["contents"][0]["text"] == "bob"
        prompt = speaker.modern("prompts/get", {"name": "own_greeting"}).json()
        assert prompt["result"]["messages"][0]["content"]["text"] == "I am bob."


def test_a_key_of_nobody_calls_with_nobodys_account(hub: Hub, personal: str) -> None:
    answer = call(hub, hub.key, "own_whoami")
    assert answer["result"]["isError"]
    assert "this call is no person's" in text_of(answer)
    assert not [each for each in hub.operate(accounts.state, personal)["accounts"] if each.startswith("key:")]


def test_a_stateless_client_is_asked_to_open_the_address_and_calls_again(hub: Hub, personal: str, peer: Peer) -> None:
    with Client(hub) as client, Person(hub, "clara") as clara, Speaker(hub.url, "") as speaker:
        speaker.key = client.sign_in(clara)["access_token"]
        meta = {f"{META}clientCapabilities": {"elicitation": {"url": {}}}}
        asked = speaker.modern_call("own_whoami", **meta).json()["result"]
        assert asked["resultType"] == "input_required"
        ((key, question),) = asked["inputRequests"].items()
        assert (question["method"], question["params"]["mode"]) == ("elicitation/create", "url")
        accounts.connect(clara, question["params"]["url"], "carol")
        params = {
            "name": "own_whoami",
            "arguments": {},
            "inputResponses": {key: {"action": "accept"}},
            "requestState": asked["requestState"],
            "_meta": meta,
        }
        assert text_of(speaker.modern("tools/call", params).json()) == "carol"


def test_a_client_of_2025_11_25_gets_its_error_and_hears_when_the_person_is_done(hub: Hub, personal: str) -> None:
    with Client(hub) as client, Person(hub, "dora") as dora, Speaker(hub.url, "") as speaker:
        speaker.key = client.sign_in(dora)["access_token"]
        session = speaker.open_session(LEGACY, elicitation={"url": {}})
        with speaker.streaming("GET", mcp_session_id=session) as (_answer, events):
            error = speaker.call(session, "own_whoami").json()["error"]
            assert error["code"] == -32042
            (wanted,) = error["data"]["elicitations"]
            accounts.connect(dora, wanted["url"], "dave")
            told = next(event for event in events if event.get("method") == "notifications/elicitation/complete")
            assert told["params"]["elicitationId"] == wanted["elicitationId"]
        assert speaker.call(session, "own_whoami").json()["result"]["content"][0]["text"] == "dave"


@pytest.mark.slow
def test_no_call_of_many_goes_out_with_the_account_of_another(hub: Hub, peer: Peer, personal: str, people: Any) -> None:
    """Two people, both eras, two workers, tokens that end all the time: each answer is of who asked."""
    own = {"anna": "alice", "boris": "bob"}
    rounds, calls = int(os.environ.get("MCPHUB_TEST_MIXED_ROUNDS", "6")), 40

    def stateless(token: str) -> str:
        return text_of(call(hub, token, "own_whoami"))

    def in_session(token: str) -> str:
        with Speaker(hub.url, token) as speaker:
            return text_of(speaker.call(speaker.open_session(LEGACY), "own_whoami").json())

    ways = [(name, way) for name in own for way in (stateless, in_session)]
    for number in range(rounds):
        if number % 2:
            accounts.control(peer.url, expire=True)
        else:
            hub.operate(accounts.age_tokens, personal)
        with ThreadPoolExecutor(8) as callers:
            asked = [ways[each % len(ways)] for each in range(calls)]
            answers = list(callers.map(lambda one: one[1](people[one[0]][1]), asked))
        assert [
            (name, answer) for (name, _way), answer in zip(asked, answers, strict=True) if answer != own[name]
        ] == []
    assert accounts.control(peer.url)["reused"] == 0


def test_an_answer_of_the_issuer_is_redeemed_once_by_who_asked_for_it(hub: Hub, personal: str, people: Any) -> None:
    (anna, of_anna), (boris, _) = people["anna"], people["boris"]
    back = accounts.signed_in(accounts.led_to_issuer(anna, "/connect/to/own/"), "mallory").removeprefix(hub.url)
    assert boris.http.get(back).status_code == 400  # another person's browser
    assert httpx2.get(hub.url + back, timeout=PATIENCE_SECONDS).status_code == 403  # a browser without the cookie
    assert text_of(call(hub, of_anna, "own_whoami")) == "alice"
    assert anna.http.get(back).status_code == 302
    assert anna.http.get(back).status_code == 400  # a second time
    hub.settle()
    assert text_of(call(hub, of_anna, "own_whoami")) == "mallory"
    accounts.connect(anna, "/connect/to/own/", "alice")


def test_an_answer_at_the_address_of_another_issuer_is_not_redeemed(hub: Hub, personal: str, people: Any) -> None:
    """Of an issuer that sends no `iss`: its code would go to the one that led there, with the verifier."""
    anna, _token = people["anna"]
    back = accounts.signed_in(accounts.led_to_issuer(anna, "/connect/to/own/"), "mallory").removeprefix(hub.url)
    path, _mark, query = back.partition("?")
    for elsewhere in ("/connect/callback/", "/connect/callback/0123456789abcdef/"):
        assert path != elsewhere
        leaving = accounts.signed_in(accounts.led_to_issuer(anna, "/connect/to/own/"), "mallory")
        answer = anna.http.get(f"{elsewhere}?{leaving.partition('?')[2]}")
        assert answer.status_code == 400
        assert "another issuer gave it" in html.unescape(answer.text)
    assert query


def test_an_answer_of_another_issuer_is_not_redeemed(hub: Hub, peer: Peer, personal: str, people: Any) -> None:
    boris, of_boris = people["boris"]
    leaving = accounts.led_to_issuer(boris, "/connect/to/own/")
    accounts.control(peer.url, iss="https://evil.example")
    try:
        back = accounts.signed_in(leaving, "mallory").removeprefix(hub.url)
    finally:
        accounts.control(peer.url, iss=None)
    answer = boris.http.get(back)
    assert answer.status_code == 400
    assert "evil.example" in answer.text
    assert text_of(call(hub, of_boris, "own_whoami")) == "bob"


@pytest.mark.parametrize("broken", ["html", "away", "slow"])
def test_who_connects_while_the_issuer_is_broken_is_told_so_and_connects_later(
    broken: str, hub: Hub, peer: Peer, personal: str, people: Any
) -> None:
    anna, of_anna = people["anna"]
    leaving = accounts.led_to_issuer(anna, "/connect/to/own/")
    accounts.control(peer.url, broken=broken)
    try:
        back = accounts.signed_in(leaving, "alice").removeprefix(hub.url)
        page = anna.http.get(back)
    finally:
        accounts.control(peer.url, broken="")
    assert page.status_code == 400
    assert 'href="/connect/to/own/">Try again' in page.text
    assert anna.http.get(back).status_code == 400  # the way is open once
    assert "is connected" in accounts.connect(anna, "/connect/to/own/", "alice").text
    assert text_of(call(hub, of_anna, "own_whoami")) == "alice"


def test_metadata_that_change_while_a_person_is_away_lead_no_code_elsewhere(
    hub: Hub, peer: Peer, personal: str, people: Any
) -> None:
    anna, of_anna = people["anna"]
    leaving = accounts.led_to_issuer(anna, "/connect/to/own/")
    origin = peer.url.removesuffix("/mcp")
    accounts.control(peer.url, document={"token_endpoint": f"{origin}/elsewhere"})
    try:
        back = accounts.signed_in(leaving, "alice").removeprefix(hub.url)
        assert anna.http.get(back).status_code == 302  # redeemed at the endpoint that stood there at the beginning
    finally:
        accounts.control(peer.url, document={})
    hub.settle()
    assert text_of(call(hub, of_anna, "own_whoami")) == "alice"


def test_an_issuer_that_grants_less_is_taken_at_its_word(hub: Hub, peer: Peer, personal: str, people: Any) -> None:
    anna, of_anna = people["anna"]
    accounts.control(peer.url, granted=["read"])
    try:
        accounts.connect(anna, "/connect/to/own/", "alice")
    finally:
        accounts.control(peer.url, granted=None)
    assert hub.operate(accounts.state, personal)["accounts"][anna.principal]["scopes"] == "read"
    assert text_of(call(hub, of_anna, "own_whoami")) == "alice"


def test_an_issuer_whose_clock_is_wrong_costs_renewals_and_no_calls(
    hub: Hub, peer: Peer, personal: str, people: Any
) -> None:
    anna, of_anna = people["anna"]
    before = accounts.control(peer.url, expires_in=0)  # over before it comes: the server's clock is ahead of the hub's
    try:
        accounts.connect(anna, "/connect/to/own/", "alice")
        first = call(hub, of_anna, "own_whoami")
    finally:
        accounts.control(peer.url, expires_in=3600)
    assert first["result"]["isError"]  # what it gave anew was over as well, and the hub asks once a call
    assert text_of(call(hub, of_anna, "own_whoami")) == "alice"
    assert accounts.control(peer.url)["reused"] == before["reused"]


def test_who_disconnects_is_asked_again_and_the_issuer_is_told(
    hub: Hub, peer: Peer, personal: str, people: Any
) -> None:
    anna, of_anna = people["anna"]
    before = accounts.control(peer.url)["revoked"]
    page = anna.http.get("/connect/to/own/")
    assert "Disconnect" in page.text
    token = page.text.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
    assert anna.http.post("/connect/to/own/end/", data={"csrfmiddlewaretoken": token}).status_code == 302
    assert accounts.control(peer.url)["revoked"] > before
    until(lambda: call(hub, of_anna, "own_whoami")["result"]["isError"])
    assert hub.operate(accounts.state, personal)["accounts"][anna.principal]["state"] == "ended"


def test_an_account_that_the_issuer_ended_is_ended_here_and_asked_for_again(
    hub: Hub, peer: Peer, personal: str, people: Any
) -> None:
    boris, of_boris = people["boris"]
    accounts.control(peer.url, forget="bob")
    answer = call(hub, of_boris, "own_whoami")
    assert "Connect it again" in text_of(answer), answer
    assert hub.operate(accounts.state, personal)["accounts"][boris.principal]["state"] == "ended"
    assert "account.ended" in hub.operate(accounts.events_of, personal)
    accounts.connect(boris, "/connect/to/own/", "bob")
    assert text_of(call(hub, of_boris, "own_whoami")) == "bob"


def test_no_code_is_in_the_log(hub: Hub, shared: str) -> None:
    log = hub.log() + (hub.folder / "stderr.log").read_text()
    assert log
    assert "?code=" not in log
    assert "&code=" not in log
    assert "/connect/callback/?" not in log


def test_an_account_is_for_the_server_and_the_use_that_it_was_connected_for(hub: Hub, peer: Peer, shared: str) -> None:
    change = {"slug": shared}
    moved = peer.url.replace("127.0.0.1", "localhost")
    assert text_of(call(hub, hub.key, "one_whoami")) == "house"
    try:
        hub.operate(operations.change, "tools_catalog.McpConnection", change, url=moved)
        until(lambda: "another server" in str(call(hub, hub.key, "one_whoami")))
        hub.operate(operations.change, "tools_catalog.McpConnection", change, url=peer.url, account="personal")
        until(lambda: "in another way" in str(call(hub, hub.key, "one_whoami")))
    finally:
        hub.operate(operations.change, "tools_catalog.McpConnection", change, url=peer.url, account="shared")
    until(lambda: text_of(call(hub, hub.key, "one_whoami")) == "house")


def test_another_client_id_ends_what_was_connected_as_the_first(hub: Hub, shared: str, operator: Person) -> None:
    hub.operate(operations.change, "tools_catalog.McpConnection", {"slug": shared}, client_id="by-hand")
    leaving = accounts.led_to_issuer(operator, "/connect/to/one/")
    assert "client_id=by-hand" in leaving
    account = hub.operate(accounts.state, shared)["accounts"][""]
    assert (account["state"], "another client" in account["failure"]) == ("ended", True)
    hub.operate(operations.change, "tools_catalog.McpConnection", {"slug": shared}, client_id="")
    accounts.connect(operator, "/connect/to/one/", "house")
    until(lambda: text_of(call(hub, hub.key, "one_whoami")) == "house")
