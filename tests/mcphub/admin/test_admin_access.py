"""Keys are shown once and hand out no more than their maker has; sessions are closed on record; roles are made."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, Permission
from django.urls import reverse
from django.utils import timezone

from mcphub import groups
from mcphub.console.persons import role_of
from sessions_app import bus
from sessions_app.history.reading import history_of
from sessions_app.models import ApiKey, BusEvent, McpSession
from tests.factories import ApiKeyFactory, GroupFactory, McpSessionFactory, UserFactory

ADD = "admin:sessions_app_apikey_add"
KEYS = "admin:sessions_app_apikey_changelist"
SESSIONS = "admin:sessions_app_mcpsession_changelist"


def key_data(**changes):
    return {
        "name": "laptop",
        "scopes": ["tools:list", "tools:call"],
        "expires_at_0": "2099-01-01",
        "expires_at_1": "00:00:00",
        **changes,
    }


def test_a_key_is_shown_once_with_client_configurations(log_in):
    client = log_in("Operator")
    group = GroupFactory()
    client.user.groups.add(group)
    response = client.post(reverse(ADD), key_data(groups=[group.pk], calls_per_minute="60"))
    assert response.status_code == 200
    key = ApiKey.objects.get()
    token = response.context["text"]
    assert ApiKey.hash(token) == key.secret_hash
    assert (key.scopes, key.calls_per_minute, key.created_by) == (["tools:list", "tools:call"], 60, client.user)
    assert list(key.groups.all()) == [group]
    page = response.content.decode()
    assert page.count(token) > 1  # alone, and inside the configurations
    assert "no-store" in response["Cache-Control"]
    for address in (reverse(KEYS), reverse("admin:sessions_app_apikey_change", args=[key.pk])):
        later = client.get(address).content.decode()
        assert token not in later
        assert key.secret_hash not in later
        assert key.prefix in later
    assert history_of(key).first().actor == f"user:{client.user.pk}"


def test_a_key_expires_after_a_year_unless_told_otherwise(log_in):
    form = log_in("Operator").get(reverse(ADD)).context["adminform"].form
    expires = form.get_initial_for_field(form.fields["expires_at"], "expires_at")
    assert timedelta(days=364) < expires - timezone.now() <= timedelta(days=365)


@pytest.mark.parametrize(("role", "may"), [("Operator", False), ("superuser", True)])
def test_a_key_in_the_name_of_somebody_else_is_for_a_superuser_to_make(role, may, log_in):
    """Whoever has its text is that person to the hub."""
    client, other = log_in(role), UserFactory()
    client.post(reverse(ADD), key_data(owner=other.pk))
    assert ApiKey.objects.filter(owner=other).exists() is may
    client.post(reverse(ADD), key_data(owner=client.user.pk))
    mine = ApiKey.objects.get(owner=client.user)
    page = client.get(reverse("admin:sessions_app_apikey_change", args=[mine.pk])).content.decode()
    assert client.user.username in page


def test_the_text_of_a_persons_key_is_not_for_an_operator(log_in):
    key, _ = ApiKey.issue("laptop", owner=UserFactory())
    client = log_in("Operator")
    assert (
        client.post(f"/admin/sessions_app/apikey/{key.pk}/rotate/", {"confirmed": "1", "overlap": "0"}).status_code
        == 403
    )
    gone = {"confirmed": "1", "typed": "laptop", "reason": "lost"}
    assert client.post(f"/admin/sessions_app/apikey/{key.pk}/revoke/", gone).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None


@pytest.mark.parametrize(
    ("role", "scope", "allowed"),
    [("Operator", "audit:read", False), ("Operator", "catalog:write", True), ("superuser", "audit:read", True)],
)
def test_nobody_hands_out_a_scope_beyond_their_own(role, scope, allowed, log_in):
    """Else a key would read the bodies that its maker may not."""
    log_in(role).post(reverse(ADD), key_data(scopes=[scope]))
    assert ApiKey.objects.exists() is allowed


def test_an_operator_gives_a_key_only_groups_of_his_own(log_in):
    """Else a key would see tools that are hidden from its maker. What the key has already may stay."""
    client = log_in("Operator")
    own, foreign = GroupFactory(), GroupFactory()
    client.user.groups.add(own)
    refused = client.post(reverse(ADD), key_data(groups=[own.pk, foreign.pk]))
    assert foreign.name in str(refused.context["adminform"].form.errors["groups"])
    assert not ApiKey.objects.exists()

    key, _text = ApiKey.issue("laptop", scopes=["tools:call"])
    change = reverse("admin:sessions_app_apikey_change", args=[key.pk])
    client.post(change, key_data(groups=[foreign.pk]))
    assert not key.groups.exists()
    key.groups.add(foreign)
    assert client.post(change, key_data(groups=[own.pk, foreign.pk])).status_code == 302
    assert set(key.groups.all()) == {own, foreign}
    # Who rotates a key has its text.
    assert (
        client.post(reverse("admin:sessions_app_apikey_rotate", args=[key.pk]), {"confirmed": "yes"}).status_code == 403
    )

    log_in("superuser").post(reverse(ADD), key_data(groups=[foreign.pk], name="of a superuser"))
    assert list(ApiKey.objects.get(name="of a superuser").groups.all()) == [foreign]


@pytest.fixture
def keeper(log_in):
    """One who manages people and groups, and is no superuser."""
    client = log_in("Operator")
    names = ["add_user", "change_user", "delete_user", "view_user", "add_group", "change_group", "view_group"]
    client.user.user_permissions.set(Permission.objects.filter(codename__in=names, content_type__app_label="auth"))
    return client


def person_data(person, **changes):
    return {"username": person.username, "role": role_of(person), **changes}


def test_a_person_is_given_only_what_the_giver_has(keeper, django_user_model):
    person = django_user_model.objects.create_user("ada")
    address = reverse("admin:auth_user_change", args=[person.pk])
    foreign, auditor = GroupFactory(), Group.objects.get(name="Auditor")
    refused = keeper.post(address, person_data(person, role=str(auditor.pk), tool_groups=[foreign.pk]))
    errors = refused.context["adminform"].form.errors
    assert foreign.name in str(errors["role"])
    assert "superuser" in keeper.post(address, person_data(person, role="superuser")).context["errors"].as_text()

    own = Group.objects.get(name="Operator")
    assert keeper.post(address, person_data(person, role=str(own.pk), is_superuser="on")).status_code == 302
    person.refresh_from_db()
    assert (list(person.groups.all()), person.is_staff, person.is_superuser) == ([own], True, False)


def test_nobody_changes_a_person_who_has_more(keeper, django_user_model):
    """A password that one sets is a login that one has."""
    root = django_user_model.objects.create_superuser("root", password="as before")
    auditor = django_user_model.objects.create_user("auditor")
    auditor.groups.add(Group.objects.get(name="Auditor"))
    new = {"password1": "something else 1", "password2": "something else 1", "usable_password": "true"}
    for person in (root, auditor):
        for name in ("change", "delete"):
            address = reverse(f"admin:auth_user_{name}", args=[person.pk])
            assert keeper.post(address, person_data(person, post="yes")).status_code == 403
        assert keeper.post(reverse("admin:auth_user_password_change", args=[person.pk]), new).status_code == 403
    root.refresh_from_db()
    assert root.check_password("as before")


def test_a_group_is_given_only_permissions_that_the_giver_has(keeper):
    group = keeper.user.groups.get()
    bodies = Permission.objects.get(codename="read_bodies")
    address = reverse("admin:auth_group_change", args=[group.pk])
    kept = list(group.permissions.values_list("pk", flat=True))
    refused = keeper.post(address, {"name": group.name, "permissions": [*kept, bodies.pk]})
    assert "invocations.read_bodies" in str(refused.context["adminform"].form.errors["permissions"])
    assert bodies not in group.permissions.all()


def test_rotation_asks_then_shows_the_new_text_once(log_in):
    key, old = ApiKey.issue("laptop", scopes=["tools:call"])
    client = log_in("Operator")
    address = reverse("admin:sessions_app_apikey_rotate", args=[key.pk])
    assert client.get(address).status_code == 200
    key.refresh_from_db()
    assert key.secret_hash == ApiKey.hash(old)
    text = client.post(address, {"confirmed": "yes", "overlap": "0"}).context["text"]
    key.refresh_from_db()
    assert key.secret_hash == ApiKey.hash(text) != ApiKey.hash(old)
    assert history_of(key).first().reason == "rotated"


def test_a_key_with_a_scope_beyond_their_own_is_not_rotated_by_an_operator(log_in):
    key, _text = ApiKey.issue("auditor", scopes=["audit:read"])
    address = reverse("admin:sessions_app_apikey_rotate", args=[key.pk])
    client = log_in("Operator")
    assert address not in client.get(reverse("admin:sessions_app_apikey_change", args=[key.pk])).content.decode()
    assert client.post(address, {"confirmed": "yes"}).status_code == 403
    assert log_in("Auditor").post(address, {"confirmed": "yes"}).status_code == 403


def test_revoking_wants_the_name_written_and_is_on_record(log_in):
    key, _text = ApiKey.issue("laptop", scopes=["tools:call"])
    client = log_in("Operator")
    address = reverse("admin:sessions_app_apikey_revoke", args=[key.pk])
    client.post(address, {"confirmed": "yes", "typed": "wrong"})
    key.refresh_from_db()
    assert key.revoked_at is None
    done = client.post(address, {"confirmed": "yes", "typed": "laptop", "reason": "lost"}, follow=True)
    assert "Key revoked." in done.content.decode()
    key.refresh_from_db()
    assert key.revoked_at is not None
    record = history_of(key).first()
    assert (record.actor, record.reason) == (f"user:{client.user.pk}", "lost")
    assert client.post(address, {"confirmed": "yes", "typed": "laptop"}).status_code == 403


def revoke(client, *keys, **more):
    data = {"action": "revoke_selected", "_selected_action": [key.pk for key in keys]}
    return client.post(reverse(KEYS), {**data, **more})


def outcomes(page):
    return {name: (re.sub(r"<[^>]*>", " ", mark).split()[-1], remark) for name, mark, remark in page.context["rows"]}


def test_many_keys_are_revoked_at_once_and_each_is_told_of(log_in):
    keys, ended = [ApiKeyFactory() for _ in range(2)], ApiKeyFactory(revoked_at=timezone.now())
    client = log_in("Operator")
    asked = revoke(client, *keys, ended)
    assert "Revoke 2 keys?" in asked.content.decode()
    assert sorted(name for name, _remark in asked.context["items"]) == sorted(map(str, keys))
    assert "1 was already revoked." in asked.context["explanation"]
    assert revoke(client, *keys, ended, confirmed="yes", typed="3").context["wrong"]
    assert ApiKey.objects.filter(revoked_at__isnull=True).count() == 2
    done = revoke(client, *keys, ended, confirmed="yes", typed="2", reason="lost")
    assert outcomes(done) == {
        **{str(key): ("Revoked", "") for key in keys},
        str(ended): ("Unchanged", "was already revoked"),
    }
    assert not ApiKey.objects.filter(revoked_at__isnull=True).exists()
    for key in keys:
        record = history_of(key).first()
        assert (record.actor, record.reason) == (f"user:{client.user.pk}", "lost")
    before = ended.revoked_at
    ended.refresh_from_db()
    assert ended.revoked_at == before


def test_keys_that_are_all_revoked_are_told_of_without_a_question(log_in):
    ended = ApiKeyFactory(revoked_at=timezone.now())
    page = revoke(log_in("Operator"), ended)
    assert outcomes(page) == {str(ended): ("Unchanged", "was already revoked")}


def test_who_may_not_revoke_keys_is_not_offered_it(log_in):
    key = ApiKeyFactory()
    client = log_in("Viewer")
    assert 'value="revoke_selected"' not in client.get(reverse(KEYS)).content.decode()
    revoke(client, key, confirmed="yes", typed="1")
    key.refresh_from_db()
    assert key.revoked_at is None


def test_closing_sessions_asks_and_tells_every_process(log_in):
    live, ended = McpSessionFactory(), McpSessionFactory(state="closed", ended_at=timezone.now(), end_reason="left")
    client = log_in("Operator")
    data = {"action": "close_selected", "_selected_action": [live.pk, ended.pk]}
    assert "1 session" in client.post(reverse(SESSIONS), data).content.decode()
    assert McpSession.objects.live().count() == 1
    BusEvent.objects.all().delete()
    client.post(reverse(SESSIONS), {**data, "confirmed": "yes"})
    live.refresh_from_db()
    ended.refresh_from_db()
    assert (live.state, live.end_reason) == ("closed", f"closed by {client.user.username}")
    assert live.ended_at is not None
    assert ended.end_reason == "left"
    told = BusEvent.objects.filter(subject=bus.SESSION_ENDED).values_list("payload", flat=True)
    assert list(told) == [live.pk]


def test_a_viewer_closes_no_session(log_in):
    live = McpSessionFactory()
    data = {"action": "close_selected", "_selected_action": [live.pk], "confirmed": "yes"}
    log_in("Viewer").post(reverse(SESSIONS), data)
    live.refresh_from_db()
    assert live.state == "initialized"


def test_a_session_links_its_calls(log_in):
    session = McpSessionFactory()
    page = log_in("Viewer").get(reverse("admin:sessions_app_mcpsession_change", args=[session.pk])).content.decode()
    assert f"{reverse('admin:invocations_mcptoolinvocation_changelist')}?session={session.pk}" in page


def test_the_migrations_make_the_roles(db):
    given = {group.name: group.permissions.count() for group in Group.objects.all()}
    assert given == {name: len(groups.permissions(name)) for name in groups.ROLES}


def test_roles_are_made_again_without_taking_anything_away(db):
    viewer = Group.objects.get(name="Viewer")
    extra = Permission.objects.get(codename="read_bodies")
    viewer.permissions.add(extra)
    before = viewer.permissions.count()
    groups.install()
    assert Group.objects.filter(name__in=groups.ROLES).count() == len(groups.ROLES)
    assert viewer.permissions.count() == before
    assert not Group.objects.get(name="Operator").permissions.filter(pk=extra.pk).exists()


def test_permissions_are_named_in_the_language_of_the_reader(log_in):
    client = log_in("superuser")
    english = client.get(reverse("admin:auth_group_add")).content.decode()
    assert ">API keys: change</option>" in english
    assert ": Can approve upstream tools</option>" in english
    russian = client.get(reverse("admin:auth_group_add"), headers={"accept-language": "ru"}).content.decode()
    assert ">Ключи API: изменение</option>" in russian
    assert "Can " not in russian.partition('name="permissions"')[2].partition("</select>")[0]


def test_deleting_a_person_names_no_row_that_only_ties_two_others(log_in):
    person = UserFactory(username="anna")
    person.groups.add(GroupFactory(name="readers"))
    asked = log_in("superuser").get(reverse("admin:auth_user_delete", args=[person.pk])).content.decode()
    assert "anna" in asked
    assert "relationship" not in asked
