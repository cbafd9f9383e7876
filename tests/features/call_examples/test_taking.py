"""Examples of use: taken from recorded calls that went well, bounded and redacted, and read by searches."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from invocations.redaction.models import McpRedactionRule
from mcphub.features.call_examples.addition import read
from mcphub.features.call_examples.models import ToolExamples
from mcphub.features.call_examples.taking import proposed
from sessions_app.models import AuditEvent, McpWorkspace
from tests import factories as make
from tools_catalog.catalog.toolsets import SEARCH
from tools_catalog.models import McpToolDefinition

pytestmark = pytest.mark.django_db


def tool(**fields: Any) -> McpToolDefinition:
    made: McpToolDefinition = make.McpToolDefinitionFactory(name="book", **fields)
    return made


def called(ago: int = 0, **fields: Any) -> None:
    moment = timezone.now() - timedelta(seconds=ago)
    make.McpToolInvocationFactory(**{"tool_name": "book", "received_at": moment, **fields})


def searched(words: str, ago: int, *shown: str, **fields: Any) -> None:
    result = {"content": [], "structuredContent": {"tools": [{"name": name} for name in shown], "found": len(shown)}}
    called(ago, tool_name=SEARCH, arguments={"query": words}, result=result, **fields)


def lines(row: McpToolDefinition, *known: str, most: int = 10) -> list[str]:
    return list(proposed(row, known, most))


def test_the_words_of_the_search_that_found_the_tool_come_before_the_texts_of_its_arguments() -> None:
    searched("somewhere to sleep near the fair", 60, "book", "other")
    searched("what is on at the fair", 50, "other")
    called(arguments={"city": "Leipzig", "nights": 2, "note": "two\nlines"})
    assert lines(tool()) == ["somewhere to sleep near the fair", "Leipzig"]


def test_a_search_of_another_caller_or_of_long_ago_is_none_of_the_calls() -> None:
    searched("asked by another", 60, "book", principal="key:2")
    searched("asked an hour ago", 3600, "book")
    called(arguments={"nights": 2})
    assert lines(tool()) == []


def test_failed_calls_known_lines_and_more_than_there_is_room_for_are_left_out() -> None:
    called(failed=True, arguments={"city": "Failed"})
    for city in ("Bonn", "Kiel", "Jena"):
        called(arguments={"city": city})
    called(arguments={"city": "x" * 201})
    assert lines(tool(), "Kiel") == ["Jena", "Bonn"]
    assert lines(McpToolDefinition.objects.get(), most=1) == ["Jena"]


def test_calls_of_a_workspace_give_no_example_to_a_shared_tool_and_the_other_way_round() -> None:
    called(arguments={"city": "ours"}, workspace="north")
    called(arguments={"city": "theirs"}, workspace="south")
    called(arguments={"city": "shared"})
    row = tool()
    assert lines(row) == ["shared"]
    row.workspace = McpWorkspace.objects.create(slug="north", title="North")
    assert lines(row) == ["ours"]


def test_a_tool_that_moves_to_another_workspace_leaves_its_examples() -> None:
    row = tool()
    examples = ToolExamples.objects.create(tool=row, examples="Find a bed")
    assert [each.examples for each in read().values()] == [("Find a bed",)]
    McpToolDefinition.objects.update(workspace=McpWorkspace.objects.create(slug="north"))
    assert read() == {}
    examples.refresh_from_db()
    examples.save()
    assert list(read()) == [row.pk]


def test_nothing_is_taken_that_is_hidden_on_record_by_a_later_rule_by_the_schema_or_by_a_detector() -> None:
    called(arguments={"city": "kept"})
    called(arguments={"city": "cut on record"}, left_out={"arguments": {"redacted": ["$.pin"]}})
    called(arguments={"city": "beside a secret", "pass": "open sesame"})
    called(arguments={"city": "write to anna@example.org"})
    called(arguments={"city": "a rule hides", "passphrase": "it since"})
    McpRedactionRule.objects.create(part="arguments", kind="path", place="$.passphrase")
    secret = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "pass": {"type": "string", "writeOnly": True}},
    }
    assert lines(tool(input_schema=secret)) == ["kept"]


def test_an_operator_sees_takes_and_drops_them_and_the_reading_is_on_record(admin_client: Client) -> None:
    searched("somewhere to sleep", 60, "book")
    called(arguments={"city": "Leipzig"})
    row = ToolExamples.objects.create(tool=tool(), examples="Find a bed")
    address = reverse("admin:call_examples_toolexamples_take_from_calls", args=[row.pk])
    page = admin_client.get(address).content.decode()
    assert "somewhere to sleep" in page
    assert AuditEvent.objects.filter(kind="bodies.read").count() == 1
    assert ToolExamples.objects.get().examples == "Find a bed"
    admin_client.post(address, {"confirmed": "1", "line": ["somewhere to sleep", "never recorded"]})
    assert ToolExamples.objects.get().examples == "Find a bed\nsomewhere to sleep"


def test_an_operator_who_may_not_read_bodies_takes_none(client: Client) -> None:
    row = ToolExamples.objects.create(tool=tool())
    called(arguments={"city": "Leipzig"})
    person = User.objects.create_user("olga", is_staff=True)
    person.groups.add(Group.objects.get(name="Operator"))
    client.force_login(person)
    answer = client.get(reverse("admin:call_examples_toolexamples_take_from_calls", args=[row.pk]))
    assert "Leipzig" not in answer.content.decode()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n".join(f"line {number}" for number in range(11)), "at most 10"),
        ("x" * 201, "more than 200"),
        ("fine\nmail anna@example.org", "Line 2"),
    ],
)
def test_entered_lines_keep_to_the_same_bounds(text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        ToolExamples(tool=tool(), examples=text).full_clean()
