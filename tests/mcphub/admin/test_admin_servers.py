"""Configurations of clients in the console: who may bring what, what is shown, saved, tested and approved."""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from tests.features.importers import configurations as told
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.discovery import reconcile
from tools_catalog.models import LaunchProfile, McpConnection, McpToolDefinition, McpToolset, Secret

SMALL = str(Path(__file__).parents[2] / "upstreams" / "peers" / "small.py")
HERE = "admin:connection_import"


def look(client: Any, text: Any, **more: Any) -> Any:
    given = text if isinstance(text, str) else json.dumps(text)
    return client.post(reverse(HERE), {"text": given, **more})


def field(page: str, label: str) -> str:
    """Return the name of the input with this label."""
    found = re.search(rf'<label for="(value-\d+-\d+)">{re.escape(label)}', page)
    assert found is not None, label
    return found[1]


def save(client: Any, page: Any, chosen: list[int], **values: str) -> Any:
    text = page.content.decode()
    seen = re.search(r'name="looked_at" value="(\w+)"', text)
    assert seen is not None
    return client.post(reverse(HERE), {"looked_at": seen[1], "chosen": [str(each) for each in chosen], **values})


def test_a_configuration_is_looked_at_filled_in_and_saved(log_in: Any) -> None:
    client = log_in("Upstream manager")
    page = look(client, told.VS_CODE)
    text = html.unescape(page.content.decode())
    assert "server-perplexity" in text
    assert "Perplexity API key" in text
    assert (McpConnection.objects.count(), LaunchProfile.objects.count()) == (0, 0)
    answer = save(client, page, [0], **{field(text, "perplexity-key"): "a-long-key-value", "slug-0": "ask"})
    row = McpConnection.objects.get()
    assert answer["Location"] == f"{reverse('admin:connection_imported')}?ids={row.pk}"
    assert (row.slug, row.policy, row.profile.environment) == (
        "ask",
        "hold_all",
        {"PERPLEXITY_API_KEY": "{secret:ask.perplexity-key}"},
    )
    assert (row.profile.network, Secret.objects.get().value()) == ("none", "a-long-key-value")


def test_secrets_of_the_text_are_neither_shown_nor_readable_in_the_session(log_in: Any) -> None:
    client = log_in("Upstream manager")
    page = look(client, told.CLAUDE_DESKTOP)
    assert told.TOKEN not in page.content.decode()
    assert "•••• " + told.TOKEN[-4:] in page.content.decode()
    rows = [row.get_decoded() for row in Session.objects.all()]
    assert told.TOKEN not in str(rows)
    (kept,) = (row["draft"] for row in rows if "draft" in row)
    assert kept.startswith("v1.")
    assert (
        len(client.session["mcphub_servers"]) == 32
    )  # the person's own session, which every page reads, names it only
    assert save(client, page, [0, 1]).status_code == 302
    assert Secret.objects.get().value() == told.TOKEN
    assert "mcphub_servers" not in client.session
    assert Session.objects.count() == 1


def test_a_file_is_read_as_a_text_is(log_in: Any) -> None:
    client = log_in("Upstream manager")
    file = SimpleUploadedFile("config.toml", told.CODEX.encode())
    page = client.post(reverse(HERE), {"document": file}).content.decode()
    assert "docs-server" in page
    assert "https://far.example/mcp" in page


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"text": "{"}, "Line 1"),
        ({"text": "{}"}, "There are no servers in it"),
        ({}, "Enter one of the three"),
        ({"text": "{}", "source": "https://x.example"}, "Enter one of the three"),
        ({"source": "http://169.254.169.254/server.json"}, "is not on the public internet"),
        ({"text": '{"mcpServers": {"a": 1}}'}, "it must be an object"),
    ],
)
def test_what_cannot_be_read_is_said_on_the_page(given: dict[str, str], words: str, log_in: Any) -> None:
    assert words in html.unescape(log_in("Operator").post(reverse(HERE), given).content.decode())


@pytest.mark.parametrize("role", ["Viewer", "Auditor"])
@pytest.mark.parametrize("page", ["import", "imported", "known", "registry"])
def test_who_may_not_make_connections_sees_none_of_the_pages(role: str, page: str, log_in: Any) -> None:
    client = log_in(role)
    where = reverse(f"admin:connection_{page}")
    assert (client.get(where).status_code, client.post(where).status_code) == (403, 403)


def test_an_operator_brings_addresses_and_neither_programs_nor_secrets(log_in: Any) -> None:
    client = log_in("Operator")
    page = look(client, told.ZED)
    text = html.unescape(page.content.decode())
    assert "so only an upstream manager can add it" in text
    answer = save(client, page, [0, 1, 2], **{field(text, "Authorization"): "a-long-token"})
    assert "You can't write secrets" in html.unescape(answer.content.decode())
    assert (McpConnection.objects.count(), LaunchProfile.objects.count(), Secret.objects.count()) == (0, 0, 0)
    secret = Secret(name="FAR", origins="https://far.example", users="connection:far")
    secret.set_value("a-long-token")
    secret.save()
    assert save(client, page, [2], **{field(text, "Authorization"): "{secret:FAR}"}).status_code == 302
    row = McpConnection.objects.get()
    assert (row.slug, row.headers) == ("far", {"Authorization": "Bearer {secret:FAR}"})


