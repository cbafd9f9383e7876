"""Names that agents take, and former names that lead to their tools."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from invocations.chain.models import AuditHold
from invocations.redaction.models import McpRedactionRule
from sessions_app.caller import Caller
from sessions_app.protocol.errors import PromptNotFound, ToolNotFound
from tests.factories import McpConnectionFactory, McpToolDefinitionFactory, McpToolsetFactory
from tests.tools_catalog.proposals import definition, offer, offers
from tools_catalog.bundles import bundle
from tools_catalog.catalog.offers import Prompts
from tools_catalog.catalog.selection import Alias
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.models import McpAlias, McpConnection, McpToolDefinition, McpToolset, McpUpstreamTool, aliases
from tools_catalog.models.names import prefixed

ANYBODY = Caller(principal="key:1", label="", scopes=frozenset(), groups=frozenset(), sees_everything=False)
AGENTS = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@given(st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True), st.text(min_size=1, max_size=300))
def test_every_upstreams_name_becomes_one_that_agents_take(prefix: str, name: str) -> None:
    assert AGENTS.fullmatch(prefixed(prefix, name))
    assert prefixed(prefix, name) == prefixed(prefix, name)


def test_long_names_that_differ_at_their_end_stay_apart() -> None:
    assert prefixed("up_", "x" * 100) != prefixed("up_", "x" * 99 + "y")


def test_full_stops_stay_where_the_operator_wrote_one_into_the_prefix() -> None:
    assert (prefixed("up.", "a.b"), prefixed("up_", "a.b")) == ("up.a.b", "up_a_b")
    assert prefixed("", "a.b") == "a.b", "who wants no prefix wants the upstream's names"


@pytest.fixture
def connection(db: Any) -> McpConnection:
    return McpConnectionFactory(slug="up", prefix="up.", policy="trust")


def rename(connection: McpConnection, prefix: str) -> None:
    connection.refresh_from_db()
    connection.prefix = prefix
    connection.full_clean()
    connection.save()


def test_a_new_connection_names_its_tools_by_an_underscore(db: Any) -> None:
    offer(McpConnectionFactory(slug="near", policy="trust"), definition("find.all"))
    assert McpToolDefinition.objects.get(backend="upstream").name == "near_find_all"


def test_a_tool_is_found_by_its_former_name_and_listed_by_its_present_one(connection: McpConnection) -> None:
    offer(connection, definition())
    rename(connection, "up_")
    catalog = Catalog.load()
    assert catalog.find("up.search", ANYBODY) is catalog.find("up_search", ANYBODY)
    assert catalog.find("up.search", ANYBODY).name == "up_search"
    assert b'"up.search"' not in catalog.tool_list.page(ANYBODY, "2026-07-28")
    version = McpToolDefinition.objects.get(name="up_search").versions.first()
    assert version is not None
    assert "prefix" in version.reason
    assert Catalog.load_version("up.search", "", ANYBODY).name == "up_search"


def test_a_former_name_is_unknown_once_its_days_are_over(connection: McpConnection) -> None:
    offer(connection, definition())
    rename(connection, "up_")
    known = Catalog.load()
    McpAlias.objects.update(expires_at=timezone.now())
    for catalog in (Catalog.load(), Catalog(known.tools.values(), aliases=[])):
        with pytest.raises(ToolNotFound):
            catalog.find("up.search", ANYBODY)
    assert (aliases.purge(), aliases.purge()) == (1, 0)


def test_an_alias_ends_without_anybody_loading_anything(connection: McpConnection) -> None:
    offer(connection, definition())
    tools = Catalog.load().tools.values()
    former = [Alias(name, "up.search", timezone.now() + timedelta(days=days)) for name, days in (("a", 1), ("b", -1))]
    catalog = Catalog(tools, aliases=former)
    assert catalog.find("a", ANYBODY).name == "up.search"
    with pytest.raises(ToolNotFound):
        catalog.find("b", ANYBODY)


def test_no_former_name_is_kept_for_no_days(connection: McpConnection, settings: Any) -> None:
    settings.MCPHUB_ALIAS_DAYS = 0
    offer(connection, definition())
    rename(connection, "up_")
    assert not McpAlias.objects.exists()


def test_a_prefix_that_comes_back_takes_its_names_back(connection: McpConnection) -> None:
    offer(connection, definition())
    rename(connection, "up_")
    rename(connection, "up.")
    assert [(alias.name, alias.leads_to) for alias in McpAlias.objects.all()] == [("up_search", "up.search")]


def test_an_operators_own_name_stays(connection: McpConnection) -> None:
    tool = offer(connection, definition())["search"].tool
    assert tool is not None
    tool.name = "find_tickets"
    tool.save()
    rename(connection, "up_")
    assert McpToolDefinition.objects.get(pk=tool.pk).name == "find_tickets"
    assert McpUpstreamTool.objects.get().name == "up_search"
    assert Catalog.load().find("up.search", ANYBODY).name == "find_tickets", (
        "a tool renamed by hand leaves an alias, too"
    )


def test_names_that_are_taken_stop_the_change_and_say_so(connection: McpConnection) -> None:
    offer(connection, definition())
    McpToolDefinitionFactory(name="up_search")
    with pytest.raises(ValidationError, match="up_search is already taken"):
        rename(connection, "up_")
    assert McpConnection.objects.get(pk=connection.pk).prefix == "up."


def test_two_tools_that_would_share_a_name_stop_the_change(connection: McpConnection) -> None:
    offer(connection, definition("a.b"), definition("a_b"))
    with pytest.raises(ValidationError, match="would both be named up_a_b"):
        rename(connection, "up_")


def test_nobody_takes_a_name_that_still_leads_elsewhere(connection: McpConnection) -> None:
    offer(connection, definition())
    rename(connection, "up_")
    taken = McpToolDefinitionFactory.build(name="up.search")
    with pytest.raises(ValidationError, match=re.escape("up.search still refers to up_search")):
        taken.full_clean()
    McpAlias.objects.update(expires_at=timezone.now())
    taken.full_clean()


def test_prompts_are_renamed_with_the_tools(connection: McpConnection) -> None:
    offers(connection, prompt=[{"name": "greet"}])
    rename(connection, "up_")
    prompts = Prompts.load()
    assert prompts.find("up.greet", ANYBODY).name == prompts.find("up_greet", ANYBODY).name == "up_greet"
    McpAlias.objects.update(expires_at=timezone.now())
    with pytest.raises(PromptNotFound):
        Prompts.load().find("up.greet", ANYBODY)


def test_toolsets_follow_a_renamed_prefix(connection: McpConnection) -> None:
    offer(connection, definition())
    McpToolsetFactory(slug="few", patterns="up.* other.*")
    McpToolsetFactory(slug="odd", patterns="u?.sea*")
    rename(connection, "up_")
    assert McpToolset.objects.get(slug="few").patterns == "up_* other.*"
    catalog = Catalog.load()
    assert all("up_search" in catalog.toolsets[slug].tools for slug in ("few", "odd"))
    assert catalog.toolsets["few"].find("up.search", ANYBODY).name == "up_search"


def test_what_a_rule_hides_stays_hidden_and_what_a_hold_keeps_stays_kept(connection: McpConnection) -> None:
    offer(connection, definition("search"), definition("seek"))
    rules = [McpRedactionRule.objects.create(place="$.a", tool_name=name) for name in ("up.search", "up.*", "*.seek")]
    AuditHold.objects.create(name="case 7", reason="court", tool_name="up.search")
    rename(connection, "up_")
    names = set(McpRedactionRule.objects.exclude(tool_name="").values_list("tool_name", flat=True))
    assert names == {rule.tool_name for rule in rules} | {"up_search", "up_*", "up_seek"}
    assert set(AuditHold.objects.values_list("tool_name", flat=True)) == {"up.search", "up_search"}


def test_a_bundle_that_names_a_tool_by_its_former_name_means_it(connection: McpConnection) -> None:
    offer(connection, definition())
    rename(connection, "up_")
    toolset = {"slug": "few", "tools": ["up.search"]}
    report = bundle.load({"format": bundle.FORMAT, "toolsets": [toolset]}, reason="test")
    assert not report.refused
    assert [tool.name for tool in McpToolset.objects.get().tools.all()] == ["up_search"]


def test_rest_knows_former_names_and_forgets_them(connection: McpConnection, admin_client: Any) -> None:
    offer(connection, definition())
    rename(connection, "up_")
    address = "/api/tool-definitions/up.search/"
    assert admin_client.get(address).json()["name"] == "up_search"
    assert admin_client.get(f"{address}versions/").json()["results"]
    unknown = admin_client.patch(address, {"aliases": ["else"]}, content_type="application/json")
    assert (unknown.status_code, "is no former name" in unknown.content.decode()) == (409, True)
    answer = admin_client.patch(address, {"aliases": []}, content_type="application/json")
    assert (answer.status_code, answer.json()["aliases"]) == (200, [])
    assert admin_client.get(address).status_code == 404


def test_the_page_of_a_tool_shows_its_former_names(connection: McpConnection, admin_client: Any) -> None:
    tool = offer(connection, definition())["search"].tool
    assert tool is not None
    rename(connection, "up_")
    assert "up.search" in admin_client.get(f"/admin/tools_catalog/mcptooldefinition/{tool.pk}/change/").content.decode()
