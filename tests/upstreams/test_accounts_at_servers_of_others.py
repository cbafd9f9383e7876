"""Accounts at servers and issuers that others wrote: the SDK of TypeScript, and FastMCP with its OAuth proxy.

Two people with two accounts call in both eras; each answer is of the account of who asked, also after a renewal.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import install
from tests.servers import Hub, until
from tests.upstreams import accounts
from tests.upstreams.conftest import Peer
from tests.upstreams.test_accounts import call, text_of
from tests.wire.signing_in import Client, Person
from tests.wire.speech import LEGACY, Speaker

pytestmark = pytest.mark.rig

_SUBJECTS = {"anna": "alice", "boris": "bob"}
_ROUNDS = 5


@pytest.fixture(scope="module", params=["typescript", "fastmcp"])
def peer(request: pytest.FixtureRequest) -> Iterator[tuple[Peer, Peer]]:
    """An upstream, and the server that its issuer's people are known to."""
    if request.param == "typescript":
        folder = install.node(install=False)
        if folder is None:
            pytest.skip("The SDK of TypeScript is not installed: python -m tests.clients.install")
        node = str(folder / "node_modules/.bin/node")
        with Peer("oauth.mjs", str(folder), python=node) as running:
            yield running, running
        return
    python = install.python("fastmcp", install=False)
    if python is None:
        pytest.skip("FastMCP is not installed: python -m tests.clients.install fastmcp")
    with (
        Peer("oauth.py") as issuer,
        Peer("oauth_proxy.py", issuer.url.removesuffix("/mcp"), python=str(python)) as proxy,
    ):
        yield proxy, issuer


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder: Path = tmp_path_factory.mktemp("others")
    made = Hub(folder, flags=["--workers", "2"], environment={"MCPHUB_EGRESS_ALLOW": "127.0.0.1,localhost"})
    with accounts.hub_url(made) as running:
        yield running


@pytest.fixture(scope="module")
def chief(hub: Hub) -> Iterator[Person]:
    with Person(hub, "chief") as person:
        hub.operate(accounts.make_operator, "chief")
        yield person


@pytest.fixture(scope="module")
def people(hub: Hub) -> Iterator[dict[str, tuple[Person, str]]]:
    with Client(hub) as client, Person(hub, "anna") as anna, Person(hub, "boris") as boris:
        yield {person.name: (person, client.sign_in(person)["access_token"]) for person in (anna, boris)}


def test_each_answer_is_of_the_account_of_who_asked(
    hub: Hub, peer: tuple[Peer, Peer], chief: Person, people: dict[str, Any]
) -> None:
    upstream, issuer = peer
    slug = f"other-{upstream.port}"
    url = upstream.url.replace("127.0.0.1", "localhost") if upstream is issuer else upstream.url
    hub.operate(accounts.add, slug, url, "personal")
    accounts.connect(chief, f"/connect/to/{slug}/?as=all", "lister")
    until(lambda: "result" in call(hub, hub.key, f"{slug}_whoami"))
    hub.settle()  # the other worker serves it, too
    for name, subject in _SUBJECTS.items():
        asked = text_of(call(hub, people[name][1], f"{slug}_whoami"))
        address = next(word for word in asked.split() if word.startswith("http"))
        accounts.connect(people[name][0], address, subject)
    for number in range(_ROUNDS):
        for name, subject in _SUBJECTS.items():
            assert text_of(call(hub, people[name][1], f"{slug}_whoami")) == subject
            with Speaker(hub.url, people[name][1]) as speaker:
                answer = speaker.call(speaker.open_session(LEGACY), f"{slug}_whoami").json()
            assert text_of(answer) == subject
        if number % 2:
            hub.operate(accounts.age_tokens, slug)
        else:
            accounts.control(issuer.url, expire=True)
