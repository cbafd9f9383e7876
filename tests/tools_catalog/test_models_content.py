"""Rows of resources and prompts: what the database refuses, and what who edits them is told."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from sessions_app.history.reading import history_of
from tests.factories import GroupFactory, McpPromptFactory, McpResourceFactory
from tests.servers import FIXTURES
from tools_catalog.models import McpPrompt, McpResource

pytestmark = pytest.mark.django_db

TEMPLATE = "tests.conformance.fixtures.offers:template_data"
PROMPT = "tests.conformance.fixtures.offers:test_input_required_result_prompt"


@pytest.fixture(autouse=True)
def _functions():
    import_module(f"{FIXTURES}.tools")


@pytest.mark.parametrize(
    "columns",
    [
        {"uri": "relative"},
        {"uri": "x://a b"},
        {"name": ""},
        {"backend": "magic"},
        {"timeout_seconds": 0},
        {"backend": "python", "content": "both", "function": TEMPLATE},
        {"backend": "python", "content": ""},
        {"function": TEMPLATE},
        {"uri": "x://{id}", "backend": "blob", "content": ""},
    ],
)
def test_the_database_refuses_what_is_no_resource(columns):
    with pytest.raises(IntegrityError), transaction.atomic():
        McpResourceFactory(**columns)


@pytest.mark.parametrize(
    "columns",
    [
        {"name": "two words"},
        {"name": ""},
        {"backend": "magic"},
        {"timeout_seconds": -1},
        {"messages": []},
        {"function": PROMPT},
        {"backend": "python", "messages": []},
    ],
)
def test_the_database_refuses_what_is_no_prompt(columns):
    with pytest.raises(IntegrityError), transaction.atomic():
        McpPromptFactory(**columns)


def test_uris_and_names_are_there_once():
    McpResourceFactory(uri="x://a")
    McpPromptFactory(name="a")
    for factory, columns in ((McpResourceFactory, {"uri": "x://a"}), (McpPromptFactory, {"name": "a"})):
        with pytest.raises(IntegrityError), transaction.atomic():
            factory(**columns)


@pytest.mark.parametrize(
    ("columns", "field", "told"),
    [
        ({"uri": "no-uri"}, "uri", "absolute"),
        ({"uri": "x://{a}{b}"}, "uri", "Put text between"),
        ({"mime_type": "text"}, "mime_type", "media type"),
        ({"backend": "blob", "content": "?"}, "content", "base64"),
        ({"content": "a\x00b"}, "content", "NUL"),
        ({"content": "x" * (4 * 1024 * 1024 + 1)}, "content", "longer than"),
        ({"backend": "python", "content": "", "function": "os:system"}, "function", "is registered"),
        ({"annotations": {"colour": 1}}, "annotations", "Unknown annotation"),
        ({"annotations": {"audience": ["all"]}}, "annotations", "audience"),
        ({"annotations": {"priority": 2}}, "annotations", "priority"),
        ({"annotations": {"lastModified": "now"}}, "annotations", "timestamp"),
        ({"annotations": []}, "annotations", "object"),
        ({"icons": [{"src": "http://x"}]}, "icons", "https://"),
        ({"icons": [{"src": "https://x", "size": 1}]}, "icons", "has only"),
        ({"icons": {}}, "icons", "list"),
        ({"meta": []}, "meta", "object"),
        ({"completions": {"id": ["a"]}}, "completions", "Unknown variable"),
        ({"uri": "x://{id}", "completions": {"id": [1]}}, "completions", "strings"),
        ({"uri": "x://{id}", "completions": {"id": "a"}}, "completions", "list of strings"),
        ({"uri": "x://{id}", "completions": {"id": {"function": "os:system"}}}, "completions", "registered"),
    ],
)
def test_what_is_wrong_with_a_resource_is_said_at_its_field(columns, field, told):
    with pytest.raises(ValidationError) as caught:
        McpResourceFactory.build(**columns).full_clean()
    assert told in " ".join(caught.value.message_dict[field])


@pytest.mark.parametrize(
    ("columns", "field", "told"),
    [
        ({"name": "a b"}, "name", "characters"),
        ({"arguments": {}}, "arguments", "list"),
        ({"arguments": [{"name": "a b"}]}, "arguments", "name"),
        ({"arguments": [{"name": "a"}, {"name": "a"}]}, "arguments", "twice"),
        ({"arguments": [{"name": "a", "required": "yes"}]}, "arguments", "true or false"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages", "user or assistant"),
        ({"messages": ["x"]}, "messages", "role and content"),
        ({"messages": [{"role": "user", "content": {"type": "video"}}]}, "messages", "of type"),
        ({"messages": [{"role": "user", "content": {"type": "text"}}]}, "messages", "needs text"),
        (
            {"messages": [{"role": "user", "content": {"type": "image", "data": "?", "mimeType": "image/png"}}]},
            "messages",
            "base64",
        ),
        (
            {"messages": [{"role": "user", "content": {"type": "audio", "data": "?", "mimeType": "audio/wav"}}]},
            "messages",
            "base64",
        ),
        ({"messages": [{"role": "user", "content": {"type": "resource", "resource": {}}}]}, "messages", "uri"),
        (
            {"messages": [{"role": "user", "content": {"type": "resource", "resource": {"uri": "x:y", "text": "z"}}}]},
            "messages",
            "mimeType",
        ),
        ({"completions": {"city": ["Oslo"]}}, "completions", "Unknown variable"),
        ({"backend": "python", "messages": [], "function": TEMPLATE}, "function", PROMPT),
    ],
)
def test_what_is_wrong_with_a_prompt_is_said_at_its_field(columns, field, told):
    with pytest.raises(ValidationError) as caught:
        McpPromptFactory.build(**columns).full_clean()
    assert told in " ".join(caught.value.message_dict[field])


def test_rows_that_are_right_pass():
    McpResourceFactory.build(uri="x://{id}", backend="python", content="", function=TEMPLATE).full_clean()
    McpPromptFactory.build(
        arguments=[{"name": "city", "title": "City", "description": "Where.", "required": True}],
        completions={"city": ["Oslo"]},
        icons=[{"src": "data:image/png;base64,AAAA", "theme": "dark"}],
    ).full_clean()


@pytest.mark.parametrize("factory", [McpResourceFactory, McpPromptFactory])
def test_a_group_that_rows_are_reserved_to_stays(factory):
    group = GroupFactory()
    factory().groups.add(group)
    with pytest.raises(ProtectedError):
        group.delete()


@pytest.mark.parametrize(
    ("factory", "model", "change"),
    [(McpResourceFactory, McpResource, {"content": "x"}), (McpPromptFactory, McpPrompt, {"description": "x"})],
)
def test_the_digest_follows_what_clients_read_and_the_history_every_change(factory, model, change):
    row = factory()
    digest = row.digest()
    model.objects.all().set_enabled(False, "out of order")
    row.refresh_from_db()
    assert (row.digest(), row.enabled) == (digest, False)
    assert history_of(row).first().reason == "out of order"
    for name, value in change.items():
        setattr(row, name, value)
    assert row.digest() != digest
