"""Ways to tokens besides codes: devices, services, identity assertions; and what may be asked about tokens."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.servers import FIXTURES, Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.issuing import ForeignIssuer, foreign_issuer, make_issuer
from tests.wire.signing_in import DEVICE, Client, Person, csrf_of, disable_person, take_back
from tests.wire.speech import Speaker
from tests.wire.test_signing_in import URN, a_name, kinds_of, refused

ASSERTION = f"{URN}jwt-bearer"


def make_service(name: str, scopes: list[str], groups: list[str] | None = None) -> dict[str, str]:
    from django.contrib.auth.models import Group

    from mcphub.features.signin.grants import services

    rows = [Group.objects.get_or_create(name=group)[0] for group in groups or []]
    made = services.make(name, "/mcp", scopes, rows)
    return {"id": made.client.client_id, "secret": made.secret}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
    with Hub(tmp_path_factory.mktemp("hub"), environment=environment, packs=["starter", FIXTURES]) as running:
        yield running


@pytest.fixture
def anna(hub: Hub) -> Iterator[Person]:
    with Person(hub, a_name()) as person:
        yield person


@pytest.fixture(scope="module")
def client_id(hub: Hub) -> str:
    with Client(hub, "A terminal", grants=("authorization_code", DEVICE)) as made:
        return made.id


@pytest.fixture
def client(hub: Hub, client_id: str) -> Iterator[Client]:
    with Client(hub, id=client_id) as made:
        yield made


# Devices -------------------------------------------------------------------------------------------------


def begun(hub: Hub, client: Client, **more: str | None) -> httpx2.Response:
    asked = {"client_id": client.id, "resource": f"{hub.url}/mcp", "scope": "tools:call", **more}
    form = {name: value for name, value in asked.items() if value is not None}
    return client.http.post("/oauth/device_authorization/", data=form)


def polled(client: Client, code: str) -> httpx2.Response:
    return client.token(grant_type=DEVICE, device_code=code, client_id=client.id)


def decided(anna: Person, address: str, deed: str = "allow") -> httpx2.Response:
    page = anna.asked(address)
    assert page.status_code == 200, page.text
    code = address.partition("code=")[2]
    return anna.http.post("/oauth/device/", data={"csrfmiddlewaretoken": csrf_of(page), "code": code, deed: "1"})


def test_a_device_comes_to_a_call_and_comes_back(hub: Hub, anna: Person, client: Client) -> None:
    told = begun(hub, client).json()
    assert told["verification_uri"] == f"{hub.url}/oauth/device/"
    assert told["expires_in"] == 600
    refused(polled(client, told["device_code"]), "authorization_pending")
    # The next question that comes within five seconds of the one before.
    hasty = until(lambda: (answer := polled(client, told["device_code"])).json()["error"] == "slow_down" and answer)
    refused(hasty, "slow_down")
    where = told["verification_uri_complete"].removeprefix(hub.url)
    page = anna.asked(where)
    for words in (
        "A terminal",
        told["user_code"],
        f"{hub.url}/mcp",
        "nobody has verified it",
        anna.name,
        "in front of you",
    ):
        assert words in page.text
    assert decided(anna, where).status_code == 200
    tokens = polled(client, told["device_code"]).json()
    assert tokens["scope"] == "tools:call"
    with Speaker(hub.url, tokens["access_token"]) as speaker:
        assert speaker.modern_call("echo", {"text": "from a device"}).status_code == 200
        assert hub.row(client=speaker.name)["principal"] == anna.principal
    assert client.refresh(tokens["refresh_token"]).status_code == 200
    refused(polled(client, told["device_code"]))
    assert kinds_of(hub, anna)[:2] == ["consent.given", "token.issued"]


def test_a_client_gets_codes_of_devices_only_where_it_registered_for_them(hub: Hub, anna: Person) -> None:
    with Client(hub, "Claude") as client:
        refused(answer := begun(hub, client), "unauthorized_client")
        assert DEVICE in answer.json()["error_description"]
        refused(polled(client, "any"), "unauthorized_client")
        assert client.sign_in(anna)["access_token"]
    with Client(hub, "Both", grants=("authorization_code", DEVICE)) as client:
        assert client.sign_in(anna)["access_token"]
        assert begun(hub, client).status_code == 200
    with Client(hub, "Device", grants=(DEVICE,)) as client:
        assert begun(hub, client).status_code == 200
        assert anna.asked(client.address()).status_code == 400  # it has no redirects
        refused(client.token(grant_type="authorization_code", code="x", client_id=client.id), "unauthorized_client")
        refused(
            client.token(grant_type="password", username="x", password="x", client_id=client.id),
            "unsupported_grant_type",
        )


def test_a_code_is_entered_as_people_write_it(hub: Hub, anna: Person, client: Client) -> None:
    told = begun(hub, client).json()
    spoken = told["user_code"].lower().replace("-", " ")
    assert told["user_code"][:4].lower() in anna.asked(f"/oauth/device/?code={spoken}").text
    assert "Enter the code" in anna.asked("/oauth/device/").text


def test_a_device_that_is_refused_hears_it(hub: Hub, anna: Person, client: Client) -> None:
    told = begun(hub, client).json()
    decided(anna, f"/oauth/device/?code={told['user_code']}", "deny")
    refused(polled(client, told["device_code"]), "access_denied")
    assert hub.operate(operations.count, "signin.Consent", user=anna.id) == 0


@pytest.mark.parametrize(
    ("wrong", "error", "status"),
    [
        ({"client_id": "nobody"}, "invalid_client", 401),
        ({"client_id": None}, "invalid_client", 401),
        ({"client_secret": "x"}, "unauthorized_client", 400),
        ({"resource": None}, "invalid_target", 400),
        ({"resource": "https://elsewhere.example/mcp"}, "invalid_target", 400),
        ({"scope": "audit:read"}, "invalid_scope", 400),
        ({"scope": "a\x00b"}, "invalid_request", 400),
    ],
)
def test_what_a_device_cannot_ask(
    hub: Hub, client: Client, wrong: dict[str, str | None], error: str, status: int
) -> None:
    refused(begun(hub, client, **wrong), error, status)


def test_a_device_code_is_its_clients_alone_and_ends(hub: Hub, anna: Person, client: Client) -> None:
    told = begun(hub, client).json()
    with Client(hub, grants=(DEVICE,)) as other:
        refused(polled(other, told["device_code"]))
    refused(polled(client, "made up"))
    hub.operate(operations.update, "oauth2_provider.DeviceGrant", {}, expires="2020-01-01T00:00:00Z")
    refused(polled(client, told["device_code"]), "expired_token")
    assert anna.asked(f"/oauth/device/?code={told['user_code']}").status_code == 404


def test_two_questions_at_once_get_one_pair_of_tokens(hub: Hub, anna: Person, client: Client) -> None:
    told = begun(hub, client).json()
    decided(anna, f"/oauth/device/?code={told['user_code']}")
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: polled(client, told["device_code"]), range(6)))
    assert sorted(answer.status_code for answer in answers) == [200, *[400] * 5]


def test_codes_of_devices_cannot_be_guessed_at_without_end(hub: Hub, anna: Person) -> None:
    answers = [anna.asked(f"/oauth/device/?code=BBBBBB{a}{b}").status_code for a in "BCDFG" for b in "BCDFG"]
    assert answers[:20] == [404] * 20
    assert set(answers[20:]) == {429}


def test_a_stranger_logs_in_before_a_device_is_let_in(hub: Hub) -> None:
    with Speaker(hub.url, None) as stranger:
        answer = stranger.http.get("/oauth/device/?code=BCDF-GHJK")
        assert answer.headers["location"] == "/oauth/login/?next=/oauth/device/%3Fcode%3DBCDF-GHJK"
        posted = stranger.http.post("/oauth/device/", data={"code": "BCDF-GHJK", "allow": "1"})
        assert posted.status_code == 403


def test_no_code_of_a_device_is_kept(hub: Hub, client: Client) -> None:
    from tests.wire.signing_in import everything_stored

    told = begun(hub, client).json()
    kept = "\n".join(hub.operate(everything_stored)) + hub.log()
    for code in (told["device_code"], told["user_code"], told["user_code"].replace("-", "")):
        assert code not in kept


def test_two_workers_on_postgresql_let_a_device_in(pair: Hub) -> None:
    with Person(pair, a_name()) as anna, Client(pair, grants=(DEVICE,)) as client:
        told = begun(pair, client).json()
        refused(polled(client, told["device_code"]), "authorization_pending")
        decided(anna, f"/oauth/device/?code={told['user_code']}")
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: polled(client, told["device_code"]), range(6)))
        assert sorted(answer.status_code for answer in answers) == [200, *[400] * 5]


# Services ------------------------------------------------------------------------------------------------


def as_service(hub: Hub, service: dict[str, str], **more: str | None) -> httpx2.Response:
    asked = {"grant_type": "client_credentials", "resource": f"{hub.url}/mcp", **more}
    form = {name: value for name, value in asked.items() if value is not None}
    with httpx2.Client(base_url=hub.url, timeout=PATIENCE_SECONDS) as http:
        return http.post("/oauth/token/", data=form, auth=(service["id"], service["secret"]))


def test_a_service_comes_to_a_call_as_its_own_account(hub: Hub) -> None:
    name = a_name("service")
    service = hub.operate(make_service, name, ["tools:call"], ["builders"])
    tokens = as_service(hub, service).json()
    assert "refresh_token" not in tokens
    with Speaker(hub.url, tokens["access_token"]) as speaker:
        assert speaker.modern_call("echo", {"text": "by myself"}).status_code == 200
        row = hub.row(client=speaker.name)
        [account] = hub.operate(operations.values, "auth.User", "pk", username=name)
        assert row["principal"] == f"user:{account}"
        assert row["caller_label"].startswith(f"{name} via {name}")
        hub.operate(take_back, name)
        until(lambda: speaker.modern("tools/list").status_code == 401)
    refused(as_service(hub, service), "invalid_target")


def test_what_a_service_cannot_ask(hub: Hub) -> None:
    name = a_name("service")
    service = hub.operate(make_service, name, ["tools:list"])
    refused(as_service(hub, {**service, "secret": "wrong"}), "invalid_client", 401)
    refused(as_service(hub, {**service, "id": "a\x00b"}), "invalid_client", 401)
    refused(as_service(hub, service, scope="tools:call"), "invalid_scope")
    refused(as_service(hub, service, resource=f"{hub.url}/sse"), "invalid_target")
    refused(as_service(hub, service, resource=None), "invalid_target")
    assert as_service(hub, service).json()["scope"] == "tools:list"
    hub.operate(disable_person, name)
    refused(as_service(hub, service))


def test_clients_of_people_are_no_services(hub: Hub, client: Client) -> None:
    refused(client.token(grant_type="client_credentials", client_id=client.id), "unauthorized_client")
    confidential = registered(hub)
    refused(as_service(hub, confidential), "unauthorized_client")


def registered(hub: Hub) -> dict[str, str]:
    """Return a client with a secret that registered itself."""
    told = {"redirect_uris": ["http://127.0.0.1:1/"], "token_endpoint_auth_method": "client_secret_basic"}
    with httpx2.Client(base_url=hub.url, timeout=PATIENCE_SECONDS) as http:
        made = http.post("/oauth/register/", json=told).json()
    return {"id": made["client_id"], "secret": made["client_secret"]}


# Introspection -------------------------------------------------------------------------------------------


def told_of(hub: Hub, service: dict[str, str], token: str) -> httpx2.Response:
    with httpx2.Client(base_url=hub.url, timeout=PATIENCE_SECONDS) as http:
        return http.post("/oauth/introspect/", data={"token": token}, auth=(service["id"], service["secret"]))


def test_a_service_may_ask_what_a_token_is_worth(hub: Hub, anna: Person, client: Client) -> None:
    service = hub.operate(make_service, a_name("service"), ["tools:list"])
    token = client.sign_in(anna)["access_token"]
    told = told_of(hub, service, token).json()
    assert told.pop("exp") > told.pop("iat")
    assert told == {
        "active": True,
        "iss": hub.url,
        "sub": anna.principal,
        "username": anna.name,
        "client_id": client.id,
        "scope": "tools:list tools:call",
        "aud": [f"{hub.url}/mcp"],
        "token_type": "Bearer",
    }
    for nothing in ("", "mcpa_made.up", "x" * 5000, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")):
        assert told_of(hub, service, nothing).json() == {"active": False}
    assert told_of(hub, registered(hub), token).json() == {"active": False}
    refused(told_of(hub, {**service, "secret": "wrong"}, token), "invalid_client", 401)
    without = client.http.post("/oauth/introspect/", data={"token": token, "client_id": client.id})
    refused(without, "unauthorized_client")
    hub.operate(disable_person, anna.name)
    assert told_of(hub, service, token).json() == {"active": False}


# Identity assertions -------------------------------------------------------------------------------------


@pytest.fixture
def issuer(hub: Hub) -> Iterator[ForeignIssuer]:
    with foreign_issuer() as made:
        name = a_name("issuer")
        hub.operate(make_issuer, name, made.url, takes_assertions=True)
        hub.settle()
        yield made
        hub.operate(operations.delete, "signin.Issuer", name=name)


def assertion(hub: Hub, issuer: ForeignIssuer, person: str, client: str, **more: Any) -> str:
    now = int(time.time())
    claims = {
        "aud": hub.url,
        "client_id": client,
        "resource": f"{hub.url}/mcp",
        "scope": "tools:call",
        "exp": now + 300,
        "jti": uuid.uuid4().hex,
        **more,
    }
    headers = {"typ": claims.pop("typ", "oauth-id-jag+jwt")}
    return issuer.token(f"{hub.url}/mcp", person, headers=headers, **claims)


def exchanged(hub: Hub, service: dict[str, str], text: str, **more: str) -> httpx2.Response:
    with httpx2.Client(base_url=hub.url, timeout=PATIENCE_SECONDS) as http:
        form = {"grant_type": ASSERTION, "assertion": text, **more}
        return http.post("/oauth/token/", data=form, auth=(service["id"], service["secret"]))


def test_an_assertion_of_the_organisation_is_a_token_once(hub: Hub, issuer: ForeignIssuer, anna: Person) -> None:
    client = registered(hub)
    text = assertion(hub, issuer, anna.name, client["id"])
    tokens = exchanged(hub, client, text)
    assert tokens.status_code == 200, tokens.text
    assert tokens.json()["scope"] == "tools:call"
    with Speaker(hub.url, tokens.json()["access_token"]) as speaker:
        assert speaker.modern_call("echo", {"text": "vouched for"}).status_code == 200
        assert hub.row(client=speaker.name)["principal"] == anna.principal
    refused(exchanged(hub, client, text))
    again = assertion(hub, issuer, anna.name, client["id"])
    assert exchanged(hub, client, again, scope="tools:list").status_code == 400
    assert "consent.given" in kinds_of(hub, anna)


def test_what_an_assertion_must_not_be(hub: Hub, issuer: ForeignIssuer, anna: Person) -> None:
    client = registered(hub)
    now = int(time.time())
    wrong: dict[str, dict[str, Any]] = {
        "an access token": {"typ": "at+jwt"},
        "no type": {"typ": "JWT"},
        "for another server": {"aud": "https://elsewhere.example"},
        "for two servers": {"aud": [hub.url, "https://elsewhere.example"]},
        "for an endpoint": {"aud": f"{hub.url}/mcp"},
        "of another client": {"client_id": "somebody"},
        "of no client": {"client_id": None},
        "over": {"exp": now - 1},
        "endless": {"exp": now + 100_000},
        "without an end": {"exp": None},
        "of the future": {"iat": now + 1000},
        "without an id": {"jti": None},
        "an id that is no text": {"jti": 7},
        "without a subject": {"sub": None},
        "of somebody who is not here": {"sub": "x", "preferred_username": "nobody-at-all"},
        "of another issuer": {"iss": "https://elsewhere.example"},
    }
    for name, more in wrong.items():
        answer = exchanged(hub, client, assertion(hub, issuer, anna.name, client["id"], **more))
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant"), name
    elsewhere = assertion(hub, issuer, anna.name, client["id"], resource="https://elsewhere.example/mcp")
    refused(exchanged(hub, client, elsewhere), "invalid_target")
    good = assertion(hub, issuer, anna.name, client["id"])
    refused(exchanged(hub, client, good, resource=f"{hub.url}/sse"), "invalid_target")
    refused(exchanged(hub, client, good, scope="chat"), "invalid_scope")
    refused(exchanged(hub, {**client, "secret": "wrong"}, good), "invalid_client", 401)
    for text in ("", "x", "a.b.c", good + "x", good.rpartition(".")[0] + "."):
        refused(exchanged(hub, client, text))
    assert exchanged(hub, client, good).status_code == 200
    hub.operate(operations.change, "signin.Issuer", {"issuer": issuer.url}, takes_assertions=False)
    refused(exchanged(hub, client, assertion(hub, issuer, anna.name, client["id"])))


def test_a_client_that_issues_its_assertions_itself_vouches_for_its_own_people_alone(hub: Hub, anna: Person) -> None:
    """As it is described for Claude: the issuer is the client's own, and people are found by their e-mail address."""
    own, other = registered(hub), registered(hub)
    with foreign_issuer() as maker:
        hub.operate(make_issuer, a_name("maker"), maker.url, takes_assertions=True, person_claim="email")
        hub.settle()
        about = {"sub": f"org-1:{uuid.uuid4().hex}", "email": anna.name, "preferred_username": None}
        tokens = exchanged(hub, own, assertion(hub, maker, anna.name, own["id"], **about))
        assert tokens.status_code == 200, tokens.text
        with Speaker(hub.url, tokens.json()["access_token"]) as speaker:
            assert speaker.modern_call("echo", {"text": "by its own word"}).status_code == 200
            assert hub.row(client=speaker.name)["principal"] == anna.principal
        # Its signature is no secret of another client, and its subjects are people of its own.
        refused(exchanged(hub, other, assertion(hub, maker, anna.name, own["id"], **about)))
        stranger = {**about, "sub": "org-2:somebody"}
        refused(exchanged(hub, own, assertion(hub, maker, anna.name, own["id"], **stranger)))
        with foreign_issuer() as unknown:
            refused(exchanged(hub, own, assertion(hub, unknown, anna.name, own["id"], **about)))


