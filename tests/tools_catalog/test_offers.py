"""Snapshots of resources and prompts: what they serve, to whom, and what changed between two of them."""

from __future__ import annotations

import asyncio
import json

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from sessions_app.caller import Caller
from sessions_app.models import BusEvent
from sessions_app.protocol.errors import PromptNotFound
from tests.factories import GroupFactory, McpPromptFactory, McpResourceFactory
from tools_catalog.catalog.offers import Prompts, Resources
from tools_catalog.models import McpPrompt, McpResource

pytestmark = pytest.mark.django_db

NEWEST = "2026-07-28"


def caller(*groups: int) -> Caller:
    return Caller(principal="key:1", label="", scopes=frozenset(), groups=frozenset(groups))


def listed(of, member, who=None):
    return json.loads(of.page(who or caller(), NEWEST))[member]


def read(resources, uri, who=None):
    found = resources.find(uri, who or caller())
    if found is None:
        return None
    resource, values = found
    return asyncio.run(resource.contents.read(uri, values, None))["contents"]


def test_a_resource_is_declared_and_read_as_its_row_says():
    McpResourceFactory(
        uri="docs://start",
        name="start",
        title="Start",
        description="Begin here.",
        mime_type="text/markdown",
        annotations={"priority": 1},
        icons=[{"src": "https://x.example/i.png"}],
        meta={"a": 1},
        content="grüße",
    )
    resources = Resources.load()
    assert listed(resources.listing, "resources") == [
        {
            "uri": "docs://start",
            "name": "start",
            "title": "Start",
            "description": "Begin here.",
            "mimeType": "text/markdown",
            "annotations": {"priority": 1},
            "size": 7,
            "icons": [{"src": "https://x.example/i.png"}],
            "_meta": {"a": 1},
        }
    ]
    assert read(resources, "docs://start") == [{"uri": "docs://start", "mimeType": "text/markdown", "text": "grüße"}]
    assert listed(resources.templates, "resourceTemplates") == []


def test_a_blob_is_sent_as_it_is_kept_and_counted_decoded():
    McpResourceFactory(uri="x://b", backend="blob", content="AAAAAA==", mime_type="")
    resources = Resources.load()
    assert listed(resources.listing, "resources")[0]["size"] == 4
    assert read(resources, "x://b") == [{"uri": "x://b", "blob": "AAAAAA=="}]


def test_a_template_fills_its_text_and_cannot_be_made_to_say_more():
    McpResourceFactory(uri="x://{id}", mime_type="application/json", content='{"id": "{id}", "other": "{other}"}')
    McpResourceFactory(uri="y://{id}", mime_type="text/plain", content="<{id}>")
    resources = Resources.load()
    [content] = read(resources, "x://a%22%2C%22admin%22%3A%22%7Bid%7D") or []
    assert json.loads(content["text"]) == {"id": 'a","admin":"{id}', "other": "{other}"}
    assert read(resources, "y://%7Bid%7D") == [{"uri": "y://%7Bid%7D", "mimeType": "text/plain", "text": "<{id}>"}]
    assert [template["uriTemplate"] for template in listed(resources.templates, "resourceTemplates")] == [
        "x://{id}",
        "y://{id}",
    ]
    assert "size" not in listed(resources.templates, "resourceTemplates")[0]


def test_a_resource_goes_before_templates_and_the_one_that_says_more_before_others():
    McpResourceFactory(uri="x://{+rest}", content="rest {rest}")
    McpResourceFactory(uri="x://a/{id}", content="id {id}")
    McpResourceFactory(uri="x://a/1", content="one")
    resources = Resources.load()
    assert [read(resources, uri)[0]["text"] for uri in ("x://a/1", "x://a/2", "x://b")] == ["one", "id 2", "rest b"]
    assert read(resources, "z://none") is None


def test_hidden_and_disabled_rows_are_not_there():
    staff = GroupFactory()
    McpResourceFactory(uri="x://staff").groups.add(staff)
    McpResourceFactory(uri="x://staff/{id}").groups.add(staff)
    McpResourceFactory(uri="x://off", enabled=False)
    McpPromptFactory(name="staff").groups.add(staff)
    McpPromptFactory(name="off", enabled=False)
    resources, prompts = Resources.load(), Prompts.load()
    for uri in ("x://staff", "x://staff/1"):
        assert resources.find(uri, caller()) is None
        assert resources.find(uri, caller(staff.pk)) is not None
    assert resources.find("x://off", caller(staff.pk)) is None
    assert resources.template("x://staff/{id}", caller()) is None
    assert listed(resources.listing, "resources") == []
    assert [one["uri"] for one in listed(resources.listing, "resources", caller(staff.pk))] == ["x://staff"]
    assert not resources.listing.is_public
    said = set()
    for name in ("staff", "off", "none"):
        with pytest.raises(PromptNotFound) as caught:
            prompts.find(name, caller())
        said.add(caught.value.message.replace(name, "*"))
    assert len(said) == 1
    assert prompts.find("staff", caller(staff.pk)).name == "staff"


