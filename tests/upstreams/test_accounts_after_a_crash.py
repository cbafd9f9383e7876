"""A hub that is killed while it redeems what an issuer gave: nothing is half there, and the person connects again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.servers import Hub, until
from tests.upstreams import accounts
from tests.upstreams.accounts import kill_workers
from tests.upstreams.conftest import Peer
from tests.upstreams.test_accounts import call, text_of
from tests.waiting import PATIENCE_SECONDS
from tests.wire.signing_in import Client, Person

pytestmark = pytest.mark.slow


def age_token(principal: str) -> None:
    """Let the token of one person end now, as far as the hub knows."""
    from django.utils import timezone

    from tools_catalog.models import UpstreamAccount

    UpstreamAccount.objects.filter(principal=principal).update(expires_at=timezone.now())


def claim_no_longer(slug: str) -> None:
    """Let the time pass that a process has to renew a token."""
    from django.utils import timezone

    from tools_catalog.models import UpstreamAccount

    UpstreamAccount.objects.filter(connection__slug=slug).update(claimed_until=timezone.now())


def test_a_hub_that_dies_between_redeeming_and_storing_lets_the_person_connect_again(tmp_path: Path) -> None:
    made = Hub(tmp_path, flags=["--workers", "2"], environment={"MCPHUB_EGRESS_ALLOW": "127.0.0.1,localhost"})
    with (
        Peer("oauth.py") as peer,
        accounts.hub_url(made) as hub,
        Person(hub, "chief") as chief,
        Client(hub) as client,
        Person(hub, "anna") as anna,
    ):
        token = client.sign_in(anna)["access_token"]
        hub.operate(accounts.make_operator, "chief")
        hub.operate(accounts.add, "own", peer.url, "personal")
        accounts.connect(chief, "/connect/to/own/?as=all", "lister")
        until(lambda: "connect/to/own" in _said(hub, token))
        back = urlsplit(accounts.signed_in(accounts.led_to_issuer(anna, "/connect/to/own/"), "alice"))
        come_back = f"{back.path}?{back.query}"
        _kill_amid(hub, peer, lambda: anna.http.get(come_back, timeout=PATIENCE_SECONDS))
        until(lambda: "connect/to/own" in _said(hub, token))
        assert anna.principal not in _connected(hub)
        assert anna.http.get(come_back).status_code == 400  # the state was taken
        accounts.connect(anna, "/connect/to/own/", "alice")
        until(lambda: _said(hub, token) == "alice")
        # The same while it renews: the issuer has spent the refresh token, so it ends the account.
        hub.operate(age_token, anna.principal)
        hub.settle()  # a worker that still holds the token for good would not renew it
        _kill_amid(hub, peer, lambda: call(hub, token, "own_whoami"))
        hub.operate(claim_no_longer, "own")
        until(lambda: "onnect it again" in _said(hub, token))
        accounts.connect(anna, "/connect/to/own/", "alice")
        until(lambda: _said(hub, token) == "alice")


def _kill_amid(hub: Hub, peer: Peer, deed: Callable[[], object]) -> None:
    """Kill all workers while the issuer holds back its answer to what they redeem."""
    before = accounts.control(peer.url, holds=True)["held"]
    with ThreadPoolExecutor(1) as doing:
        under_way = doing.submit(deed)
        until(lambda: accounts.control(peer.url)["held"] > before)
        kill_workers(hub)
        with suppress(httpx2.HTTPError):
            under_way.result()
    accounts.control(peer.url, holds=False)


def _said(hub: Hub, token: str) -> str:
    """Return the text of a call's answer; nothing while no worker answers."""
    try:
        answer = call(hub, token, "own_whoami")
    except httpx2.HTTPError:
        return ""
    return text_of(answer) if "result" in answer else str(answer["error"])


def _connected(hub: Hub) -> list[str]:
    found = hub.operate(accounts.state, "own")["accounts"]
    return [principal for principal, account in found.items() if account["state"] == "connected"]
