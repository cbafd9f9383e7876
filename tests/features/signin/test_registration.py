"""Clients that make themselves known: what they may say, how many they may be, and when they go."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as Browser
from django.utils import timezone
from oauth2_provider.models import Application

from mcphub.features.signin import clients
from mcphub.features.signin.models import Consent
from sessions_app.kit.addresses import network_of
from sessions_app.models import AuditEvent
from tests.factories import UserFactory

GOOD = {"client_name": "A client", "redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"}


def registered(told: Any, address: str = "127.0.0.1") -> Any:
    body = told if isinstance(told, bytes) else json.dumps(told)
    return Browser(REMOTE_ADDR=address).post("/oauth/register/", body, content_type="application/json")


def test_a_client_that_registers_is_on_record(db: Any) -> None:
    answer = registered(GOOD)
    assert answer.status_code == 201
    assert "client_secret" not in answer.json()
    [event] = AuditEvent.objects.filter(kind="client.registered")
    assert event.after == {"targets": ["127.0.0.1"], "redirects": 1, "address": "127.0.0.1"}


def test_a_record_of_a_registration_is_short_whatever_the_client_sends(db: Any) -> None:
    many = [f"https://{'x' * 400}{number}.example/{'y' * 50}" for number in range(clients.MOST_REDIRECTS)]
    assert registered({**GOOD, "client_name": "x" * 5000, "redirect_uris": many}).status_code == 201
    [event] = AuditEvent.objects.filter(kind="client.registered")
    assert len(event.subject_label) + len(json.dumps(event.after)) < 400


def test_a_network_that_registers_much_waits_and_others_do_not(db: Any) -> None:
    (_, most), (_, most_a_day) = clients.REGISTRATIONS_OF_A_NETWORK
    assert all(registered(GOOD, "203.0.113.7").status_code == 201 for _ in range(most))
    answer = registered(GOOD, "203.0.113.7")
    assert (answer.status_code, answer.json()["error"]) == (429, "temporarily_unavailable")
    assert 0 < int(answer["retry-after"]) <= 60
    assert registered(GOOD, "203.0.113.8").status_code == 201
    for address in ("2001:db8::1", "2001:db8::2"):
        AuditEvent.objects.bulk_create(_registrations(address, most_a_day // 2, timedelta(hours=3)))
    answer = registered(GOOD, "2001:db8::3")
    assert answer.status_code == 429
    assert 3600 < int(answer["retry-after"]) <= 24 * 3600
    assert registered(GOOD, "2001:db8:1::3").status_code == 201


def _registrations(address: str, count: int, ago: timedelta) -> list[AuditEvent]:
    return [
        AuditEvent(
            kind="client.registered",
            actor="anonymous",
            actor_label=network_of(address),
            happened_at=timezone.now() - ago,
        )
        for _ in range(count)
    ]


def test_a_client_says_by_which_grants_it_comes(db: Any) -> None:
    device = "urn:ietf:params:oauth:grant-type:device_code"
    assert registered(GOOD).json()["grant_types"] == ["authorization_code", "refresh_token"]
    both = registered({**GOOD, "grant_types": ["authorization_code", device]}).json()
    assert (both["grant_types"], both["response_types"]) == (["authorization_code", "refresh_token", device], ["code"])
    alone = registered({"grant_types": [device], "token_endpoint_auth_method": "none"}).json()
    assert (alone["grant_types"], alone["redirect_uris"]) == ([device, "refresh_token"], [])
    assert registered({"grant_types": ["authorization_code"]}).status_code == 400


def test_a_secret_is_shown_once_and_kept_as_a_digest(db: Any) -> None:
    told = registered({**GOOD, "token_endpoint_auth_method": "client_secret_post"}).json()
    client = Application.objects.get(client_id=told["client_id"])
    assert told["client_secret"] not in client.client_secret
    asked = {"grant_type": "refresh_token", "refresh_token": "x", "client_id": told["client_id"]}
    wrong = Browser().post("/oauth/token/", {**asked, "client_secret": "wrong"})
    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client")
    right = Browser().post("/oauth/token/", {**asked, "client_secret": told["client_secret"]})
    assert (right.status_code, right.json()["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize(
    "wrong",
    [
        {"redirect_uris": None},
        {"redirect_uris": "http://127.0.0.1/callback"},
        {"redirect_uris": []},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": ["data:text/html,x"]},
        {"redirect_uris": ["http://evil.example/callback"]},
        {"redirect_uris": ["https://evil.example/callback#x"]},
        {"redirect_uris": ["https://a b.example/"]},
        {"redirect_uris": ["https://user@evil.example/"]},
        {"redirect_uris": ["https://[/"]},
        {"redirect_uris": [f"https://client.example/{number}" for number in range(10_000)]},
        {"client_name": {"x": 1}},
        {"grant_types": ["password"]},
        {"grant_types": "authorization_code"},
        {"response_types": ["token"]},
        {"token_endpoint_auth_method": "private_key_jwt"},
    ],
)
def test_a_hostile_registration_is_refused_with_a_reason(db: Any, wrong: dict[str, Any]) -> None:
    answer = registered({**GOOD, **wrong})
    assert answer.status_code in (400, 413)
    assert answer.json()["error"] in ("invalid_client_metadata", "invalid_redirect_uri", "invalid_request")
    assert answer.json()["error_description"]
    assert not Application.objects.exists()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a":1,"a":2}', b"\xff\xfe"])
def test_a_registration_is_one_json_object(db: Any, body: bytes) -> None:
    assert registered(body).json()["error"] == "invalid_client_metadata"


def test_a_name_is_kept_as_people_may_read_it(db: Any) -> None:
    told = registered({**GOOD, "client_name": "  Claude\u202e\x00" + "x" * 300}).json()
    assert told["client_name"].startswith("Claude\\u202e\\u0000x")
    assert len(told["client_name"]) <= 200


def test_too_many_registrations_wait(db: Any) -> None:
    rows = [
        Application(client_id=f"c{number}", registration_source="dcr")
        for number in range(clients.REGISTRATIONS_A_MINUTE)
    ]
    Application.objects.bulk_create(rows)
    answer = registered(GOOD)
    assert (answer.status_code, answer.json()["error"]) == (429, "temporarily_unavailable")
    assert answer["retry-after"]


def test_the_oldest_client_that_nobody_uses_makes_room(db: Any, settings: Any) -> None:
    settings.MCPHUB_MAX_CLIENT_REGISTRATIONS = 2
    used, unused = (registered(GOOD).json()["client_id"] for _ in range(2))
    allowed = Application.objects.get(client_id=used)
    Consent.give(UserFactory(), allowed, "/mcp", ["tools:list"])
    third = registered(GOOD).json()["client_id"]
    assert set(Application.objects.values_list("client_id", flat=True)) == {used, third}
    Consent.give(UserFactory(), Application.objects.get(client_id=third), "/mcp", ["tools:list"])
    assert registered(GOOD).status_code == 429
    assert unused


def test_clients_that_nobody_uses_are_swept(db: Any) -> None:
    old, used, new = (registered(GOOD).json()["client_id"] for _ in range(3))
    Application.objects.exclude(client_id=new).update(created=timezone.now() - timedelta(days=2))
    Consent.give(UserFactory(), Application.objects.get(client_id=used), "/mcp", ["tools:list"])
    clients.sweep()
    assert set(Application.objects.values_list("client_id", flat=True)) == {used, new}
    assert old
