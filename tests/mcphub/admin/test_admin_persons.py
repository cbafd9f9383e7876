"""The page of a person: one choice of a role, what acts in their name, and the end of it."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.urls import reverse
from oauth2_provider.models import Application

from mcphub.console.persons import AS_IT_IS, NOBODY, SUPERUSER, role_of
from mcphub.features.signin.models import Consent
from sessions_app.models import ApiKey, AuditEvent, BusEvent, McpSession
from tests.factories import GroupFactory, McpSessionFactory, McpToolInvocationFactory, UserFactory


def page_of(person):
    return reverse("admin:auth_user_change", args=[person.pk])


def role(name):
    return str(Group.objects.get(name=name).pk)


@pytest.fixture
def root(log_in):
    return log_in("superuser")


@pytest.fixture
def anna(db):
    return User.objects.create_user("anna")


def test_a_role_is_one_choice_and_tools_are_another(root, anna):
    tools = GroupFactory(name="Readers")
    for chosen, expected in (
        (role("Auditor"), (True, False, ["Auditor", "Readers"])),
        (role("Operator"), (True, False, ["Operator", "Readers"])),
        (SUPERUSER, (True, True, ["Readers"])),
        (NOBODY, (False, False, ["Readers"])),
    ):
        asked = {"username": "anna", "role": chosen, "tool_groups": [tools.pk]}
        assert root.post(page_of(anna), asked).status_code == 302
        anna.refresh_from_db()
        names = sorted(anna.groups.values_list("name", flat=True))
        assert (anna.is_staff, anna.is_superuser, names) == expected
        assert role_of(anna) == chosen
    events = AuditEvent.objects.filter(kind="user.changed", subject_id=str(anna.pk))
    assert events.filter(actor=f"user:{root.user.pk}").count() == events.count() > 4


def test_rights_of_their_own_stay_until_a_role_is_chosen(root, anna):
    anna.user_permissions.add(Permission.objects.get(codename="view_mcpsession"))
    assert role_of(anna) == AS_IT_IS
    root.post(page_of(anna), {"username": "anna", "role": AS_IT_IS, "first_name": "Anna"})
    assert anna.user_permissions.count() == 1
    root.post(page_of(anna), {"username": "anna", "role": role("Viewer")})
    assert anna.user_permissions.count() == 0


def test_nothing_raw_is_in_reach(root, anna):
    page = root.get(page_of(anna)).content.decode()
    assert not [name for name in ("is_superuser", "is_staff", "user_permissions") if f'name="{name}"' in page]
    root.post(page_of(anna), {"username": "anna", "role": NOBODY, "is_superuser": "on", "is_active": ""})
    anna.refresh_from_db()
    assert (anna.is_superuser, anna.is_active) == (False, True)


def test_the_page_shows_what_acts_in_the_name_of_a_person(root, anna):
    principal = f"user:{anna.pk}"
    client = Application.objects.create(name="Claude", redirect_uris="https://claude.example/back")
    Consent.give(anna, client, "/mcp", ["tools:list"])
    ApiKey.issue("laptop", owner=anna)
    McpSessionFactory(principal=principal, client_name="inspector")
    McpToolInvocationFactory(principal=principal, tool_name="her_tool")
    other = UserFactory()
    ApiKey.issue("not hers", owner=other)
    page = root.get(page_of(anna)).content.decode()
    for words in ("Claude", "claude.example", "laptop", "inspector", "her_tool"):
        assert words in page
    assert "not hers" not in page


def test_one_button_ends_everything(root, anna):
    ApiKey.issue("laptop", owner=anna)
    McpSessionFactory(principal=f"user:{anna.pk}")
    address = reverse("admin:auth_user_disable", args=[anna.pk])
    asked = root.get(address)
    assert "permanently" in asked.content.decode()
    anna.refresh_from_db()
    assert anna.is_active
    assert root.post(address, {"confirmed": "1", "reason": "left"}).status_code == 302
    anna.refresh_from_db()
    assert not anna.is_active
    assert not ApiKey.objects.usable().filter(owner=anna).exists()
    assert BusEvent.objects.filter(subject="caller_ended", payload=f"user:{anna.pk}").exists()
    event = AuditEvent.objects.filter(kind="user.changed", subject_id=str(anna.pk)).latest("pk")
    assert (event.reason, event.after) == ("left", {"is_active": False})
    root.post(reverse("admin:auth_user_enable", args=[anna.pk]), {"confirmed": "1"})
    anna.refresh_from_db()
    assert anna.is_active
    assert ApiKey.objects.get(owner=anna).revoked_at is not None


def test_all_access_ends_and_the_person_stays(root, anna):
    ApiKey.issue("laptop", owner=anna)
    assert root.post(reverse("admin:auth_user_end_all", args=[anna.pk]), {"confirmed": "1"}).status_code == 302
    anna.refresh_from_db()
    assert anna.is_active
    assert not ApiKey.objects.usable().filter(owner=anna).exists()
    assert McpSession.objects.count() == 0


def test_nobody_locks_everybody_out(root):
    assert root.post(reverse("admin:auth_user_disable", args=[root.user.pk]), {"confirmed": "1"}).status_code == 403
    User.objects.filter(is_superuser=True).exclude(pk=root.user.pk).delete()
    asked = {"username": root.user.username, "role": NOBODY}
    assert "last superuser" in root.post(page_of(root.user), asked).content.decode()


def test_an_operator_has_no_way_to_people(log_in, anna):
    for name in ("change", "disable", "enable", "end_all"):
        address = reverse(f"admin:auth_user_{name}", args=[anna.pk])
        assert log_in("Operator").post(address, {"confirmed": "1"}).status_code == 403
    anna.refresh_from_db()
    assert anna.is_active
