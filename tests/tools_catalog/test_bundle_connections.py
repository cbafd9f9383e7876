"""Connections in bundles: out and in again, never with a secret, never with a program."""

from __future__ import annotations

import json

import pytest

from tests.factories import LaunchProfileFactory, McpConnectionFactory
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.importers import bundle
from tools_catalog.models import McpConnection, McpToolDefinition

pytestmark = pytest.mark.django_db

ENTRY = {"slug": "tickets", "transport": "streamable-http", "url": "https://mcp.example.org/mcp"}


def load(*entries, **options):
    return bundle.load({"format": "mcphub-bundle/1", "connections": list(entries)}, reason="file a", **options)


def test_a_connection_goes_out_and_comes_in_again():
    connection = McpConnectionFactory(
        slug="tickets", headers={"X-Key": "{secret:TICKETS}"}, policy="trust", refresh_seconds=10
    )
    offer(connection, definition())
    McpConnectionFactory(slug="sh", transport="stdio", url="", profile=LaunchProfileFactory())
    dumped = bundle.dump()
    assert [entry["slug"] for entry in dumped["connections"]] == ["tickets"]
    assert "tickets_search" not in json.dumps(dumped["tools"])
    McpToolDefinition.objects.filter(backend="upstream").update(name="x")
    McpConnection.objects.filter(slug="tickets").update(slug="other")
    report = bundle.load(dumped, reason="file a")
    assert (report.refused, "tickets" in report.created, report.missing_secrets) == ([], True, ["TICKETS"])
    made = McpConnection.objects.get(slug="tickets")
    assert (made.headers, made.policy, made.refresh_seconds) == ({"X-Key": "{secret:TICKETS}"}, "trust", 10)
    assert bundle.load(dumped, reason="file a").unchanged.count("tickets") == 1


def test_a_new_connection_holds_everything_unless_it_says_otherwise():
    load(ENTRY)
    assert McpConnection.objects.get().policy == "hold_all"


def test_what_was_edited_here_is_kept():
    load(ENTRY)
    row = McpConnection.objects.get()
    row.title = "Ours"
    row.save()
    assert load({**ENTRY, "title": "Theirs"}).kept == ["tickets"]
    assert load({**ENTRY, "title": "Theirs"}, overwrite=True).changed == ["tickets"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"transport": "stdio"}, "upstream manager"),
        ({"transport": "stdio", "url": ""}, "upstream manager"),
        ({"command": "sh"}, "no such member"),
        ({"profile": 1}, "member"),
        ({"url": "http://127.0.0.1/"}, "public internet"),
        ({"headers": {"Host": "x"}}, "headers"),
        ({"url": ""}, "missing"),
        ({"may_ask": "yes"}, "true or false"),
        ({"policy": "all"}, "policy"),
    ],
)
def test_what_is_not_safe_is_refused_and_nothing_is_loaded(change, words):
    report = load({**ENTRY, "slug": "fine"}, {**ENTRY, **change})
    assert words in report.refused[0][1]
    assert not McpConnection.objects.exists()
