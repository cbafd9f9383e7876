"""Every edit is an event of the audit: who, when, by which way, why, before and after."""

from __future__ import annotations

import hashlib
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import DatabaseError, connection, transaction
from django.urls import reverse
from rest_framework.test import APIClient

from invocations.chain.models import AuditPolicy
from sessions_app.history import recording
from sessions_app.history.models import AuditEvent
from sessions_app.history.reading import events_of, state_after
from sessions_app.history.recording import MAX_VALUE_BYTES
from sessions_app.history.source import CLI, edits_via
from sessions_app.models import ApiKey
from tests.factories import (
    ApiKeyFactory,
    GroupFactory,
    McpResourceFactory,
    McpToolDefinitionFactory,
    McpToolsetFactory,
    UserFactory,
)
from tests.failing import failing
from tools_catalog.bundles import bundle
from tools_catalog.models import McpResource, McpToolDefinition, Secret

pytestmark = pytest.mark.django_db


def last() -> AuditEvent:
    found = AuditEvent.objects.order_by("-id").first()
    assert found is not None
    return found


def test_a_definition_is_created_edited_and_switched_off() -> None:
    tool = McpToolDefinitionFactory(name="greet", description="Says hello.")
    assert (last().kind, last().subject_label, last().after["description"]) == ("tool.created", "greet", "Says hello.")
    tool.description = "Says more."
    tool.change_reason = "clearer"
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
    assert (last().kind, last().subject_label) == ("user.changed", "ann")
    assert (last().before, last().after) == ({"groups": []}, {"groups": ["team"]})
    group.user_set.remove(user)
    assert (last().kind, last().subject_label) == ("user.changed", "ann"), "from whichever side it was said"
    assert (last().before, last().after) == ({"groups": ["team"]}, {"groups": []})
    permission = Permission.objects.get(codename="read_bodies")
    group.permissions.set([permission])
    assert (last().kind, last().subject_label) == ("group.changed", "team")
    assert last().after == {"permissions": ["invocations.read_bodies"]}
    group.permissions.clear()
    assert (last().before, last().after) == ({"permissions": ["invocations.read_bodies"]}, {"permissions": []})
    user.user_permissions.add(permission)
    assert (last().kind, last().after) == ("user.changed", {"user_permissions": ["invocations.read_bodies"]})
    user.delete()
    assert (last().kind, last().before["username"]) == ("user.deleted", "ann")


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


# What an event holds -----------------------------------------------------------------------------------


def test_an_event_names_its_row_and_the_way_of_the_edit(client) -> None:
    tool = McpToolDefinitionFactory(name="greet")
    assert (last().subject_model, last().subject_id) == ("tools_catalog.mcptooldefinition", str(tool.pk))
    assert last().via == "system"
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    client.post(reverse("admin:auth_group_add"), {"name": "made"})
    assert last().via == "admin"
    token = ApiKey.issue("robot", scopes=["catalog:write"])[1]
    address, header = f"/api/tool-definitions/{tool.name}/", f"Bearer {token}"
    APIClient().patch(address, {"title": "New"}, format="json", HTTP_AUTHORIZATION=header)
    assert (last().kind, last().via) == ("tool.changed", "rest")
    offers = [{"uri": "x://a", "name": "a", "content": "b"}]
    bundle.load({"format": bundle.FORMAT, "resources": offers}, reason="pack x")
    assert (last().kind, last().via, last().reason) == ("resource.created", "bundle", "pack x")
    with edits_via(CLI):
        type(tool).objects.filter(pk=tool.pk).set_enabled(False)
    assert (last().kind, last().via) == ("tool.changed", "cli")


def test_what_the_database_had_is_before_whatever_the_instance_believes() -> None:
    mine = McpToolDefinitionFactory(calls_per_minute=1)
    other = McpToolDefinition.objects.get(pk=mine.pk)
    other.calls_per_minute = 2
    other.save()
    mine.calls_per_minute = 3
    mine.save()
    assert (last().before, last().after) == ({"calls_per_minute": 2}, {"calls_per_minute": 3})


def test_of_chosen_columns_no_other_is_said_to_have_changed() -> None:
    tool = McpToolDefinitionFactory()
    tool.enabled, tool.calls_per_minute = False, 7
    tool.save(update_fields=["enabled"])
    assert last().after == {"enabled": False}


