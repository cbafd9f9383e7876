"""The page of a row: the same parts for each kind, of what the person may see."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from mcphub.features.call_rules.models import McpPolicyRule
from sessions_app.kit.admin.row_page import ShownPage
from sessions_app.models import ApiKey, McpWorkspace
from tests.factories import (
    ApiKeyFactory,
    McpConnectionFactory,
    McpToolDefinitionFactory,
    McpToolInvocationFactory,
    McpToolsetFactory,
    UserFactory,
)
from tests.tools_catalog.proposals import definition, offer

pytestmark = pytest.mark.django_db
ADD = "admin:tools_catalog_mcptooldefinition_add"


def address(row: Any) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def page(client: Any, row: Any) -> ShownPage:
    shown: ShownPage = client.get(address(row)).context["row_page"]
    return shown


def rows_of(kind: str) -> tuple[Any, dict[str, Any]]:
    """Return a row, and the columns of a call that concerns it."""
    match kind:
        case "tool":
            return McpToolDefinitionFactory(name="find_book"), {"tool_name": "find_book"}
        case "toolset":
            toolset = McpToolsetFactory()
            toolset.tools.add(McpToolDefinitionFactory(name="find_book"))
            return toolset, {"tool_name": "find_book"}
        case "connection":
            return McpConnectionFactory(slug="shop"), {"connection": "shop"}
        case "rule":
            return McpPolicyRule.objects.create(name="no-deletes", effect="deny"), {"policy_rule": "no-deletes"}
        case "workspace":
            return McpWorkspace.objects.create(slug="desk"), {"workspace": "desk"}
        case "key":
            key = ApiKeyFactory()
            return key, {"principal": f"key:{key.pk}"}
        case "key of a person":
            key, _text = ApiKey.issue("laptop", owner=UserFactory(username="ada"))
            return key, {"principal": f"user:{key.owner_id}", "caller_label": f"ada via laptop (key {key.pk})"}
    person = UserFactory()
    return person, {"principal": f"user:{person.pk}"}


@pytest.mark.parametrize(
    "kind", ["tool", "toolset", "connection", "rule", "workspace", "key", "key of a person", "person"]
)
def test_a_row_shows_its_calls_errors_users_and_history(kind: str, log_in: Any) -> None:
    row, columns = rows_of(kind)
    McpToolInvocationFactory(**{"tool_name": "elsewhere", "principal": "key:0"})
    McpToolInvocationFactory(**columns)
    McpToolInvocationFactory(failed=True, **columns)
    shown = page(log_in("superuser"), row)
    assert shown.facts
    figures = {str(each.title): str(each.words) for each in shown.figures}
    assert figures["Calls, 24 h"] == "2"
    assert figures["Errors, 24 h"].startswith("50.0")
    tables = {table.name: len(table.rows) for table in shown.tables}
    assert (tables["calls"], tables["errors"]) == (2, 1)
    assert tables["users"] == 1
    assert "history" in tables


def test_each_cell_names_its_column_and_a_table_of_many_columns_has_the_whole_width(log_in: Any) -> None:
    row, columns = rows_of("toolset")
    McpToolInvocationFactory(**columns)
    html = log_in("superuser").get(address(row)).content.decode()
    assert '<td data-label="Outcome">' in html
    assert '<section class="hub-card hub-whole" aria-labelledby="hub-page-calls">' in html
    assert '<section class="hub-card" aria-labelledby="hub-page-users">' in html


def test_who_may_not_see_calls_sees_none_on_the_page_of_a_tool(log_in: Any) -> None:
    tool = McpToolDefinitionFactory(name="find_book")
    McpToolInvocationFactory(tool_name="find_book")
    client = log_in("Viewer")
    client.user.groups.get().permissions.remove(
        *client.user.groups.get().permissions.filter(codename="view_mcptoolinvocation")
    )
    assert {table.name for table in page(client, tool).tables} == {"history"}


def test_what_waits_about_a_connection_leads_to_the_decision(log_in: Any) -> None:
    connection = McpConnectionFactory(slug="shop")
    offer(connection, definition("refund"))
    waiting = page(log_in("superuser"), connection).waiting
    assert [str(each.words) for each in waiting] == ["refund is new."]
    assert waiting[0].link == address(connection.tools.get())


def test_the_form_of_a_row_stands_in_closed_parts_that_name_their_values(log_in: Any) -> None:
    tool = McpToolDefinitionFactory(name="find_book", title="Find a book")
    html = log_in("superuser").get(address(tool)).content.decode()
    assert '<details class="hub-part"><summary>' in html
    assert "find_book · Find a book" in html


def test_the_heading_of_a_part_has_no_password(log_in: Any) -> None:
    person = UserFactory(username="ada")
    person.set_password("a long password")
    person.save()
    html = log_in("superuser").get(address(person)).content.decode()
    heading = html.split('<span class="hub-subtle hub-part-values">')[1].split("</span>")[0]
    assert "ada" in heading
    assert person.password[:12] not in heading


# A new tool -----------------------------------------------------------------------------------------------


def test_a_new_tool_asks_for_its_kind_first(log_in: Any) -> None:
    html = log_in("superuser").get(reverse(ADD)).content.decode()
    assert 'name="kind" value="http"' in html
    assert "<option>tools_catalog.packs.starter.tools:add</option>" in html
    assert 'value="upstream"' not in html


def test_a_function_fills_in_the_form_of_its_tool(log_in: Any) -> None:
    chosen = {"kind": "python", "function": "tools_catalog.packs.starter.tools:add"}
    form = log_in("superuser").get(reverse(ADD), chosen).context["adminform"].form
    assert form["name"].value() == "add"
    assert form["read_only"].value() is True
    assert set(form["input_schema"].field.prepare_value(form["input_schema"].value()).split('"')) >= {"a", "b"}
    assert form["configuration"].is_hidden
    assert not form["function"].is_hidden


def test_the_form_of_an_http_tool_has_no_function(log_in: Any) -> None:
    form = log_in("superuser").get(reverse(ADD), {"kind": "http"}).context["adminform"].form
    assert (form["configuration"].is_hidden, form["function"].is_hidden) == (False, True)
