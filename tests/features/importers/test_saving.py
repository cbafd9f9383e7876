"""Drafts that become rows: secrets, launch profiles, connections."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.features.importers.configured import saving, sources
from sessions_app.history.reading import history_of
from tests.factories import LaunchProfileFactory, McpConnectionFactory
from tests.features.importers import configurations as told
from tools_catalog.models import LaunchProfile, McpConnection, Secret

pytestmark = pytest.mark.django_db


def save(document: Any, values: dict[str, str] | None = None, **more: Any) -> saving.Saved:
    drafts = sources.read(document if isinstance(document, str) else json.dumps(document)).drafts
    slugs = saving.free_slugs(drafts)
    chosen = [
        saving.Chosen(draft=draft, slug=slug, values=values or {}, has_network=draft.fetches)
        for draft, slug in zip(drafts, slugs, strict=True)
    ]
    return saving.save(chosen, reason="import of mcp.json", **more)


def test_a_program_becomes_a_profile_a_connection_and_secrets_bound_to_it() -> None:
    saved = save(told.CLAUDE_DESKTOP)
    assert (saved.refused, [row.slug for row in saved.connections]) == ([], ["files", "github"])
    row = McpConnection.objects.get(slug="github")
    assert row.profile is not None
    assert (row.transport, row.policy, row.enabled, row.profile.network) == ("stdio", "hold_all", True, "open")
    assert row.profile.environment == {"GITHUB_TOKEN": "{secret:github.GITHUB_TOKEN}", "LOG_LEVEL": "debug"}
    secret = Secret.objects.get()
    assert (secret.name, secret.origins, secret.places, secret.users) == (
        "github.GITHUB_TOKEN",
        "github.stdio",
        "environment.GITHUB_TOKEN",
        "",
    )
    assert secret.value() == told.TOKEN
    assert row.spec().launch.rendered_environment(lambda name, to: Secret.objects.get(name=name).value()) == {
        "GITHUB_TOKEN": told.TOKEN,
        "LOG_LEVEL": "debug",
    }
    assert history_of(row).first().reason == "import of mcp.json"
    assert not row.profile.is_unconfined


def test_an_address_becomes_a_connection_whose_secret_goes_there_alone() -> None:
    save(
        told.CURSOR.replace("far.example/mcp", "far.example:8443/mcp"), {"workspaceFolder": "/w", "LOCAL_API_KEY": "k"}
    )
    row = McpConnection.objects.get(slug="far")
    assert row.headers == {"X-Api-Key": "{secret:far.X-Api-Key}"}
    secret = Secret.objects.get(name="far.X-Api-Key")
    assert (secret.origins, secret.places, secret.users) == (
        "https://far.example:8443",
        "headers.X-Api-Key",
        "connection:far",
    )


def test_of_several_all_are_saved_or_none() -> None:
    entries = {"good": {"command": "x"}, "bad": {"url": "http://127.0.0.1:9/mcp"}}
    saved = save({"mcpServers": entries})
    assert saved.refused[0][0] == "bad"
    assert "MCPHUB_EGRESS_ALLOW" in saved.refused[0][1]
    assert (McpConnection.objects.count(), LaunchProfile.objects.count(), Secret.objects.count()) == (0, 0, 0)


def test_a_try_says_what_would_be_refused_and_keeps_nothing() -> None:
    assert [row.slug for row in save(told.CLAUDE_DESKTOP, dry_run=True).connections] == ["files", "github"]
    assert (McpConnection.objects.count(), Secret.objects.count()) == (0, 0)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"url": "http://127.0.0.1:8000/mcp"}, "this hub itself"),
        ({"url": "http://localhost:8000/mcp/s/tools"}, "this hub itself"),
        ({"url": "https://[x/mcp"}, "no address"),
        ({"command": "x", "env": {"LD_PRELOAD": "/x.so"}}, "cannot be set for a child"),
        ({"command": "x", "env": {"MCPHUB_DATA_DIR": "/x"}}, "cannot be set for a child"),
        ({"command": "x", "cwd": "/srv/\x00"}, "directory"),
        ({"command": "x", "env": {"A B": "c"}}, "no name of a variable"),
        ({"url": "https://x.example/mcp", "headers": {"A b": "c"}}, "no name of a header"),
    ],
)
def test_what_a_row_refuses_is_told_by_the_name_of_the_server(entry: Any, words: str) -> None:
    saved = save({"mcpServers": {"a": entry}})
    assert saved.refused[0][0] == "a"
    assert words in saved.refused[0][1]


def test_a_header_that_the_hub_writes_itself_is_left_out_and_told() -> None:
    draft = sources.read(
        '{"mcpServers": {"a": {"url": "https://x.example/mcp", "headers": {"Accept": "a/b"}}}}'
    ).drafts[0]
    assert (draft.headers, "Accept" in draft.notes[0]) == ((), True)


def test_a_taken_name_gets_a_number_also_where_only_its_secrets_are_left() -> None:
    McpConnectionFactory(slug="far")
    LaunchProfileFactory(name="local")
    secret = Secret(name="old.KEY", origins="https://a.example")
    secret.set_value("long enough")
    secret.save()
    drafts = sources.read(
        '{"far": {"url": "https://y.example"}, "local": {"command": "x"}, "old": {"command": "y"}}'
    ).drafts
    assert saving.free_slugs(drafts) == ["far-2", "local-2", "old-2"]
    long = sources.read(json.dumps({"a" * 40: {"command": "x"}, "a" * 41: {"command": "y"}})).drafts
    assert saving.free_slugs(long) == ["a" * 32, "a" * 30 + "-2"]


def test_what_the_hub_has_already_is_known_by_address_and_by_command() -> None:
    save(told.CLAUDE_DESKTOP)
    drafts = sources.read(told.CLAUDE_DESKTOP.replace('"github"', '"other"')).drafts
    assert saving.there_already(drafts) == {"files": "files", "other": "github"}


def test_a_server_that_its_client_switched_off_is_saved_switched_off() -> None:
    save(told.CLINE)
    assert McpConnection.objects.get().enabled is False
