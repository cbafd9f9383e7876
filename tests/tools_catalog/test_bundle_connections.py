"""Connections in bundles: out and in again, never with a secret, never with a program."""

from __future__ import annotations

import json

import pytest

from tests.factories import LaunchProfileFactory, McpConnectionFactory
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.bundles import bundle
from tools_catalog.models import LaunchProfile, McpConnection, McpToolDefinition, Secret

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


def test_programs_go_out_and_come_in_where_the_owner_of_the_machine_says_so():
    profile = LaunchProfileFactory(name="git", arguments=["--stdio"], environment={"TOKEN": "{secret:git.TOKEN}"})
    McpConnectionFactory(slug="git", transport="stdio", url="", profile=profile, title="Git")
    secret = Secret(name="git.TOKEN", origins="git.stdio", places="environment.TOKEN")
    secret.set_value("a-long-secret-value")
    secret.save()
    dumped = bundle.dump(with_programs=True)
    assert dumped["secrets"] == [{"name": "git.TOKEN", "origins": "git.stdio", "places": "environment.TOKEN"}]
    assert "a-long-secret-value" not in json.dumps(dumped)
    McpConnection.objects.all().delete()
    LaunchProfile.objects.all().delete()
    Secret.objects.all().delete()
    refused = bundle.load(dumped, reason="file a").refused
    assert "an upstream manager creates it" in refused[0][1]
    report = bundle.load(dumped, reason="file a", with_programs=True)
    assert (report.refused, report.missing_secrets) == ([], ["git.TOKEN"])
    row = McpConnection.objects.get(slug="git")
    assert (row.title, row.profile.arguments, row.profile.is_unconfined) == ("Git", ["--stdio"], False)
    assert bundle.load(dumped, reason="file a", with_programs=True).unchanged.count("git") == 2
    changed = {**dumped, "profiles": [{**dumped["profiles"][0], "command": "other"}]}
    assert bundle.load(changed, reason="file a", with_programs=True).kept == ["git"]
    assert bundle.load(changed, reason="file a", with_programs=True, overwrite=True).changed == ["git"]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"profiles": [{"name": "x"}]}, "command: it is missing"),
        ({"profiles": [{"name": "x", "command": "y", "is_unconfined": True}]}, "no such member"),
        ({"connections": [{"slug": "x", "transport": "stdio", "profile": "none"}]}, "there is no launch profile"),
        ({"connections": [{"slug": "x", "transport": "stdio"}]}, "profile: it is missing"),
        ({"secrets": [{"name": "x", "value": "y"}]}, "no other members"),
    ],
)
def test_what_is_wrong_with_programs_is_told_and_nothing_is_loaded(document, words):
    report = bundle.load({"format": "mcphub-bundle/1", **document}, reason="file a", with_programs=True)
    assert words in report.refused[0][1]
    assert not LaunchProfile.objects.exists()
