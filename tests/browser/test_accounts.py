"""A person connects an account at an upstream, from the client's call to its result, in both eras."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.conftest import patient
from tests.servers import Hub, until
from tests.upstreams import accounts
from tests.upstreams.conftest import Peer
from tests.wire.signing_in import Client, Person
from tests.wire.speech import LEGACY, META, Speaker

PASSWORD = "a long password"


def give_password(name: str) -> None:
    from django.contrib.auth.models import User

    user = User.objects.get(username=name)
    user.set_password(PASSWORD)
    user.save()


@pytest.fixture(scope="module")
def hub(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with a connection where each calls as himself, and whose lists are read."""
    made = Hub(tmp_path_factory.mktemp("hub"), environment={"MCPHUB_EGRESS_ALLOW": "127.0.0.1"})
    with Peer("oauth.py") as peer, accounts.hub_url(made) as running, Person(running, "chief") as chief:
        running.operate(accounts.make_operator, "chief")
        running.operate(accounts.add, "own", peer.url, "personal")
        accounts.connect(chief, "/connect/to/own/?as=all", "lister")
        with Speaker(running.url, running.key) as speaker:
            until(lambda: "result" in speaker.modern_call("own_whoami").json())
        yield running


@pytest.fixture
def token_of(hub: Hub) -> Callable[[str], str]:
    """Return the token of a new person's client."""

    def made(name: str) -> str:
        with Client(hub) as client, Person(hub, name) as person:
            token = str(client.sign_in(person)["access_token"])
        hub.operate(give_password, name)
        return token

    return made


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    context = patient(chromium.new_context())
    blocked: list[str] = []
    page = context.new_page()
    page.on("console", lambda said: blocked.append(said.text) if "Content Security Policy" in said.text else None)
    yield page
    context.close()
    assert not blocked


def connects(page: Any, address: str, name: str, subject: str) -> None:
    """Log in, read the hub's page, sign in at the issuer, come back; by keyboard but for the issuer's link."""
    from playwright.sync_api import expect

    page.goto(address)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Connect your account at own?")).to_be_visible()
    expect(page.get_by_text(f"You are logged in as {name}.")).to_be_visible()
    button = page.get_by_role("button", name="Sign in there")
    button.focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name=f"I am {subject}").click()
    expect(page.get_by_role("heading", name="The account at own is connected")).to_be_visible()
    assert "code=" not in page.url


def test_a_stateless_client_comes_back_for_its_result(hub: Hub, page: Any, token_of: Callable[[str], str]) -> None:
    with Speaker(hub.url, token_of("anna")) as speaker:
        meta = {f"{META}clientCapabilities": {"elicitation": {"url": {}}}}
        asked = speaker.modern_call("own_whoami", **meta).json()["result"]
        ((key, question),) = asked["inputRequests"].items()
        connects(page, question["params"]["url"], "anna", "alice")
        again = {"name": "own_whoami", "arguments": {}, "requestState": asked["requestState"], "_meta": meta}
        answer = speaker.modern("tools/call", {**again, "inputResponses": {key: {"action": "accept"}}}).json()
        assert answer["result"]["content"][0]["text"] == "alice"


def test_a_client_of_2025_11_25_hears_when_it_may_call_again(
    hub: Hub, page: Any, token_of: Callable[[str], str]
) -> None:
    with Speaker(hub.url, token_of("boris")) as speaker:
        session = speaker.open_session(LEGACY, elicitation={"url": {}})
        with speaker.streaming("GET", mcp_session_id=session) as (_answer, events):
            error = speaker.call(session, "own_whoami").json()["error"]
            assert error["code"] == -32042
            (wanted,) = error["data"]["elicitations"]
            connects(page, wanted["url"], "boris", "bob")
            told = next(event for event in events if event.get("method") == "notifications/elicitation/complete")
            assert told["params"]["elicitationId"] == wanted["elicitationId"]
        assert speaker.call(session, "own_whoami").json()["result"]["content"][0]["text"] == "bob"
