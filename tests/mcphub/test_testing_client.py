"""`mcphub.testing.Client` calls tools in process, within the transaction of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group, User
from django.test import TestCase

from invocations.models import McpToolInvocation
from mcphub.testing import Client, Failed
from sessions_app.models import ApiKey
from tools_catalog.backends import python
from tools_catalog.backends.python import ToolError
from tools_catalog.backends.threads import SyncContext
from tools_catalog.models import McpToolDefinition


def count_groups(context: SyncContext) -> int:
    """Return how many groups of tests there are."""
    context.log("info", f"asked by {context.caller_principal}")
    context.list_changed("tools")
    return Group.objects.filter(name__startswith="test").count()


async def add_group(name: str) -> str:
    """Add a group."""
    group = await Group.objects.acreate(name=name)
    return str(group)


def refuse_all() -> None:
    """Refuse."""
    raise ToolError("Choose another tool.")


@pytest.fixture(autouse=True)
def own_tools() -> Iterator[None]:
    before = dict(python.registry)
    python.tool(read_only=True)(count_groups)
    python.tool()(add_group)
    python.tool()(refuse_all)
    yield
    python.registry.clear()
    python.registry.update(before)


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_user("ann")


def test_a_tool_sees_what_the_test_has_written(ann: User) -> None:
    Group.objects.create(name="test readers")
    assert Client(ann).call("count_groups").data == {"result": 1}


def test_the_test_sees_what_a_tool_has_written(ann: User) -> None:
    assert Client(ann).call("add_group", name="writers").text == "writers"
    assert Group.objects.filter(name="writers").exists()


def test_each_call_is_on_record_in_the_name_of_its_person(ann: User) -> None:
    record = Client(ann).call("add_group", name="writers").record
    assert (record.tool_name, record.status, record.principal) == ("add_group", "ok", f"user:{ann.pk}")
    assert record.arguments == {"name": "writers"}


def test_a_failure_of_a_tool_is_a_result_with_its_text(ann: User) -> None:
    result = Client(ann).call("refuse_all")
    assert (result.error_code, result.text) == ("execution_error", "Choose another tool.")
    assert result.record.error_code == "execution_error"
    with pytest.raises(Failed, match="Choose another tool"):
        _ = result.data


def test_arguments_that_do_not_fit_are_refused_and_recorded(ann: User) -> None:
    result = Client(ann).call("add_group", nme="writers")
    assert result.error_code == "invalid_arguments"
    assert result.record.status == "error"


def test_a_tool_reserved_to_a_group_is_hidden_from_others(ann: User) -> None:
    client = Client(ann)
    client.call("count_groups")
    McpToolDefinition.objects.get(name="count_groups").groups.add(Group.objects.create(name="test staff"))
    assert client.call("count_groups").error_code == "tool_not_found"
    assert "count_groups" not in [tool["name"] for tool in client.tools()]
    ann.groups.add(Group.objects.get(name="test staff"))
    assert client.call("count_groups").data == {"result": 1}
    assert "count_groups" in [tool["name"] for tool in client.tools()]


def test_a_key_calls_within_its_scopes(ann: User) -> None:
    listing, _ = ApiKey.issue("lists", scopes=["tools:list"], owner=ann)
    result = Client(key=listing).call("count_groups")
    assert result.error_code == "forbidden"
    assert result.record.principal == f"user:{ann.pk}"


def test_a_limit_of_calls_counts(ann: User) -> None:
    client = Client(ann)
    client.call("count_groups")
    McpToolDefinition.objects.filter(name="count_groups").update(calls_per_minute=1)
    assert client.call("count_groups").data == {"result": 0}
    assert client.call("count_groups").error_code == "rate_limited"


class InATestCase(TestCase):
    """Each test finds the database as the other one did: its rows, the tools and the records are rolled back."""

    @classmethod
    def setUpTestData(cls) -> None:
        cls.ann = User.objects.create_user("ann")

    def test_a_group_is_added(self) -> None:
        assert Client(self.ann).call("add_group", name="writers").text == "writers"
        assert McpToolInvocation.objects.count() == 1

    def test_a_group_is_added_again(self) -> None:
        self.test_a_group_is_added()

    async def test_a_group_is_added_in_an_async_test(self) -> None:
        client = Client(self.ann)
        assert (await client.acall("add_group", name="writers")).text == "writers"
        assert "add_group" in [tool["name"] for tool in await client.atools()]
