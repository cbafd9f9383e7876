"""Saved views over REST: each person's own, and those that are shared; of lists that the person may see."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from sessions_app.admin.lists import MOST_VIEWS
from sessions_app.models.lists import SavedView
from tests.factories import UserFactory
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.django_db

VIEWS = "/api/saved-views/"
CALLS, SESSIONS = "invocations.mcptoolinvocation", "sessions_app.mcpsession"
FAILED = "status__exact=error&columns=status,tool"


def of(role: str, name: str) -> Client:
    person = UserFactory(username=name, is_staff=True)
    person.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(person)
    return client


def send(client: Any, method: str, where: str, **body: Any) -> Any:
    return getattr(client, method)(where, body, content_type="application/json")


def save(client: Any, **body: Any) -> Any:
    return send(client, "post", VIEWS, **{"page": CALLS, "name": "Failed", "query": FAILED, **body})


def names(client: Any, **query: Any) -> list[str]:
    return [each["name"] for each in client.get(VIEWS, query).json()["results"]]


def test_a_person_saves_a_view_changes_it_and_deletes_it() -> None:
    ada = of("Viewer", "ada")
    made = save(ada, query=f"{FAILED}&p=3")
    assert made.status_code == 201, made.content
    told = made.json()
    assert (told["query"], told["owner"], told["is_own"]) == (FAILED, "ada", True)
    assert told["address"] == f"http://testserver/admin/invocations/mcptoolinvocation/?{FAILED}"
    assert ada.get(told["address"].removeprefix("http://testserver")).status_code == 200
    one = f"{VIEWS}{told['id']}/"
    assert send(ada, "patch", one, name="Failures", query="status__exact=error").json()["name"] == "Failures"
    error_of(send(ada, "patch", one, page=SESSIONS), 400, "invalid_params")
    assert ada.delete(one).status_code == 204
    assert not SavedView.objects.exists()


def test_a_view_of_somebody_else_is_none_until_it_is_shared() -> None:
    ada, bob, viewer = of("Operator", "ada"), of("Operator", "bob"), of("Viewer", "viewer")
    one = f"{VIEWS}{save(ada).json()['id']}/"
    error_of(bob.get(one), 404, "not_found")
    assert send(ada, "patch", one, is_shared=True).status_code == 200
    assert names(bob) == names(viewer) == ["Failed"]
    assert bob.get(one).json()["is_own"] is False
    said = error_of(send(viewer, "patch", one, name="Mine"), 403, "forbidden")
    assert said["details"] == {"permission": "sessions_app.share_savedview"}
    error_of(viewer.delete(one), 403, "forbidden")
    error_of(send(bob, "patch", one, query="q=other"), 403, "forbidden")
    assert send(bob, "patch", one, name="Failures").status_code == 200
    assert bob.delete(one).status_code == 204


def test_sharing_asks_for_its_permission() -> None:
    viewer = of("Viewer", "viewer")
    error_of(save(viewer, is_shared=True), 403, "forbidden")
    one = f"{VIEWS}{save(viewer).json()['id']}/"
    error_of(send(viewer, "patch", one, is_shared=True), 403, "forbidden")
    assert not SavedView.objects.get().is_shared


def test_views_are_of_lists_that_the_person_may_see() -> None:
    owner = of("Operator", "owner")
    save(owner, is_shared=True)
    save(owner, page=SESSIONS, name="Open", is_shared=True)
    sees_sessions = by_person("sessions_app.view_mcpsession", is_staff=True)
    assert names(sees_sessions) == ["Open"]
    said = error_of(save(sees_sessions), 409, "conflict")
    assert SESSIONS in said["details"]["fields"]["page"][0]
    error_of(save(owner, page="auth.user"), 409, "conflict")
    assert names(owner, page=CALLS) == ["Failed"]
    assert names(owner, shared="false") == []


def test_keys_and_who_is_not_in_the_console_have_no_views() -> None:
    error_of(by_key("audit:read", "catalog:write").get(VIEWS), 403, "forbidden")
    error_of(by_person("sessions_app.view_mcpsession").get(VIEWS), 403, "forbidden")
    error_of(Client().get(VIEWS), 401, "unauthorized")


def test_a_name_is_taken_once_and_a_person_has_so_many_views_of_a_list() -> None:
    ada = of("Viewer", "ada")
    save(ada)
    error_of(save(ada), 409, "conflict")
    owner = User.objects.get(username="ada")
    SavedView.objects.bulk_create(
        SavedView(owner=owner, page=CALLS, name=f"View {number}") for number in range(MOST_VIEWS - 1)
    )
    said = error_of(save(ada, name="One more"), 409, "conflict")
    assert str(MOST_VIEWS) in said["details"]["fields"]["page"][0]
    error_of(save(ada, name="Long", query="q=" + "x" * 4000), 400, "invalid_params")
    error_of(save(ada, name=""), 400, "invalid_params")


def test_a_list_of_views_asks_as_much_for_many_as_for_one(django_assert_num_queries: Any) -> None:
    client = by_person(is_superuser=True, is_staff=True, username="ada")
    owner = User.objects.get(username="ada")
    SavedView.objects.bulk_create(SavedView(owner=owner, page=CALLS, name=f"View {number}") for number in range(30))
    with django_assert_num_queries(3):  # session, person, rows with their owners
        assert len(names(client)) == 30