def test_a_prompt_is_declared_and_filled_as_its_row_says():
    McpPromptFactory(
        name="greet",
        description="Greets.",
        arguments=[{"name": "who", "required": True}],
        messages=[
            {"role": "assistant", "content": "Hello {who}, {unknown}"},
            {"role": "user", "content": {"type": "resource", "resource": {"uri": "x://{who}", "text": "{who}"}}},
        ],
    )
    prompt = Prompts.load().find("greet", caller())
    assert prompt.definition == {
        "name": "greet",
        "description": "Greets.",
        "arguments": [{"name": "who", "required": True}],
    }
    messages = asyncio.run(prompt.messages.get({"who": "{unknown}"}, None))["messages"]
    assert messages == [
        {"role": "assistant", "content": {"type": "text", "text": "Hello {unknown}, {unknown}"}},
        {"role": "user", "content": {"type": "resource", "resource": {"uri": "x://{unknown}", "text": "{unknown}"}}},
    ]


def test_enumerated_values_are_offered_by_what_they_begin_with_first():
    McpPromptFactory(
        arguments=[{"name": "city"}], name="p", completions={"city": ["Oslo", "Tokyo", "Stockholm", "Osaka"]}
    )
    source = Prompts.load().find("p", caller()).completions["city"]
    assert asyncio.run(source.complete("OS", {}, None)) == ["Oslo", "Osaka"]
    assert asyncio.run(source.complete("o", {}, None)) == ["Oslo", "Osaka", "Tokyo", "Stockholm"]
    assert asyncio.run(source.complete("", {}, None)) == ["Oslo", "Tokyo", "Stockholm", "Osaka"]


def test_what_reads_differently_is_told_and_nothing_else():
    same, edited, gone, switched = (McpResourceFactory(uri=f"x://{name}") for name in ("same", "edited", "gone", "off"))
    template = McpResourceFactory(uri="x://t/{id}")
    before = Resources.load()
    edited.content = "other"
    edited.save()
    gone.delete()
    switched.enabled = False
    switched.save()
    same.groups.add(GroupFactory())
    template.content = "{id}!"
    template.save()
    McpResourceFactory(uri="x://new")
    after = Resources.load()
    changed = [resource.uri for resource in after.changed_since(before)]
    assert changed == ["x://edited", "x://gone", "x://new", "x://off", "x://t/{id}"]
    assert after.changed_since(after) == Resources.load().changed_since(after) == []


@pytest.mark.parametrize(
    "columns", ["completions = 'no json'", "backend = 'python', content = '', function = 'os:system'", "uri = 'x:{'"]
)
def test_a_broken_row_is_left_out_and_the_others_are_served(columns, caplog):
    for name in ("bad", "good"):
        McpResourceFactory(uri=f"x://{name}")
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE tools_catalog_mcpresource SET {columns} WHERE uri = 'x://bad'")
    assert [one["uri"] for one in listed(Resources.load().listing, "resources")] == ["x://good"]
    assert "left out" in caplog.text


def test_every_kind_of_change_is_announced_by_its_own_name():
    def announced():
        subjects = set(BusEvent.objects.values_list("subject", flat=True))
        BusEvent.objects.all().delete()
        return subjects

    resource, prompt, group = McpResourceFactory(), McpPromptFactory(), Group.objects.create(name="people")
    announced()
    for rows, row, subject in ((McpResource, resource, "resources_changed"), (McpPrompt, prompt, "prompts_changed")):
        for change in (
            lambda rows=rows: rows.objects.update(enabled=False),
            lambda row=row: row.groups.add(group),
            lambda row=row: row.groups.clear(),
            lambda row=row: row.delete(),
        ):
            change()
            # Deleting unlinks it from offers and toolsets, and PostgreSQL tells of statements that find no row, too.
            is_deleted = connection.vendor == "postgresql" and row.pk is None
            more = {"tools_changed", "toolsets_changed"} if is_deleted else set()
            assert announced() - more == {subject}