def test_what_is_missing_or_refused_is_said_beside_its_server_and_nothing_is_saved(log_in: Any) -> None:
    client = log_in("Upstream manager")
    page = look(client, {"mcpServers": {"a": {"command": "x", "args": ["<folder>"]}, "b": {"command": "y"}}})
    answer = html.unescape(save(client, page, [0, 1]).content.decode())
    assert "argument 1: fill this in" in answer
    assert "Nothing was saved" in answer
    assert not McpConnection.objects.exists()
    assert "Choose at least one server" in html.unescape(save(client, page, []).content.decode())


def test_a_name_that_is_wrong_is_refused(log_in: Any) -> None:
    client = log_in("Upstream manager")
    page = look(client, {"mcpServers": {"a": {"command": "x"}}})
    answer = html.unescape(save(client, page, [0], **{"slug-0": "A b"}).content.decode())
    assert "Use 1 to 32 of a-z 0-9" in answer
    assert not LaunchProfile.objects.exists()


def test_what_was_looked_at_in_another_tab_is_asked_for_again(log_in: Any) -> None:
    client = log_in("Upstream manager")
    first = look(client, {"mcpServers": {"a": {"command": "x"}}})
    look(client, {"mcpServers": {"a": {"command": "rm"}}})
    answer = save(client, first, [0])
    assert answer.status_code == 302
    assert not McpConnection.objects.exists()


def test_foreign_words_are_shown_as_words(log_in: Any) -> None:
    client = log_in("Upstream manager")
    text = look(client, {"mcpServers": {"<script>": {"command": "x", "args": ["\u202e<b>"]}}}).content.decode()
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text
    assert "\u202e" not in text


def test_more_values_than_a_form_takes_are_refused_before_they_are_shown(log_in: Any) -> None:
    servers = {f"s{n}": {"command": "x", "args": [f"<value {m}>" for m in range(20)]} for n in range(60)}
    page = look(log_in("Upstream manager"), {"mcpServers": servers}).content.decode()
    assert "too many values" in page


def test_the_paths_of_a_program_are_proposed_and_may_be_changed(log_in: Any, settings: Any) -> None:
    settings.MCPHUB_CHILDREN_WRITABLE = ("/srv",)
    client = log_in("Upstream manager")
    entry = {"command": "node", "args": ["/srv/project/notes/dist/index.js"]}
    page = look(client, {"mcpServers": {"a": entry, "b": entry, "c": {**entry, "args": ["/etc/x"]}}})
    assert 'value="/srv/project/notes"' in page.content.decode()
    given = {"readable-0": "/srv/project/notes", "readable-1": "", "writable-1": "/srv/out /srv/more"}
    assert save(client, page, [0, 1], **given).status_code == 302
    one, two = LaunchProfile.objects.order_by("name")
    assert (one.readable, one.writable) == (["/srv/project/notes"], [])
    assert (two.readable, two.writable) == ([], ["/srv/out", "/srv/more"])


@pytest.mark.program
def test_saved_programs_are_tested_all_at_once_and_what_they_offer_is_approved(log_in: Any) -> None:
    client = log_in("Upstream manager")
    entries: dict[str, Any] = {
        name: {
            "command": sys.executable,
            "args": [SMALL, name, "--wants-token"],
            "env": {"SMALL_TOKEN": "a-long-token"},
        }
        for name in ("one", "two")
    }
    entries["broken"] = {"command": sys.executable, "args": [SMALL, "broken", "--wants-token"]}
    page = look(client, {"mcpServers": entries})
    where = save(client, page, [0, 1, 2])["Location"]
    text = html.unescape(client.post(where, {"test": "all"}).content.decode())
    assert text.count('name="offer"') == 2
    assert "SMALL_TOKEN is not set" in text
    assert "Greet from one." in text
    offers = re.findall(r'name="offer" value="([^"]+)"', text)
    assert client.post(where, {"approve": "1", "offer": offers[:1], "reason": "looked at"}).status_code == 302
    tool = McpToolDefinition.objects.get(backend="upstream")
    assert (tool.description, tool.versions.first().reason) == ("Greet from one.", "looked at")
    assert tool.versions.first().author == client.user


