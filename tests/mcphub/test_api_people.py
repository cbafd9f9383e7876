"""People over REST: read and changed by people, by the rules of the console, and nobody gives what they lack."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from sessions_app.history.models import AuditEvent
from sessions_app.models import ApiKey
from tests.factories import GroupFactory, UserFactory
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.django_db

PEOPLE = "/api/people/"
RIGHTS = ("auth.view_user", "auth.change_user")


def change(client: Client, name: str, **body: Any) -> Any:
    return client.patch(f"{PEOPLE}{name}/", body, content_type="application/json")


def root() -> Client:
    return by_person(username="root", is_superuser=True, is_staff=True)


def names(client: Client, **query: Any) -> list[str]:
    return [row["username"] for row in client.get(PEOPLE, query).json()["results"]]


def test_people_are_listed_by_what_they_are_and_in_which_group() -> None:
    readers, writers = GroupFactory(name="Readers"), GroupFactory(name="Writers")
    ada, bob = UserFactory(username="ada", is_staff=True), UserFactory(username="bob", is_active=False)
    ada.groups.set([readers, writers])
    bob.groups.set([readers])
    client = root()
    assert names(client) == ["ada", "bob", "root"]
    assert names(client, active="false") == ["bob"]
    assert names(client, console="true") == ["ada", "root"]
    assert names(client, superuser="true") == ["root"]
    assert names(client, group=["Readers", "Writers"]) == ["ada", "bob"]
    assert names(client, not_group="Readers") == ["root"]
    given = client.get(f"{PEOPLE}ada/").json()
    assert (given["principal"], given["groups"], given["kept_by_directory"]) == (
        f"user:{ada.pk}",
        ["Readers", "Writers"],
        False,
    )
    assert not {"password", "user_permissions", "id"} & set(given)


def test_no_key_and_nobody_without_the_permission_reads_or_changes_people() -> None:
    UserFactory(username="ada")
    for key in (by_key("audit:read"), by_key("catalog:write", "keys:write", "people:write")):
        assert "not by keys" in error_of(key.get(PEOPLE), 403, "forbidden")["message"]
        error_of(change(key, "ada", is_active=False), 403, "forbidden")
    auditor = UserFactory(is_staff=True)
    auditor.groups.add(Group.objects.get(name="Auditor"))
    client = Client()
    client.force_login(auditor)
    error_of(client.get(PEOPLE), 403, "forbidden")
    error_of(change(by_person("auth.view_user"), "ada", is_active=False), 403, "forbidden")
    assert User.objects.get(username="ada").is_active
    error_of(root().delete(f"{PEOPLE}ada/"), 405, "method_not_allowed")


def test_who_is_made_inactive_loses_keys_for_good_and_it_is_on_record_why() -> None:
    ada = UserFactory(username="ada")
    key, _text = ApiKey.issue("laptop", owner=ada)
    client = root()
    answer = change(client, "ada", is_active=False, reason="left the house")
    assert (answer.status_code, answer.json()["is_active"]) == (200, False)
    key.refresh_from_db()
    assert key.revoked_at is not None
    event = AuditEvent.objects.filter(kind="user.changed", subject_label="ada").latest("id")
    assert (event.after, event.reason, event.actor_label, event.via) == (
        {"is_active": False},
        "left the house",
        "root",
        "rest",
    )
    assert change(client, "ada", is_active=True).json()["is_active"]
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_all_access_of_a_person_ends_who_stays_active() -> None:
    ada = UserFactory(username="ada")
    ApiKey.issue("laptop", owner=ada)
    client = root()
    answer = client.post(f"{PEOPLE}ada/end/", {"reason": "a lost laptop"}, content_type="application/json")
    assert (answer.status_code, answer.json()["is_active"]) == (200, True)
    assert not ApiKey.objects.filter(owner=ada, revoked_at=None).exists()
    assert AuditEvent.objects.get(kind="user.ended").reason == "a lost laptop"
    error_of(
        by_person("auth.view_user").post(f"{PEOPLE}ada/end/", {}, content_type="application/json"), 403, "forbidden"
    )


def test_neither_oneself_nor_the_last_superuser_is_made_inactive() -> None:
    client = root()
    said = error_of(change(client, "root", is_active=False), 409, "conflict")
    assert "their own account" in said["details"]["fields"]["is_active"][0]
    assert User.objects.get(username="root").is_active


def test_nobody_hands_out_a_group_that_they_lack_or_changes_who_has_more() -> None:
    own, other = GroupFactory(name="Own"), GroupFactory(name="Other")
    UserFactory(username="ada")
    strong = UserFactory(username="strong")
    strong.user_permissions.add(Permission.objects.get(codename="view_mcpsession"))
    client = by_person(*RIGHTS, username="clerk", is_staff=True)
    User.objects.get(username="clerk").groups.add(own)
    assert change(client, "ada", groups=["Own"]).json()["groups"] == ["Own"]
    said = error_of(change(client, "ada", groups=["Own", "Other"]), 409, "conflict")
    assert "Other" in said["details"]["fields"]["groups"][0]
    error_of(change(client, "ada", groups=["Nowhere"]), 409, "conflict")
    assert change(client, "ada", groups=[]).json()["groups"] == []
    error_of(change(client, "strong", is_active=False), 403, "forbidden")
    UserFactory(username="above", is_superuser=True)
    error_of(change(client, "above", groups=[]), 403, "forbidden")
    assert not other.user_set.exists()


def test_a_group_of_the_console_opens_it_and_its_loss_closes_it() -> None:
    UserFactory(username="ada", is_staff=False)
    client = root()
    assert change(client, "ada", groups=["Viewer"]).json()["is_staff"]
    assert not change(client, "ada", groups=[]).json()["is_staff"]
    kinds = AuditEvent.objects.filter(kind="user.changed", subject_label="ada").order_by("id")
    assert [event.after for event in kinds] == [
        {"groups": ["Viewer"]},
        {"is_staff": True},
        {"groups": []},
        {"is_staff": False},
    ]


@pytest.mark.parametrize(
    "body", [{"is_superuser": True}, {"username": "eve"}, {"is_active": "no"}, {"password": "x"}, {"groups": "Own"}]
)
def test_what_cannot_be_changed_over_rest_is_refused(body: dict[str, Any]) -> None:
    UserFactory(username="ada")
    error_of(change(root(), "ada", **body), 400, "invalid_params")


def test_a_list_of_people_asks_as_much_for_many_as_for_one(django_assert_num_queries: Any) -> None:
    client = root()
    for number in range(20):
        UserFactory(username=f"person-{number}").groups.add(GroupFactory(name=f"Group {number}"))
    with django_assert_num_queries(4):  # session, person, rows, groups
        assert len(names(client)) == 21
