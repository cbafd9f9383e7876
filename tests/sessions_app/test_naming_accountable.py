"""Who answers for a key is read and named on its page and over REST; what needs two people waits for the second."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from sessions_app import accountable
from sessions_app.history import deciding
from sessions_app.history.deciding import ConfirmationRefused
from sessions_app.models import ApiKey, AuditEvent, WaitingChange
from tests.factories import UserFactory
from tests.rest import by_key, by_person, error_of
from tests.sessions_app.test_waiting_changes import editing, operator

pytestmark = pytest.mark.django_db


def stray() -> ApiKey:
    """Return a key that a command made, so that nobody is known to answer for it."""
    return ApiKey.issue("robot", scopes=["tools:call"])[0]


def by_page(person: Any, key: ApiKey, people: str) -> Any:
    client = Client()
    client.force_login(person)
    body = {"people": people, "reason": "I asked", "confirmed": "yes"}
    return client.post(f"/admin/sessions_app/apikey/{key.pk}/accountable/", body)


def by_rest(client: Client, key: ApiKey, *people: str) -> Any:
    body = {"people": people, "reason": "I asked"}
    return client.post(f"/api/keys/{key.prefix}/accountable/", body, content_type="application/json")


def test_rest_says_who_answers_for_each_key() -> None:
    key = stray()
    own, _text = ApiKey.issue("own", owner=UserFactory(username="ada"))
    client = by_key("audit:read")
    assert client.get(f"/api/keys/{key.prefix}/").json()["accountable"] == ["?"]
    told = {row["prefix"]: row["accountable"] for row in client.get("/api/keys/").json()["results"]}
    assert (told[key.prefix], told[own.prefix]) == (["?"], ["ada"])


def test_the_page_says_who_answers_for_the_key_and_why() -> None:
    olga = operator("olga")
    made, _text = ApiKey.issue("made", created_by=olga)
    own, _text = ApiKey.issue("own", owner=olga)
    client = Client()
    client.force_login(olga)
    for key, words in ((made, "created it"), (own, "this person&#x27;s key"), (stray(), "a command, or a key")):
        page = client.get(reverse("admin:sessions_app_apikey_change", args=[key.pk])).content.decode()
        assert words in page


@pytest.mark.parametrize("door", ["page", "rest"])
def test_a_superuser_names_people_at_once(door: str) -> None:
    key = stray()
    UserFactory(username="ada")
    root = UserFactory(username="root", is_superuser=True, is_staff=True)
    client = Client()
    client.force_login(root)
    answer = by_page(root, key, "ada") if door == "page" else by_rest(client, key, "ada")
    assert answer.status_code == (302 if door == "page" else 200), answer.content
    assert accountable.names_of(key.credential) == ["ada"]
    event = AuditEvent.objects.get(kind="key.accountable")
    assert (event.before, event.after, event.reason) == ({"accountable": ["?"]}, {"accountable": ["ada"]}, "I asked")


@pytest.mark.parametrize("door", ["page", "rest"])
def test_one_person_does_not_say_alone_that_everybody_is_known(door: str) -> None:
    """Else an operator would name another for a key of their own, and confirm alone what it proposes."""
    key = stray()
    UserFactory(username="ada")
    olga = operator("olga")
    client = Client()
    client.force_login(olga)
    answer = by_page(olga, key, "ada") if door == "page" else by_rest(client, key, "ada")
    if door == "rest":
        assert (answer.status_code, answer.json()["fields_held"]) == (202, ["accountable"])
    assert accountable.names_of(key.credential) == ["?"]
    change = WaitingChange.objects.get()
    assert (change.before, change.after) == ({"accountable": ["?"]}, {"accountable": ["ada"]})
    with pytest.raises(ConfirmationRefused):
        deciding.confirm(change.pk, olga, "me")
    second = operator("otto")
    with editing(second):
        deciding.confirm(change.pk, second, "asked ada")
    assert accountable.names_of(key.credential) == ["ada"]


def test_anybody_who_edits_keys_adds_people_and_leaves_none_out() -> None:
    key = stray()
    UserFactory(username="ada")
    client = Client()
    client.force_login(operator("olga"))
    assert by_rest(client, key, "?", "ada").status_code == 200
    assert accountable.names_of(key.credential) == ["?", "ada"]
    assert by_rest(client, key, "ada").status_code == 202
    assert by_rest(client, key, "?").status_code == 202
    assert accountable.names_of(key.credential) == ["?", "ada"]


def test_a_change_that_waits_is_void_once_somebody_else_got_the_key() -> None:
    key = stray()
    accountable.name(key.credential, [UserFactory(username="ada").pk])
    UserFactory(username="bob")
    client = Client()
    client.force_login(operator("olga"))
    assert by_rest(client, key, "bob").status_code == 202
    accountable.name(key.credential, [UserFactory(username="eve").pk])
    with pytest.raises(ConfirmationRefused, match="has changed"):
        deciding.confirm(WaitingChange.objects.get().pk, operator("otto"), "seen")


def test_a_key_names_nobody_without_a_second_person_nor_does_who_may_not_edit_keys() -> None:
    key = stray()
    UserFactory(username="ada")
    assert by_rest(by_key("keys:write", "audit:read"), key, "ada").status_code == 202
    error_of(by_rest(by_key("audit:read"), key, "ada"), 403, "forbidden")
    error_of(by_rest(by_person("sessions_app.view_apikey"), key, "ada"), 403, "forbidden")
    refused = by_rest(by_person(is_superuser=True), key, "nobody-here")
    assert "nobody-here" in str(error_of(refused, 400, "invalid_params")["details"])
    assert accountable.names_of(key.credential) == ["?"]
