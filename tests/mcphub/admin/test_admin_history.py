"""The history of a row in the admin: each change beside what was before, of rows that are gone as well."""

from __future__ import annotations

from django.contrib.admin.models import LogEntry
from django.db import connection
from django.urls import reverse

from invocations.models import McpRedactionRule
from sessions_app.history.reading import events_of, state_after
from tests.committed import without_rules
from tests.factories import GroupFactory, McpToolDefinitionFactory, UserFactory
from tools_catalog.models import McpToolDefinition


def test_a_change_stands_beside_what_was_before(log_in) -> None:
    client = log_in("superuser")
    tool = McpToolDefinitionFactory(name="greet", title="One", description="First.")
    tool.description, tool.change_reason = "Second\u202e<b>.", "clearer"
    tool.save()
    page = client.get(reverse("admin:tools_catalog_mcptooldefinition_history", args=[tool.pk]))
    words = page.content.decode()
    assert "clearer" in words
    assert "First. → Second\\u202e&lt;b&gt;." in words
    entry = page.context["entries"][0]["address"]
    shown = client.get(entry)
    version, field = sorted(shown.context["fields"], key=lambda each: each.field != "Version")
    assert (version.rows[0].left, version.rows[0].right) == ("1", "2")
    assert (field.field, field.rows[0].left, field.rows[0].right) == ("Description", "First.", "Second\\u202e<b>.")
    assert dict(shown.context["whole"])["Title"] == "One"
    assert shown.context["older"]
    assert not shown.context["newer"]


def test_a_deleted_row_keeps_its_history(log_in) -> None:
    rule = McpRedactionRule.objects.create(place="$.a")
    key = rule.pk
    history = reverse("admin:invocations_mcpredactionrule_history", args=[key])
    rule.delete()
    client = log_in("superuser")
    assert [entry["event"].deed for entry in client.get(history).context["entries"]] == ["deleted", "created"]
    newest = client.get(client.get(history).context["entries"][0]["address"])
    assert newest.context["is_deleted"]
    assert "$.a" in newest.content.decode()
    assert client.get(reverse("admin:invocations_mcpredactionrule_history", args=[key + 1])).status_code == 404
    assert client.get(reverse("admin:invocations_mcpredactionrule_history_entry", args=[key, 1])).status_code == 404


def test_a_history_that_lost_its_beginning_says_so(log_in) -> None:
    tool = McpToolDefinitionFactory(title="First")
    tool.title = "Second"
    tool.save()
    client, address = log_in("superuser"), reverse("admin:tools_catalog_mcptooldefinition_history", args=[tool.pk])
    assert "Older entries are missing" not in client.get(address).content.decode()
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute("DELETE FROM sessions_app_auditevent WHERE kind = 'tool.created'")
    assert "Older entries are missing" in client.get(address).content.decode()
    assert state_after(McpToolDefinition, events_of(McpToolDefinition, tool.pk)[0])["title"] == "Second"


def test_people_and_groups_have_a_history_too(log_in) -> None:
    client = log_in("superuser")
    user = UserFactory(username="ann")
    user.groups.add(GroupFactory(name="staff"))
    page = client.get(reverse("admin:auth_user_history", args=[user.pk])).content.decode()
    assert "staff" in page
    assert log_in("Viewer").get(reverse("admin:auth_user_history", args=[user.pk])).status_code == 403


def test_nothing_is_written_into_djangos_own_log(log_in) -> None:
    client = log_in("superuser")
    client.post(reverse("admin:auth_group_add"), {"name": "made"})
    assert not LogEntry.objects.exists()
