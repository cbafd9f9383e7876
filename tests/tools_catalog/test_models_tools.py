"""Tool definitions and their versions: rules in the database, a version for each edit and for nothing else."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from sessions_app.history.reading import history_of
from tests.factories import GroupFactory, McpConnectionFactory, McpToolDefinitionFactory, UserFactory
from tools_catalog.models import McpToolDefinition, McpToolVersion

pytestmark = pytest.mark.django_db


def change(table, **columns):
    words = ", ".join(f"{column} = %s" for column in columns)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {words}", list(columns.values()))


@pytest.mark.parametrize(
    "columns",
    [
        {"name": ""},
        {"name": "with space"},
        {"name": "x" * 65},
        {"name": "naïve"},
        {"name": "line\n"},
        {"description": ""},
        {"backend": ""},
        {"timeout_seconds": 0},
        {"read_only": True, "destructive": True},
        {"input_schema": None},
        {"enabled": None},
    ],
)
def test_definition_keeps_to_the_rules(columns):
    McpToolDefinitionFactory()
    with pytest.raises((IntegrityError, DatabaseError)):
        change("tools_catalog_mcptooldefinition", **columns)


@pytest.mark.parametrize("factory", [McpToolDefinitionFactory, McpConnectionFactory])
def test_group_that_something_is_reserved_to_is_not_deleted(factory):
    group = GroupFactory()
    row = factory()
    row.groups.add(group)
    for deletion in (group.delete, type(group).objects.filter(pk=group.pk).delete):
        with pytest.raises(ProtectedError):
            deletion()
    assert list(row.groups.all()) == [group]
    row.groups.clear()
    group.delete()


def test_a_tool_has_half_a_minute_unless_told_otherwise():
    assert McpToolDefinition().timeout_seconds == 30


def test_a_tool_says_when_it_was_registered():
    before = timezone.now()
    row = McpToolDefinitionFactory()
    registered = row.created_at
    assert before <= registered <= timezone.now()
    row.description = "Does more."
    row.save()
    row.refresh_from_db()
    assert row.created_at == registered


def test_name_is_unique():
    row = McpToolDefinitionFactory()
    with pytest.raises(IntegrityError), transaction.atomic():
        McpToolDefinitionFactory(name=row.name)


def versions(row):
    return [version.version for version in row.versions.order_by("id")]


EDITS = {
    "title": "T",
    "description": "D",
    "input_schema": {"type": "object", "title": "x"},
    "timeout_seconds": 5,
    "output_schema": {"type": "object"},
    "configuration": {"url": "https://api.example.org/v2"},
    "destructive": False,
    "idempotent": True,
    "open_world": False,
    "meta": {"a": 1},
    "name": "renamed",
}


@pytest.mark.parametrize("field", EDITS)
def test_each_edit_of_what_is_versioned_makes_the_next_version(field):
    row = McpToolDefinition.objects.get(pk=McpToolDefinitionFactory().pk)
    setattr(row, field, EDITS[field])
    row.change_author, row.change_reason = UserFactory(username="ann"), "because"
    row.save()
    row.refresh_from_db()
    assert (row.version, versions(row)) == ("2", ["1", "2"])
    newest = row.versions.first()
    assert newest.definition[field] == EDITS[field]
    assert (newest.author_label, newest.reason) == ("ann", "because")


@pytest.mark.parametrize("field", ["enabled", "calls_per_minute", "retry_safe", None])
def test_no_edit_makes_no_version(field):
    row = McpToolDefinition.objects.get(pk=McpToolDefinitionFactory().pk)
    if field:
        setattr(row, field, {"enabled": False, "calls_per_minute": 5, "retry_safe": True}[field])
    row.save()
    assert versions(row) == ["1"]


def test_tool_that_was_just_made_may_be_saved_again_without_a_new_version():
    """A default of 30 comes back from the database as 30.0."""
    row = McpToolDefinitionFactory()
    row.save()
    McpToolDefinition.objects.get(pk=row.pk).save()
    assert versions(row) == ["1"]


def test_switching_off_is_no_version_and_lands_in_the_history():
    row = McpToolDefinitionFactory()
    assert McpToolDefinition.objects.filter(pk=row.pk).set_enabled(False, "storm") == 1
    assert McpToolDefinition.objects.filter(pk=row.pk).set_enabled(False) == 0
    row.refresh_from_db()
    assert (row.enabled, versions(row)) == (False, ["1"])
    assert history_of(row).first().reason == "storm"


def test_partial_save_that_edits_keeps_the_new_version_number():
    row = McpToolDefinitionFactory()
    row.description = "Does more."
    row.save(update_fields=["description"])
    row.refresh_from_db()
    assert (row.version, versions(row)) == ("2", ["1", "2"])


def test_restored_version_is_a_new_one_with_the_old_digest():
    row = McpToolDefinitionFactory(description="old")
    row.description = "new"
    row.save()
    first = row.versions.get(version="1")
    row.restore(first)
    row.refresh_from_db()
    assert (row.description, row.version, versions(row)) == ("old", "3", ["1", "2", "3"])
    assert row.versions.first().digest == first.digest


def test_version_is_never_changed_nor_deleted():
    row = McpToolDefinitionFactory()
    version = row.versions.get()
    for forbidden in (version.save, version.delete):
        with pytest.raises(ValidationError):
            forbidden()
    for columns in ({"definition": "{}"}, {"reason": "x"}, {"digest": "0"}):
        with pytest.raises(DatabaseError):
            change("tools_catalog_mcptoolversion", **columns)
    with pytest.raises(ProtectedError):
        row.delete()
    assert McpToolVersion.objects.count() == 1


def test_one_number_is_given_once():
    version = McpToolDefinitionFactory().versions.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        McpToolVersion.objects.create(tool=version.tool, version="1", digest="0", definition={})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input_schema", {"type": "nonsense"}),
        ("input_schema", {"type": "array"}),
        ("input_schema", {"type": "object", "properties": {"a": {"$ref": "https://example.org/x"}}}),
        ("output_schema", {"type": "nonsense"}),
        ("configuration", []),
        ("configuration", {"url": "nowhere"}),
        ("meta", []),
        ("name", "with space"),
        ("name", "line\n"),
        ("timeout_seconds", 0.01),
        ("timeout_seconds", 3601),
    ],
)
def test_operator_is_told_which_field_is_wrong(field, value):
    row = McpToolDefinitionFactory.build(**{field: value})
    with pytest.raises(ValidationError) as caught:
        row.full_clean()
    assert field in caught.value.message_dict


@pytest.mark.parametrize(
    ("schema", "is_told"),
    [
        ({"properties": {"id": {}}, "additionalProperties": False}, True),
        ({"properties": {"part": False}}, True),
        ({"properties": {"id": {}, "part": {}}, "additionalProperties": False}, False),
        ({"patternProperties": {"^p": {}}, "additionalProperties": False}, False),
        ({}, False),
    ],
)
def test_a_request_names_only_what_the_input_schema_allows(schema, is_told):
    row = McpToolDefinitionFactory.build(
        input_schema={"type": "object", **schema},
        configuration={
            "method": "POST",
            "url": "https://api.example.org/{id}" if "properties" in schema else "https://api.example.org/",
            "body": {"deep": [{"part": "{part}"}]},
        },
    )
    if not is_told:
        row.full_clean()
        return
    with pytest.raises(ValidationError) as caught:
        row.full_clean()
    assert "The request uses {part}" in caught.value.message_dict["configuration"][0]


def test_python_tool_names_a_registered_function():
    row = McpToolDefinitionFactory.build(backend="python", configuration={"function": "os:system"})
    with pytest.raises(ValidationError, match="os:system"):
        row.full_clean()


def test_a_kind_of_tool_that_nobody_registered_is_refused_by_the_model():
    row = McpToolDefinitionFactory.build(backend="telepathy")
    with pytest.raises(ValidationError) as caught:
        row.full_clean()
    assert "telepathy" in str(caught.value.message_dict["backend"])
