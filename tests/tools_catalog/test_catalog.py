"""The snapshot that calls and lists are served from."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from sessions_app.caller import Caller
from sessions_app.models import BusEvent
from sessions_app.protocol.errors import ExecutionError, ToolDisabled, ToolNotFound
from tests.factories import GroupFactory, McpToolDefinitionFactory, McpToolsetFactory
from tools_catalog.bindings import Destination
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.models import McpToolDefinition, McpToolset, Secret
from tools_catalog.vault import secret_for

pytestmark = pytest.mark.django_db

NEWEST, OLDEST = "2026-07-28", "2024-11-05"


def caller(*groups, everything=False):
    return Caller(principal="key:1", label="", scopes=frozenset(), groups=frozenset(groups), sees_everything=everything)


def names(listing):
    return [tool["name"] for tool in json.loads(listing)["tools"]]


@pytest.fixture(autouse=True)
def only_ours():
    McpToolDefinition.objects.all().delete()


def test_tool_is_served_as_its_row_says():
    row = McpToolDefinitionFactory(
        name="echo",
        title="Echo",
        output_schema={"type": "object"},
        read_only=True,
        destructive=False,
        timeout_seconds=7,
        calls_per_minute=5,
        retry_safe=True,
        meta={"a": 1},
    )
    tool = Catalog.load().find("echo", caller())
    assert tool.definition == {
        "name": "echo",
        "title": "Echo",
        "description": row.description,
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"},
        "_meta": {"a": 1},
        "annotations": {
            "title": "Echo",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": True,
        },
    }
    assert (tool.version, tool.digest) == ("1", row.versions.get().digest)
    assert (tool.read_only, tool.retry_safe, tool.timeout_seconds, tool.calls_per_minute) == (True, True, 7, 5)
    assert tool.result is not None


class Watched(str):
    """A name that counts how often it is compared."""

    compared = 0

    def __eq__(self, other):
        Watched.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_tool_is_found_by_one_comparison_among_many():
    McpToolDefinitionFactory(name="one")
    [tool] = Catalog.load().tools.values()
    many = Catalog([replace(tool, name=Watched(f"tool-{number}")) for number in range(1000)])
    Watched.compared = 0
    assert many.find("tool-777", caller()).name == "tool-777"
    found, Watched.compared = Watched.compared, 0
    assert found == 2  # one of them is the line above
    with pytest.raises(ToolNotFound):
        many.find("tool-1000", caller())
    assert Watched.compared == 0


def test_tool_without_extras_says_nothing_of_them():
    McpToolDefinitionFactory(name="plain")
    tool = Catalog.load().find("plain", caller())
    assert set(tool.definition) == {"name", "description", "inputSchema", "annotations"}
    assert tool.result is None


def test_list_is_in_order_of_names_and_in_the_words_of_the_revision():
    for name in ("b", "a"):
        McpToolDefinitionFactory(name=name, title="T", output_schema={"type": "object"})
    loaded = Catalog.load()
    newest, oldest = loaded.tool_list.page(caller(), NEWEST), loaded.tool_list.page(caller(), OLDEST)
    assert names(newest) == names(oldest) == ["a", "b"]
    assert "outputSchema" in json.loads(newest)["tools"][0]
    assert "outputSchema" not in json.loads(oldest)["tools"][0]


def test_list_is_made_once_for_each_revision_audience_and_tail():
    loaded = Catalog.load()
    first = loaded.tool_list.page(caller(), NEWEST)
    assert loaded.tool_list.page(caller(99), NEWEST) is first
    assert loaded.tool_list.page(caller(), OLDEST) is not first
    assert loaded.tool_list.page(caller(), NEWEST, b',"ttlMs":1') == b'{"tools":[],"ttlMs":1}'


def test_each_audience_sees_its_own_tools_and_no_others():
    staff, guests = GroupFactory(), GroupFactory()
    McpToolDefinitionFactory(name="all")
    McpToolDefinitionFactory(name="staff").groups.add(staff)
    McpToolDefinitionFactory(name="both").groups.add(staff, guests)
    McpToolDefinitionFactory(name="off", enabled=False)
    loaded = Catalog.load()
    assert not loaded.tool_list.is_public
    for who, seen in (
        (caller(), ["all"]),
        (caller(guests.pk), ["all", "both"]),
        (caller(staff.pk, 999), ["all", "both", "staff"]),
        (caller(everything=True), ["all", "both", "staff"]),
    ):
        assert names(loaded.tool_list.page(who, NEWEST)) == seen
        for name in ("all", "both", "staff"):
            if name in seen:
                assert loaded.find(name, who).name == name
            else:
                with pytest.raises(ToolNotFound):
                    loaded.find(name, who)


def test_hidden_tool_and_missing_tool_answer_alike_disabled_or_not():
    hidden = McpToolDefinitionFactory(name="secret", enabled=False)
    hidden.groups.add(GroupFactory())

    def answer(loaded):
        with pytest.raises(ToolNotFound) as caught:
            loaded.find("secret", caller())
        return type(caught.value), caught.value.message, caught.value.details

    assert answer(Catalog.load()) == answer(Catalog())


def test_disabled_tool_is_said_to_be_so_to_who_may_see_it():
    McpToolDefinitionFactory(name="off", enabled=False)
    with pytest.raises(ToolDisabled):
        Catalog.load().find("off", caller())


def test_catalogue_without_restrictions_is_public():
    McpToolDefinitionFactory()
    assert Catalog.load().tool_list.is_public


def test_catalogue_with_tools_for_some_is_private():
    McpToolDefinitionFactory().groups.add(Group.objects.create(name="some"))
    assert not Catalog.load().tool_list.is_public


def test_what_did_not_change_is_not_compiled_again():
    same, edited, toggled = (McpToolDefinitionFactory(name=name) for name in ("same", "edited", "toggled"))
    before = Catalog.load()
    edited.description = "Does something."
    edited.save()
    toggled.enabled = False
    toggled.save()
    after = Catalog.load(before)
    for name, reused in ((same.name, True), (edited.name, False), (toggled.name, True)):
        assert (after.tools[name].arguments is before.tools[name].arguments) is reused
        assert (after.tools[name].backend is before.tools[name].backend) is reused
    assert after.tools["edited"].definition["description"] == "Does something."
    assert not after.tools["toggled"].enabled


@pytest.mark.parametrize("statement", ["description = 'Does more.'", "description = 'Does more.', version = '9'"])
def test_edit_behind_the_models_back_is_served_and_recorded_under_its_own_digest(statement):
    McpToolDefinitionFactory(name="echo")
    before = Catalog.load()
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE tools_catalog_mcptooldefinition SET {statement}")
    after = Catalog.load(before)
    assert after.tools["echo"].definition["description"] == "Does more."
    assert after.tools["echo"].digest != before.tools["echo"].digest


def test_rows_without_a_version_are_not_taken_for_each_other():
    for name in ("a", "b"):
        McpToolDefinition.objects.bulk_create([McpToolDefinitionFactory.build(name=name, description=name)])
    loaded = Catalog.load(Catalog.load())
    assert [loaded.tools[name].definition["description"] for name in ("a", "b")] == ["a", "b"]


@pytest.mark.parametrize(
    "columns",
    [
        'input_schema = \'{"type": "nonsense"}\'',
        "input_schema = 'no json'",
        "configuration = '{}'",
        "backend = 'python', configuration = '{\"function\": \"os:system\"}'",
    ],
)
def test_broken_row_is_left_out_and_the_others_are_served(columns, caplog):
    for name in ("bad", "good"):
        McpToolDefinitionFactory(name=name)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE tools_catalog_mcptooldefinition SET {columns} WHERE name = 'bad'")
    assert names(Catalog.load().tool_list.page(caller(), NEWEST)) == ["good"]
    assert "left out" in caplog.text


def test_secret_is_found_until_it_is_removed():
    secret = Secret(name="token", origins="api.example.org", users="tool:t")
    secret.set_value("hush")
    secret.save()
    Catalog.load()
    to = Destination("https://api.example.org", ("tool:t",), "headers.Authorization")
    assert secret_for("token", to) == "hush"
    secret.delete()
    Catalog.load()
    with pytest.raises(ExecutionError, match="token"):
        secret_for("token", to)


@pytest.mark.parametrize(
    ("to", "missing"),
    [
        (Destination("https://api.example.com", ("tool:t",), "headers.Authorization"), "origins"),
        (Destination("https://api.example.org:8443", ("tool:t",), "headers.Authorization"), "origins"),
        (Destination("http://api.example.org", ("tool:t",), "headers.Authorization"), "origins"),
        (Destination("https://api.example.org", ("tool:t",), "headers.X-Echo"), "places"),
        (Destination("https://api.example.org", ("tool:t",), "query.q"), "places"),
        (Destination("https://api.example.org", ("tool:t",)).at("body.text"), "places"),
        (Destination("https://api.example.org", ("tool:other", "service:s"), "headers.Authorization"), "users"),
        (Destination("https://api.example.org", (), "headers.Authorization"), "users"),
        (Destination("other.stdio", (), "environment.TOKEN"), "origins"),
    ],
)
def test_a_secret_goes_only_where_it_is_bound_to(to, missing):
    secret = Secret(name="token", origins="api.example.org *.example.net runner.stdio", users="tool:t")
    secret.set_value("hush")
    secret.save()
    Catalog.load()
    for allowed in (
        Destination("https://api.example.org", ("service:s", "tool:t"), "headers.authorization"),
        Destination("https://a.example.net", ("tool:t",), "headers.Authorization"),
        Destination("runner.stdio", (), "environment.TOKEN"),
    ):
        assert secret_for("token", allowed) == "hush"
    with pytest.raises(ExecutionError, match=r"token.*nothing was sent.*may edit secrets") as refused:
        secret_for("token", to)
    assert refused.value.details["missing"] == missing
    with pytest.raises(IntegrityError), transaction.atomic():
        Secret.objects.update(origins="")


def test_a_change_of_a_toolset_is_announced_and_read_without_the_tools():
    tool, group = McpToolDefinitionFactory(name="one"), Group.objects.create(name="people")
    before = Catalog.load()
    BusEvent.objects.all().delete()
    toolset = McpToolset.objects.create(slug="few", patterns="one")
    for change in (
        lambda: McpToolset.objects.update(patterns="o*"),
        lambda: toolset.tools.add(tool),
        lambda: toolset.groups.add(group),
    ):
        assert set(BusEvent.objects.values_list("subject", flat=True)) == {"toolsets_changed"}
        BusEvent.objects.all().delete()
        change()
    with CaptureQueriesContext(connection) as asked:
        now = before.with_toolsets()
    assert not [query for query in asked if "inputSchema" in query["sql"] or "input_schema" in query["sql"]]
    assert now.toolsets["few"].tools["one"] is now.tools["one"] is before.tools["one"]
    assert before.toolsets == {}


def test_every_kind_of_change_to_the_catalogue_is_announced():
    def announced():
        count = BusEvent.objects.filter(subject="tools_changed").count()
        BusEvent.objects.all().delete()
        return count > 0

    tool, group = McpToolDefinitionFactory(), Group.objects.create(name="people")
    secret = Secret(name="token", origins="api.example.org")
    secret.set_value("hush")
    BusEvent.objects.all().delete()
    for change in (
        lambda: McpToolDefinitionFactory(),
        lambda: McpToolDefinition.objects.update(enabled=False),
        lambda: tool.groups.add(group),
        lambda: tool.groups.clear(),
        lambda: secret.save(),
        lambda: Secret.objects.update(ciphertext="x"),
        lambda: secret.delete(),
    ):
        change()
        assert announced()


def test_an_index_serves_on_until_one_of_its_tools_changes():
    row = McpToolDefinitionFactory(name="weather_now", title="Weather")
    McpToolDefinitionFactory(name="other")
    McpToolsetFactory(slug="few", mode="search", patterns="weather_*")
    first = Catalog.load()
    McpToolDefinition.objects.filter(name="other").update(description="Changed.")
    second = Catalog.load(first)
    assert second.toolsets["few"]._index is first.toolsets["few"]._index
    row.title = "Rain"
    row.save()
    third = Catalog.load(second)
    assert third.toolsets["few"]._index is not first.toolsets["few"]._index
    assert third.toolsets["few"].search("rain", 5, caller())["found"] == 1