# The record ----------------------------------------------------------------------------------------------


def refusals(hub: Hub, **filters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hub.operate(operations.values, "sessions_app.AuditEvent", "after", **filters)
    return found


def test_what_was_refused_is_on_record_and_a_flood_is_counted(
    hub: Hub, issuer: ForeignIssuer, anna: Person, client: Client
) -> None:
    told = client.sign_in(anna)
    with Speaker(hub.url, told["access_token"]) as speaker:
        assert speaker.http.get("/sse", headers=speaker.headers()).status_code == 401
        assert speaker.modern_call("echo", {"text": "mine"}).status_code == 200
        assert hub.row(client=speaker.name)["allowed_client"].startswith("A terminal (client ")
    anna.asked(client.address(resource="https://elsewhere.example/mcp"))
    began = time.monotonic() // 60
    for number in range(100):
        client.refresh(f"made up {number}")
        client.token(grant_type=f"made up {number}", client_id="nobody")
    minutes = time.monotonic() // 60 - began + 1
    bad = issuer.token(f"{hub.url}/mcp", anna.name, aud="https://elsewhere.example")
    with Speaker(hub.url, bad) as speaker:
        assert speaker.modern("tools/list").status_code == 401
    [asked] = until(lambda: refusals(hub, kind="authorization.refused", actor=anna.principal))
    mine = until(lambda: refusals(hub, kind="token.refused", actor=anna.principal))
    assert mine == [{"reason": "it is for another endpoint", "endpoint": "/sse", "of": ["/mcp"]}]
    until(lambda: any("further" in each for each in refusals(hub, kind="token.refused")))
    assert (asked["error"], asked["client_id"]) == ("invalid_target", client.id)
    told_of = [each for each in refusals(hub, kind="token.refused") if each.get("grant", "").startswith("made up ")]
    assert len(told_of) <= 30 * minutes


def test_the_server_says_which_grants_it_has(hub: Hub) -> None:
    with Speaker(hub.url, None) as stranger:
        document = stranger.http.get("/.well-known/oauth-authorization-server").json()
        assert {DEVICE, ASSERTION, "client_credentials"} <= set(document["grant_types_supported"])
        for name in ("introspection_endpoint", "device_authorization_endpoint"):
            assert stranger.http.get(document[name]).status_code == 405
        assert stranger.http.get("/.well-known/openid-configuration").status_code == 404