def test_only_what_the_page_showed_is_approved(log_in: Any) -> None:
    row = offer(McpConnection.objects.create(slug="t", transport="sse", url="https://t.example"), definition("a"))["a"]
    client = log_in("Operator")
    where = f"{reverse('admin:connection_imported')}?ids={row.connection_id}"
    client.post(where, {"approve": "1", "offer": [f"{row.pk}:{'0' * 64}", "x"]})
    assert not McpToolDefinition.objects.filter(backend="upstream").exists()
    client.post(where, {"approve": "1", "offer": [f"{row.pk}:{row.seen_digest}"]})
    assert McpToolDefinition.objects.filter(backend="upstream").exists()


def test_an_operator_tests_no_program_on_the_page_of_what_was_imported(log_in: Any) -> None:
    profile = LaunchProfile.objects.create(name="p", command="x")
    row = McpConnection.objects.create(slug="p", transport="stdio", profile=profile)
    where = f"{reverse('admin:connection_imported')}?ids={row.pk},999999999999999999999,x"
    assert log_in("Operator").post(where, {"test": "all"}).status_code == 302  # there is nothing here for them


def test_a_known_server_is_chosen_filled_in_and_saved(log_in: Any) -> None:
    client = log_in("Upstream manager")
    listed = client.get(reverse("admin:connection_known"), {"q": "linear"}).content.decode()
    link = html.unescape(re.search(r'href="([^"]*known=linear)"', listed)[1])  # type: ignore[index]
    page = client.get(link)
    name = field(html.unescape(page.content.decode()), "LINEAR_API_KEY")
    assert save(client, page, [0], **{name: "a-long-key"}).status_code == 302
    row = McpConnection.objects.get()
    assert (row.slug, row.url) == ("linear", "https://mcp.linear.app/mcp")
    assert row.headers == {"Authorization": "Bearer {secret:linear.LINEAR_API_KEY}"}


def test_an_unknown_one_leads_back_to_the_list(log_in: Any) -> None:
    client = log_in("Upstream manager")
    for name in ("nothing", "<script>"):
        answer = client.get(reverse(HERE), {"known": name}, follow=True)
        assert "The hub has no known server" in answer.content.decode()


def test_an_operator_sees_known_programs_without_a_way_to_add_them(log_in: Any) -> None:
    page = log_in("Operator").get(reverse("admin:connection_known"), {"q": "sequential"}).content.decode()
    assert "known=sequential-thinking" not in page
    assert "upstream manager" in page


def test_a_registry_at_a_private_address_is_not_asked(log_in: Any) -> None:
    answer = log_in("Operator").post(reverse("admin:connection_registry"), {"registry": "http://127.0.0.1:1", "q": "x"})
    assert "is not on the public internet" in html.unescape(answer.content.decode())
    assert log_in("Operator").get(reverse("admin:connection_registry")).status_code == 200


def served(name: str) -> tuple[McpConnection, str]:
    """Return a connection with one approved tool, and its page."""
    connection = McpConnection.objects.create(slug=name, transport="sse", url=f"https://{name}.example")
    reconcile.approve(offer(connection, definition("read"))["read"], author=None, reason="")
    return connection, f"{reverse('admin:connection_imported')}?ids={connection.pk}"


def test_an_address_leads_to_a_connection_a_toolset_and_a_client(log_in: Any) -> None:
    client = log_in("Upstream manager")
    assert 'aria-current="step">Paste' in client.get(reverse(HERE)).content.decode()
    page = look(client, "https://mcp.shop.example/mcp")
    assert 'aria-current="step">Review and complete' in page.content.decode()
    assert save(client, page, [0]).status_code == 302
    assert (McpConnection.objects.get().slug, McpConnection.objects.get().url) == (
        "shop",
        "https://mcp.shop.example/mcp",
    )


def test_approved_tools_are_put_into_a_toolset_that_is_made_for_them(log_in: Any) -> None:
    connection, where = served("shop")
    client = log_in("Operator")
    text = client.get(where).content.decode()
    assert 'aria-current="step">Choose who can use them' in text
    assert "every caller" in text
    assert client.post(where, {"share": "1", "toolset": "", "slug": "shopping"}).status_code == 302
    toolset = McpToolset.objects.get()
    assert [tool.upstream_tool.connection for tool in toolset.tools.all()] == [connection]
    _, other = served("books")
    client.post(other, {"share": "1", "toolset": str(toolset.pk)})
    assert toolset.tools.count() == 2
    assert "/mcp/s/shopping" in client.get(other).content.decode()


@pytest.mark.parametrize(
    ("slug", "words"), [("", "This field cannot be blank"), ("Shop Ping", "Use 1 to 32 of"), ("taken", "already")]
)
def test_what_is_wrong_about_a_toolset_stands_at_its_field(slug: str, words: str, log_in: Any) -> None:
    McpToolset.objects.create(slug="taken")
    _, where = served("shop")
    text = html.unescape(log_in("Operator").post(where, {"share": "1", "slug": slug}).content.decode())
    assert words in text
    assert McpToolset.objects.count() == 1
