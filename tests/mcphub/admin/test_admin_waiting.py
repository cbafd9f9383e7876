"""The page of changes that wait for a second person, and what the other pages say of them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from sessions_app.models import WaitingChange
from tests.factories import McpToolDefinitionFactory, UserFactory
from tests.rest import by_key
from tools_catalog.models import McpToolDefinition

pytestmark = pytest.mark.usefixtures("transactional_db")


def operator(name: str) -> Any:
    person = UserFactory(username=name, is_staff=True)
    person.groups.add(Group.objects.get(name="Operator"))
    return person


@pytest.fixture
def tool(transactional_db: None) -> McpToolDefinition:
    row: McpToolDefinition = McpToolDefinitionFactory(name="weather")
    return row


def patch(client: Client, *, name: str = "weather", **body: Any) -> Any:
    return client.patch(f"/api/tool-definitions/{name}/", body, content_type="application/json")


def test_the_console_proposes_and_another_login_confirms(tool: McpToolDefinition) -> None:
    olga, oleg = Client(), Client()
    olga.force_login(operator("olga"))
    oleg.force_login(operator("oleg"))
    page = f"/admin/tools_catalog/mcptooldefinition/{tool.pk}/change/"
    form = olga.get(page).context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    values = {name: value for name, value in values.items() if value not in (None, False, [])}
    for name in ("input_schema", "output_schema", "configuration", "meta", "requirements"):
        values[name] = form[name].field.prepare_value(getattr(tool, name))
    values.pop("destructive", None)
    answer = olga.post(page, {**values, "read_only": "on"}, follow=True)
    assert "second person must confirm" in answer.content.decode()
    tool.refresh_from_db()
    assert (tool.read_only, tool.destructive) == (False, True)
    place = f"/admin/sessions_app/waitingchange/{WaitingChange.objects.get(state='waiting').pk}/"
    assert olga.post(f"{place}confirm/", {"confirmed": "1"}).status_code == 403
    assert "Read-only: no → yes" in oleg.get(f"{place}change/").content.decode()
    answer = oleg.post(f"{place}confirm/", {"confirmed": "1", "reason": "seen"}, follow=True)
    assert "in effect" in answer.content.decode()
    tool.refresh_from_db()
    assert (tool.read_only, tool.destructive) == (True, False)


def test_the_overview_counts_them_for_who_may_decide(tool: McpToolDefinition) -> None:
    patch(by_key("catalog:write"), destructive=False)
    oleg = Client()
    oleg.force_login(operator("oleg"))
    tiles = {tile["title"]: tile for tile in oleg.get("/admin/").context["tiles"]}
    tile = tiles["Changes waiting for a second person"]
    assert tile["words"] == "1"
    assert len(oleg.get(tile["link"]).context["cl"].result_list) == 1


def test_many_are_confirmed_at_once_and_each_says_what_became_of_it(tool: McpToolDefinition) -> None:
    patch(by_key("catalog:write", created_by=UserFactory()), destructive=False)
    other = McpToolDefinitionFactory(name="other")
    patch(by_key("catalog:write", created_by=UserFactory()), name="other", destructive=False)
    other.refresh_from_db()
    other.title = "Changed"
    other.save()
    oleg = Client()
    oleg.force_login(operator("oleg"))
    chosen = list(WaitingChange.objects.values_list("pk", flat=True))
    body = {"action": "confirm_selected", "_selected_action": chosen, "confirmed": "1"}
    page = oleg.post("/admin/sessions_app/waitingchange/", body).content.decode()
    assert "Confirmed" in page
    assert "Refused" in page
    tool.refresh_from_db()
    other.refresh_from_db()
    assert (tool.destructive, other.destructive) == (False, True)


def test_the_first_of_two_confirmations_says_that_one_more_person_is_needed(tool: McpToolDefinition) -> None:
    patch(by_key("catalog:write"), destructive=False)
    change = WaitingChange.objects.get()
    path = f"/admin/sessions_app/waitingchange/{change.pk}/"
    for name, words, is_destructive in (("oleg", "one more person", True), ("olga", "in effect", False)):
        client = Client()
        client.force_login(operator(name))
        answer = client.post(f"{path}confirm/", {"confirmed": "1", "reason": "seen"}, follow=True)
        assert words in answer.content.decode()
        tool.refresh_from_db()
        assert tool.destructive is is_destructive
    assert "oleg" in client.get(f"{path}change/").content.decode()
