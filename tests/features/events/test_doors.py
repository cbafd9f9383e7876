"""Callbacks subscribed over REST and by the command: the same checks as over MCP, with the rights of whoever asks."""

from __future__ import annotations

import contextlib
import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcphub.cli import main
from mcphub.features.events import callbacks
from mcphub.features.events.models import EventChallenge, EventSubscription
from mcphub.features.notifications.models import new_secret
from sessions_app.history.models import AuditEvent
from sessions_app.models import ApiKey
from sessions_app.protocol.errors import InvalidParams
from tests.features.events.receivers import CallbackReceiver
from tests.rest import by_key, by_person, by_token, error_of
from tests.tools_catalog.addresses import CLOSED, ODD_URLS
from tools_catalog.egress import guard

pytestmark = pytest.mark.usefixtures("transactional_db")
LIST = "/api/event-subscriptions/"
SECRET = new_secret()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CallbackReceiver]:
    with CallbackReceiver(tmp_path_factory.mktemp("receiver"), [SECRET]) as made:
        guard.tls_context().load_verify_locations(made.certificate)
        yield made


@pytest.fixture
def receiver(running: CallbackReceiver, settings: Any) -> CallbackReceiver:
    settings.MCPHUB_EGRESS_ALLOW = ["127.0.0.1"]
    running.echoes = True
    running.controls.clear()
    return running


def wish(url: str, **more: Any) -> dict[str, Any]:
    return {"event": "connection.down", "url": url, "secret": SECRET, **more}


def post(client: Any, body: dict[str, Any]) -> Any:
    return client.post(LIST, body, content_type="application/json")


def test_a_key_subscribes_over_rest_with_its_own_rights_and_renews(receiver: CallbackReceiver) -> None:
    key, token = ApiKey.issue("robot", scopes=["tools:list"])
    client = by_token(token)
    made = post(client, wish(receiver.url))
    assert made.status_code == 201, made.content
    assert [each["type"] for each in receiver.controls] == ["verification"]
    assert (made.json()["callback"], made.json()["principal"]) == (receiver.url[:-17] + "/…", key.principal)
    assert "secret" not in made.json()
    assert post(client, wish(receiver.url, ttl_ms=600_000)).status_code == 200
    assert EventSubscription.objects.count() == len(receiver.controls) == 1
    error_of(post(client, wish(receiver.url) | {"event": "audit.alarm"}), 403, "forbidden")
    error_of(client.get(LIST), 403, "forbidden")


def test_addresses_secrets_and_callbacks_are_checked_as_over_mcp(receiver: CallbackReceiver) -> None:
    client = by_key("tools:list", "audit:read")
    for body in (
        wish("https://10.0.0.1/hook"),
        wish("http://127.0.0.1/hook"),
        wish(receiver.url, arguments={"unknown": 1}),
        wish(receiver.url) | {"secret": "short"},
        wish(receiver.url) | {"event": "no.such"},
    ):
        error_of(post(client, body), 400, "invalid_params")
    receiver.echoes = False
    assert error_of(post(client, wish(receiver.url)), 409, "conflict")["details"] == {"reason": "challenge_failed"}
    assert (EventChallenge.objects.count(), EventSubscription.objects.count()) == (1, 0)


def test_no_form_of_an_inner_address_is_taken_as_a_callback() -> None:
    literals = [f"[{text}]" if ":" in text else text for text in CLOSED]
    whole = [str(int(ipaddress.ip_address(text))) for text in CLOSED if ":" not in text]
    hexed = [hex(int(text)) for text in whole]
    hosts = [*literals, *whole, *hexed]
    forms = [*(f"https://{host}{rest}" for host in hosts for rest in ("/hook", ":8443/")), *ODD_URLS]
    assert len(forms) > 161
    taken = []
    for url in forms:
        with contextlib.suppress(InvalidParams):
            taken.append(callbacks.checked_url(url))
    assert taken == []
    client = by_key("tools:list")
    error_of(post(client, wish("https://[::ffff:169.254.169.254]/latest")), 400, "invalid_params")
    assert EventChallenge.objects.count() == 0


def test_an_operator_lists_and_ends_what_a_person_subscribed(receiver: CallbackReceiver) -> None:
    person = by_person("events.view_eventsubscription", "events.delete_eventsubscription", username="olga")
    made = post(person, wish(receiver.url)).json()
    assert person.get(f"{LIST}?failing=false").json()["results"] == [made]
    assert by_key("catalog:write").delete(f"{LIST}{made['id']}/").status_code == 204
    assert person.get(f"{LIST}{made['id']}/").json()["is_ending"] is True
    assert AuditEvent.objects.filter(kind="event_subscription.ended").count() == 1


def test_the_command_adds_with_the_rights_of_a_key_lists_and_ends(
    receiver: CallbackReceiver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, _ = ApiKey.issue("robot", scopes=["tools:list"])
    file = tmp_path / "secret.txt"
    file.write_text(SECRET + "\n")

    def add(event: str) -> int:
        return main(["event-subscription", "add", event, receiver.url, "--key", key.prefix, "--secret-file", str(file)])

    assert add("audit.alarm") == 1
    assert "does not cover audit.alarm" in capsys.readouterr().err
    assert add("connection.down") == 0
    capsys.readouterr()
    assert main(["event-subscription", "list", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["event"], told["caller"]) == ("connection.down", "robot")
    assert main(["event-subscription", "end", told["id"], "--reason", "Not ours."]) == 0
    assert AuditEvent.objects.get(kind="event_subscription.ended").reason == "Not ours."
