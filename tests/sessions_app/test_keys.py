"""Keys and whose they are: what a person's key may do, who may make one, and how the hub warns of its end."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import DatabaseError, models
from django.test import Client
from django.utils import timezone

from sessions_app.caller import Keys
from sessions_app.history.reading import history_of
from sessions_app.keys import making, reminding
from sessions_app.models import ApiKey
from sessions_app.protocol.errors import Unauthenticated
from tests.factories import GroupFactory, UserFactory
from tests.rest import by_key, by_person, by_token, error_of

pytestmark = pytest.mark.django_db

MAKER = ("sessions_app.add_apikey", "sessions_app.change_apikey", "sessions_app.view_apikey")


def found(token: str) -> Any:
    digest = Keys.digest(f"Bearer {token}")
    assert digest is not None
    return Keys.load().find(digest)


def post(client: Client, path: str = "/api/keys/", **body: Any) -> Any:
    return client.post(path, body, content_type="application/json")


# What a person's key may do --------------------------------------------------------------------------------


def test_the_key_of_a_person_calls_as_the_person_and_is_named_beside() -> None:
    alice = UserFactory(username="alice")
    key, token = ApiKey.issue("laptop", owner=alice, scopes=["tools:call"])
    caller = found(token)
    assert (caller.principal, caller.credential) == (f"user:{alice.pk}", f"key:{key.pk}")
    assert caller.label == f"alice via laptop (key {key.pk})"


def test_a_key_without_a_person_is_its_own_caller() -> None:
    key, token = ApiKey.issue("robot", scopes=["tools:call"], service="build")
    caller = found(token)
    assert (caller.principal, caller.credential, caller.label) == (f"key:{key.pk}", f"key:{key.pk}", "robot")


def test_a_persons_key_has_the_groups_that_both_have_at_the_moment() -> None:
    ours, theirs = GroupFactory(), GroupFactory()
    alice = UserFactory()
    alice.groups.add(ours)
    key, token = ApiKey.issue("laptop", owner=alice, groups=[ours, theirs])
    assert found(token).groups == {ours.pk}
    assert list(key.held_groups()) == [ours]
    alice.groups.clear()
    assert found(token).groups == set()


def test_a_persons_key_loses_a_scope_with_the_permission(django_user_model: Any) -> None:
    boss = UserFactory(is_superuser=True)
    _key, token = ApiKey.issue("laptop", owner=boss, scopes=["tools:list", "audit:read"])
    assert found(token).scopes == {"tools:list", "audit:read"}
    assert by_token(token).get("/api/invocations/").status_code == 200
    django_user_model.objects.filter(pk=boss.pk).update(is_superuser=False)
    assert found(token).scopes == {"tools:list"}
    error_of(by_token(token).get("/api/invocations/"), 403, "forbidden")


def test_a_superusers_key_sees_no_more_than_its_groups() -> None:
    _, token = ApiKey.issue("laptop", owner=UserFactory(is_superuser=True), scopes=["tools:list"])
    assert not found(token).sees_everything


def test_the_key_of_a_disabled_person_opens_nothing(django_user_model: Any) -> None:
    alice = UserFactory()
    _, token = ApiKey.issue("laptop", owner=alice, scopes=["audit:read"])
    django_user_model.objects.filter(pk=alice.pk).update(is_active=False)
    assert found(token) is None
    error_of(by_token(token).get("/api/invocations/"), 401, "unauthorized")


def test_texts_of_whoever_ended_are_taken_out_at_once() -> None:
    alice = UserFactory(username="alice")
    texts = {
        name: ApiKey.issue(name, owner=owner)[1] for name, owner in (("of alice", alice), ("b", None), ("c", None))
    }
    keys = Keys.load()
    digests = {name: Keys.digest(f"Bearer {text}") or b"" for name, text in texts.items()}
    keys.drop(set())
    keys.drop({f"user:{alice.pk}", "user:0"})
    assert [keys.find(digests[name]) is None for name in texts] == [True, False, False]
    keys.drop({ApiKey.objects.get(name="b").principal})
    with pytest.raises(Unauthenticated, match="revoked"):
        keys.find(digests["b"])
    assert keys.find(digests["c"]) is not None


def test_reading_changed_keys_again_asks_as_much_and_changes_nothing_of_others_however_many_there_are(
    django_assert_num_queries: Any,
) -> None:
    alice = UserFactory(username="alice")
    made = {
        name: ApiKey.issue(name, owner=owner) for name, owner in (("hers", alice), ("hers too", alice), ("b", None))
    }
    digests = {name: Keys.digest(f"Bearer {text}") or b"" for name, (_, text) in made.items()}
    keys = Keys.load()
    others = keys.find(digests["hers too"])
    for number in range(20):
        ApiKey.issue(f"another {number}", owner=UserFactory())
    new, text = ApiKey.issue("new")
    made["hers"][0].expires_at = timezone.now() + timedelta(hours=1)
    made["hers"][0].save()
    ApiKey.objects.filter(name="b").revoke()
    ids = [made["hers"][0].pk, made["b"][0].pk, new.pk]
    with django_assert_num_queries(7):  # workspaces and their roles, keys, their groups, those of alice
        read = Keys.read(ids)
    keys.put(ids, read)
    assert keys.find(Keys.digest(f"Bearer {text}") or b"") is not None
    assert keys.find(digests["b"]) is None
    assert keys.find(digests["hers too"]) is others
    assert keys.ended(keys, time.time()) == {f"key:{made['b'][0].pk}"}
    in_two_hours = time.time() + 7200
    assert keys.ended(keys, in_two_hours) == {f"key:{made[name][0].pk}" for name in ("hers", "b")}
    keys.drop({f"user:{alice.pk}"})
    assert keys.find(digests["hers too"]) is None


def test_a_key_keeps_its_owner_whatever_writes_the_row() -> None:
    key, _ = ApiKey.issue("laptop", owner=UserFactory())
    with pytest.raises(DatabaseError, match="keeps its owner"):
        ApiKey.objects.filter(pk=key.pk).update(owner=UserFactory())


def test_a_person_with_keys_is_not_deleted_under_them() -> None:
    key, _ = ApiKey.issue("laptop", owner=UserFactory())
    with pytest.raises(models.ProtectedError):
        key.owner.delete()  # type: ignore[union-attr]


@pytest.mark.parametrize("fields", [{"service": "build"}, {"recorded_mib_per_day": 5}])
def test_what_belongs_to_services_is_refused_for_a_person(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ApiKey.issue("laptop", owner=UserFactory(), **fields)


# Who may make one ------------------------------------------------------------------------------------------


def test_a_key_is_made_over_rest_and_shown_once() -> None:
    client = by_person(*MAKER)
    made = post(client, name="robot", service="build")
    assert made.status_code == 201, made.content
    body = made.json()
    assert body["text"].startswith(body["prefix"])
    assert timedelta(days=364) < timezone.datetime.fromisoformat(body["expires_at"]) - timezone.now()
    assert found(body["text"]).principal == body["principal"]
    read = client.get(f"/api/keys/{body['prefix']}/")
    assert (read.status_code, "text" in read.json()) == (200, False)
    assert body["text"] not in client.get("/api/keys/").content.decode()


def test_no_end_must_be_said() -> None:
    assert post(by_person(*MAKER), name="robot", expires_at=None).json()["expires_at"] is None


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_params"),
        ({"name": "x", "scopes": ["everything"]}, 400, "invalid_params"),
        ({"name": "x", "owner": "nobody-of-this-name"}, 409, "conflict"),
        ({"name": "x", "text": "mcph_mine"}, 400, "invalid_params"),
        ({"name": "x", "scopes": ["audit:read"]}, 409, "conflict"),
        ({"name": "x", "groups": ["strangers"]}, 409, "conflict"),
        ({"name": "x", "owner": "victim"}, 409, "conflict"),
    ],
)
def test_who_may_make_keys_hands_out_no_more_than_they_have(body: dict[str, Any], status: int, code: str) -> None:
    GroupFactory(name="strangers")
    UserFactory(username="victim")
    before = ApiKey.objects.count()
    error_of(post(by_person(*MAKER), **body), status, code)
    assert ApiKey.objects.count() == before


def test_a_person_may_make_a_key_of_their_own_and_a_superuser_one_for_anybody() -> None:
    own = post(by_person(*MAKER, username="alice"), name="mine", owner="alice")
    assert (own.status_code, own.json()["principal"][:5]) == (201, "user:")
    assert post(by_person(is_superuser=True), name="theirs", owner="alice").status_code == 201


def test_a_key_makes_keys_within_its_own_scopes_and_groups() -> None:
    group = GroupFactory(name="ours")
    client = by_key("keys:write", "tools:call", groups=(group,))
    assert post(client, name="child", scopes=["tools:call"], groups=["ours"]).status_code == 201
    error_of(post(client, name="child", scopes=["audit:read"]), 409, "conflict")
    error_of(post(client, name="child", scopes=["tools:call"], groups=[GroupFactory().name]), 409, "conflict")
    UserFactory(username="victim")
    error_of(post(client, name="child", scopes=["tools:call"], owner="victim"), 409, "conflict")
    error_of(post(by_key("tools:call"), name="child"), 403, "forbidden")


def test_the_text_of_a_persons_key_is_changed_by_that_person_alone() -> None:
    alice = UserFactory(username="alice")
    key, token = ApiKey.issue("laptop", owner=alice, scopes=["tools:call"])
    path = f"/api/keys/{key.prefix}/rotate/"
    error_of(post(by_person(*MAKER), path), 403, "forbidden")
    error_of(post(by_key("keys:write", "tools:call"), path), 403, "forbidden")
    assert found(token) is not None
    mine = post(by_person(is_superuser=True), path, overlap_hours=1, reason="yearly")
    assert (mine.status_code, found(mine.json()["text"]).principal) == (200, f"user:{alice.pk}")
    assert found(token) is not None


def test_a_key_is_revoked_once_and_then_has_no_new_text() -> None:
    key, token = ApiKey.issue("robot", scopes=["tools:call"])
    client = by_person(*MAKER)
    assert post(client, f"/api/keys/{key.prefix}/revoke/", reason="lost").json()["revoked_at"]
    assert found(token) is None
    assert history_of(key).first().reason == "lost"  # type: ignore[union-attr]
    assert post(client, f"/api/keys/{key.prefix}/revoke/").status_code == 200
    error_of(post(client, f"/api/keys/{key.prefix}/rotate/"), 409, "conflict")
    error_of(post(client, "/api/keys/mcph_00000000/revoke/"), 404, "not_found")
    error_of(post(client, f"/api/keys/{key.prefix}/rotate/", overlap_hours=169), 400, "invalid_params")


def test_a_person_has_a_bounded_number_of_keys() -> None:
    alice = UserFactory()
    for number in range(making.MOST_OF_PERSON):
        ApiKey.issue(f"key {number}", owner=alice)
    with pytest.raises(ValidationError, match="Revoke one first"):
        making.refuse(None, owner=alice, scopes=[], groups=[])


# Its end ---------------------------------------------------------------------------------------------------


def aged(name: str, *, ends_in: float, life: float) -> ApiKey:
    now = timezone.now()
    end = now + timedelta(days=ends_in)
    return ApiKey.issue(name, expires_at=end, created_at=end - timedelta(days=life))[0]


def test_the_hub_warns_once_of_each_end() -> None:
    key = aged("robot", ends_in=10, life=365)
    aged("far", ends_in=100, life=365)
    aged("brief", ends_in=1, life=2)
    aged("over", ends_in=-1, life=365)
    assert (reminding.remind(), reminding.remind()) == (1, 0)
    event = history_of(key).first()
    assert event is not None
    assert (event.kind, event.actor) == ("key.ends_soon", "hub")
    assert reminding.ends_soon(key)
    key.expires_at = timezone.now() + timedelta(days=12)
    key.save()
    assert reminding.remind() == 1
