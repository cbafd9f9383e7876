"""`mcphub doctor` asks for the hub's documents at its public address, as a client elsewhere does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcphub.features.signin.public_address import check
from sessions_app.models import ServerProcess
from tests.servers import free_port
from tests.wire.service import Answer, Asked, Service

DOCUMENT = "/.well-known/oauth-protected-resource/mcp"


@pytest.fixture
def proxy(transactional_db: None) -> Iterator[Service]:
    """A service in place of the hub, at the public address of a hub that runs."""
    ServerProcess.objects.create(
        process_id="one", version="1.0.0", host="host", pid=1, status=ServerProcess.Status.RUNNING
    )
    with Service(lambda asked: (404, "")).running() as service:
        yield service


def found(settings: Any, url: str) -> list[str]:
    settings.MCPHUB_SIGN_IN, settings.MCPHUB_PUBLIC_URL = True, url
    return [finding.what for finding in check()]


def test_a_hub_that_is_reached_at_its_own_name_is_well(proxy: Service, settings: Any) -> None:
    proxy.answer = lambda asked: (200, {"resource": f"{proxy.url}/mcp"})
    assert found(settings, proxy.url) == []
    assert [asked.path for asked in proxy.asked] == [DOCUMENT]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, {"resource": "https://other.example/mcp"}), "describes https://other.example/mcp instead"),
        ((400, {"error": {"message": "The host hub.example is not served."}}), "400: The host hub.example is not"),
        ((200, "<html>Do you trust this tunnel?</html>"), "Something else answers"),
        ((302, ""), "Something else answers"),
        ((200, "x" * 200_000), "Something else answers"),
        ((200, ["no object"]), "Something else answers"),
    ],
    ids=["another hub", "a host that is not allowed", "a page of the tunnel", "a login", "much", "no object"],
)
def test_what_stands_before_the_hub_is_named(proxy: Service, settings: Any, answer: Answer, words: str) -> None:
    def answered(asked: Asked) -> Answer:
        return answer

    proxy.answer = answered
    (finding,) = found(settings, proxy.url)
    assert words in finding


@pytest.mark.usefixtures("proxy")
def test_an_address_where_nothing_listens_is_named(settings: Any) -> None:
    (finding,) = found(settings, f"http://127.0.0.1:{free_port()}")
    assert "cannot be reached" in finding


@pytest.mark.django_db
def test_nothing_is_asked_while_no_hub_runs(settings: Any) -> None:
    assert found(settings, f"http://127.0.0.1:{free_port()}") == []
