"""Changes of definitions, keys, policies and rights are events of the audit, with who, before and after."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission
from django.urls import reverse
from rest_framework.test import APIClient

from invocations.chain.models import AuditEvent, AuditPolicy
from sessions_app.models import ApiKey
from tests.factories import ApiKeyFactory, GroupFactory, McpToolDefinitionFactory, UserFactory

pytestmark = pytest.mark.django_db


def last() -> AuditEvent:
    found = AuditEvent.objects.order_by("-id").first()
    assert found is not None
    return found


def test_a_definition_is_created_edited_and_switched_off() -> None:
    tool = McpToolDefinitionFactory(name="greet", description="Says hello.")
    assert (last().kind, last().subject_label, last().after["description"]) == ("tool.created", "greet", "Says hello.")
    tool.description = "Says more."
    tool._change_reason = "clearer"
    tool.save()
    event = last()
    assert (event.kind, event.reason) == ("tool.changed", "clearer")
    assert (event.before["description"], event.after["description"]) == ("Says hello.", "Says more.")
    assert "name" not in event.after
    type(tool).objects.filter(pk=tool.pk).set_enabled(False)
    assert (last().before, last().after) == ({"enabled": True}, {"enabled": False})
    tool.refresh_from_db()
    tool.groups.add(GroupFactory(name="staff"))
    assert (last().kind, last().before, last().after) == ("tool.changed", {"groups": []}, {"groups": ["staff"]})
    count = AuditEvent.objects.count()
    tool.refresh_from_db()
    tool.save()
    assert AuditEvent.objects.count() == count


def test_a_key_is_made_rotated_and_revoked_and_its_text_is_nowhere() -> None:
    key, token = ApiKey.issue("robot", scopes=["tools:call"])
    assert (last().kind, last().after["scopes"]) == ("key.created", ["tools:call"])
    rotated = key.rotate()
    assert last().kind == "key.changed"
    ApiKey.objects.filter(pk=key.pk).revoke("leaked")
    assert (last().kind, last().reason, last().before) == ("key.changed", "leaked", {"revoked_at": None})
    everything = str(list(AuditEvent.objects.values_list("before", "after")))
    assert not any(secret in everything for secret in (token, rotated, key.secret_hash))


def test_rights_of_people_and_groups() -> None:
    user = UserFactory(username="ann")
    assert (last().kind, last().after["is_superuser"]) == ("user.created", False)
    user.is_superuser = True
    user.set_password("a long secret text")
    user.save()
    assert (last().kind, last().before["is_superuser"], last().after["is_superuser"]) == ("user.changed", False, True)
    assert last().after["password"] == "(not shown)"
    group = Group.objects.create(name="team")
    user.groups.add(group)
    assert (last().kind, last().subject_label, last().after) == ("user.groups_changed", "ann", {"gained": ["team"]})
    group.user_set.remove(user)
    assert (last().kind, last().subject_label, last().before) == ("group.members_changed", "team", {"lost": ["ann"]})
    permission = Permission.objects.get(codename="read_bodies")
    group.permissions.set([permission])
    assert last().kind == "group.permissions_changed"
    assert last().after == {"gained": ["invocations.read_bodies"]}
    group.permissions.clear()
    assert last().before == {"lost": ["invocations.read_bodies"]}
    user.user_permissions.add(permission)
    assert last().kind == "user.user_permissions_changed"
    user.delete()
    assert (last().kind, last().before) == ("user.deleted", {"name": "ann"})


def test_a_login_is_no_change_of_rights(client) -> None:
    user = UserFactory(is_staff=True)
    count = AuditEvent.objects.count()
    client.force_login(user)
    assert AuditEvent.objects.count() == count


def test_the_event_says_who_did_it(client) -> None:
    user = UserFactory(username="root", is_staff=True, is_superuser=True)
    client.force_login(user)
    client.post(reverse("admin:auth_group_add"), {"name": "made"})
    assert (last().kind, last().actor, last().actor_label) == ("group.created", f"user:{user.pk}", "root")
    AuditPolicy(rows_days=30).save()
    assert (last().kind, last().actor) == ("retention_policy.changed", "machine")


def test_a_key_that_changes_the_catalogue_is_named() -> None:
    tool = McpToolDefinitionFactory(name="greet")
    key, token = ApiKey.issue("robot", scopes=["catalog:write"])
    answer = APIClient().patch(
        f"/api/tool-definitions/{tool.name}/", {"title": "New"}, format="json", HTTP_AUTHORIZATION=f"Bearer {token}"
    )
    assert answer.status_code == 200, answer.content
    assert (last().kind, last().actor, last().actor_label) == ("tool.changed", f"key:{key.pk}", "robot")


def test_what_fails_to_be_saved_leaves_no_event() -> None:
    from django.db import IntegrityError, transaction

    ApiKeyFactory(prefix="mcph_00000000")
    count = AuditEvent.objects.count()
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiKeyFactory(prefix="mcph_00000000")
    assert AuditEvent.objects.count() == count