def test_a_long_value_is_kept_as_its_digest_and_its_beginning() -> None:
    text = "é" * MAX_VALUE_BYTES
    McpResourceFactory(content=text)
    kept = last().after["content"]
    assert kept["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert (kept["bytes"], kept["begins"]) == (2 * MAX_VALUE_BYTES, text[:1000])


def test_a_secret_is_said_to_change_and_never_shown() -> None:
    secret = Secret(name="TOKEN", origins="api.example.org")
    for value in ("canary-one-of-some-length", "canary-two-of-some-length"):
        secret.set_value(value)
        secret.save()
    assert last().after["ciphertext"] == "(not shown)"
    assert not AuditEvent.objects.filter(after__contains="canary").exists()
    assert not AuditEvent.objects.filter(after__contains=secret.ciphertext).exists()


def test_a_row_and_its_event_stand_or_fall_together() -> None:
    tool = McpToolDefinitionFactory(title="First")
    versions = tool.versions.count()
    tool.title = "Second"
    with failing('INSERT INTO "sessions_app_auditevent"'), pytest.raises(DatabaseError), transaction.atomic():
        tool.save()
    tool.refresh_from_db()
    assert (tool.title, tool.versions.count()) == ("First", versions)


def test_links_are_on_record_from_both_sides_and_when_they_go() -> None:
    tool, group = McpToolDefinitionFactory(name="greet"), GroupFactory(name="staff")
    group.mcptooldefinition_set.add(tool)
    assert (last().subject_label, last().after) == ("greet", {"groups": ["staff"]})
    group.mcptooldefinition_set.clear()
    assert (last().subject_label, last().before, last().after) == ("greet", {"groups": ["staff"]}, {"groups": []})
    toolset = McpToolsetFactory(slug="all")
    toolset.tools.set([tool])
    assert last().after == {"tools": ["greet"]}
    toolset.delete()
    assert (last().kind, last().before["tools"]) == ("mcptoolset.deleted", ["greet"])


@pytest.mark.parametrize("made", [McpToolsetFactory, GroupFactory])
def test_a_row_that_two_people_delete_at_once_is_deleted_once_on_record(made) -> None:
    row = made()
    again = type(row).objects.get(pk=row.pk)
    row.delete()
    count = AuditEvent.objects.count()
    again.delete()
    assert AuditEvent.objects.count() == count


def test_a_deletion_has_the_row_as_it_was_by_then_and_the_reason() -> None:
    toolset = McpToolsetFactory(title="First")
    read_before = type(toolset).objects.get(pk=toolset.pk)
    toolset.title = "Second"
    toolset.save()
    read_before.change_reason = "unused"
    read_before.delete()
    assert (last().kind, last().reason, last().before["title"]) == ("mcptoolset.deleted", "unused", "Second")


# The whole row as it was -------------------------------------------------------------------------------


@pytest.mark.parametrize("model", recording.followed(), ids=lambda model: model._meta.label)
def test_a_row_of_every_model_is_kept_from_others_alone(model) -> None:
    key = uuid4() if model._meta.pk.get_internal_type() == "UUIDField" else 0
    with transaction.atomic():  # PostgreSQL locks no row that a join may leave out, such as one of its order
        assert recording.one_row(model, key).first() is None


def test_every_state_of_a_row_can_be_told_and_so_can_a_deleted_one() -> None:
    resource = McpResourceFactory(title="First")
    staff = GroupFactory(name="staff")
    for change in ({"title": "Second"}, {"enabled": False}, {"title": "Third", "enabled": True}):
        for field, value in change.items():
            setattr(resource, field, value)
        resource.save()
        resource.groups.add(staff)
    key = resource.pk
    resource.delete()
    events = list(reversed(events_of(McpResource, key)))
    states = [state_after(McpResource, event) for event in events]
    told = [state and (state["title"], state["enabled"], state["groups"]) for state in states]
    assert told == [
        ("First", True, []),
        ("Second", True, []),
        ("Second", True, ["staff"]),
        ("Second", False, ["staff"]),
        ("Third", True, ["staff"]),
        None,
    ]
    assert events[-1].before["title"] == "Third"


def test_an_index_finds_the_history_of_a_row_however_many_share_its_model_or_its_key() -> None:
    resource = McpResourceFactory(title="First")
    (event,) = events_of(McpResource, resource.pk)
    copies = [
        AuditEvent(kind=event.kind, subject_model=model, subject_id=key)
        for number in range(2000)
        for model, key in ((event.subject_model, f"other-{number % 50}"), ("another", event.subject_id))
    ]
    AuditEvent.objects.bulk_create(copies)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    found = events_of(McpResource, resource.pk)
    for asked in (found[:1], found.reverse()[:1], found.filter(id__gt=event.pk)[:1]):
        assert "audit_event_by_subject" in asked.explain()
    assert list(found) == [event]
