"""The page of toolsets."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from sessions_app.history.reading import history_of
from tests.factories import McpToolDefinitionFactory
from tools_catalog.models import McpToolset

pytestmark = pytest.mark.django_db


@pytest.fixture
def chosen() -> Any:
    McpToolDefinitionFactory(name="tickets.read")
    return McpToolDefinitionFactory(name="sums.add")


def test_a_toolset_is_made_of_choices_and_patterns(admin_client: Client, chosen: Any) -> None:
    given = {
        "slug": "few",
        "mode": "list",
        "reads": "all",
        "tools": [chosen.pk],
        "patterns": " tickets.*\n",
        "enabled": "on",
    }
    answer = admin_client.post(reverse("admin:tools_catalog_mcptoolset_add"), given)
    assert answer.status_code == 302, answer.content.decode()
    row = McpToolset.objects.get()
    assert row.patterns == "tickets.*"
    page = admin_client.get(reverse("admin:tools_catalog_mcptoolset_change", args=[row.pk])).content.decode()
    assert "/mcp/s/few" in page.replace("<wbr>", "")
    assert "sums.add, tickets.read" in page
    assert "tokens (estimated: characters / 4)" in page
    assert {"tools": ["sums.add"]} in [event.after for event in history_of(row)]


def test_what_is_no_pattern_is_refused(admin_client: Client) -> None:
    given = {"slug": "few", "mode": "list", "reads": "all", "patterns": "a[b]", "enabled": "on"}
    answer = admin_client.post(reverse("admin:tools_catalog_mcptoolset_add"), given)
    assert "t a valid pattern" in answer.content.decode()


def test_what_is_no_pattern_of_prompts_is_refused(admin_client: Client) -> None:
    given = {"slug": "few", "mode": "list", "reads": "chosen", "read_patterns": "docs://[a-z]/*", "enabled": "on"}
    answer = admin_client.post(reverse("admin:tools_catalog_mcptoolset_add"), given)
    assert "enter prompt names, URIs" in answer.content.decode()


def test_the_list_of_tools_says_how_large_it_is_to_a_model(admin_client: Client, chosen: Any) -> None:
    page = admin_client.get(reverse("admin:tools_catalog_mcptooldefinition_changelist")).content.decode()
    assert "tokens (estimated: characters / 4)" in page
