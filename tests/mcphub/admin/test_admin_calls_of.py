"""How one tool and one key are used, what clients read of a tool, and keys that are rotated with an overlap."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from sessions_app.caller import Keys
from sessions_app.models import ApiKey
from sessions_app.protocol.errors import Unauthenticated
from tests.factories import McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def calls(echo: Any) -> ApiKey:
    key, _text = ApiKey.issue("laptop", scopes=["tools:call"])
    more = {"session": McpSessionFactory(), "process": ServerProcessFactory(), "caller_label": "laptop"}
    for _ in range(2):
        McpToolInvocationFactory(principal=f"key:{key.pk}", tool_name="echo", **more)
    McpToolInvocationFactory(principal=f"key:{key.pk}", tool_name="other", **more)
    McpToolInvocationFactory(principal="user:1", tool_name="echo", failed=True, **more | {"caller_label": ""})
    return key


def tables(page: Any) -> dict[str, list[tuple[str, str]]]:
    return {table["title"]: [(row["name"], row["calls"]) for row in table["rows"]] for table in page.context["tables"]}


def test_the_page_of_a_tool_tells_its_calls_alone(log_in, echo, calls):
    page = log_in("Viewer").get(reverse("tool_calls", args=[echo.pk]))
    assert [tile["words"] for tile in page.context["tiles"]][:2] == ["3", "33.3\N{NO-BREAK SPACE}%"]
    assert tables(page) == {
        "Callers": [(f"laptop (key:{calls.pk})", "2"), ("user:1", "1")],
        "Its errors": [("execution_error", "1")],
    }
    (row,) = page.context["charts"][0]["rows"]
    assert row["cells"][1:] == [3, 2, 1]
    listed = log_in("Viewer").get(row["link"]).context["cl"].result_list
    assert {call.tool_name for call in listed} == {"echo"}
    assert len(listed) == 3


def test_the_page_of_a_key_tells_its_calls_alone(log_in, calls):
    page = log_in("Operator").get(reverse("key_calls", args=[calls.pk]), {"range": "1h"})
    assert page.context["tiles"][0]["words"] == "3"
    assert tables(page)["Tools that it called"] == [("echo", "2"), ("other", "1")]


def test_who_may_not_see_keys_does_not_see_their_use(log_in, calls):
    assert log_in("Viewer").get(reverse("key_calls", args=[calls.pk])).status_code == 403


def test_a_tool_shows_its_arguments_and_its_json_to_who_may_not_edit_it(log_in, echo):
    page = log_in("Viewer").get(reverse("admin:tools_catalog_mcptooldefinition_change", args=[echo.pk]))
    shown = page.context["definition"]
    (argument,) = shown["arguments"]
    assert (argument["name"], argument["type"], argument["is_required"]) == ("text", "string", True)
    assert '"readOnlyHint": true' in shown["raw"]
    assert "As clients see it" in page.content.decode()


def _works(text: str) -> tuple[bool, bool]:
    """Return whether a key's text is let in at the MCP endpoints, and over REST."""
    try:
        Keys.load().caller(f"Bearer {text}")
        is_caller = True
    except Unauthenticated:
        is_caller = False
    answer = Client(headers={"authorization": f"Bearer {text}"}).get("/api/tool-definitions/")
    return is_caller, answer.status_code != 401


def test_a_key_rotated_with_an_overlap_works_with_both_texts_until_it_ends(log_in):
    key, old = ApiKey.issue("laptop", scopes=["tools:call", "tools:list"])
    rotate = reverse("admin:sessions_app_apikey_rotate", args=[key.pk])
    client = log_in("Operator")
    assert "When should the old key stop working?" in client.get(rotate).content.decode()
    done = client.post(rotate, {"confirmed": "yes", "overlap": "24"})
    new = done.context["text"]
    assert _works(old) == _works(new) == (True, True)
    key.refresh_from_db()
    assert key.previous_until > timezone.now() + timedelta(hours=23)
    page = client.get(reverse("admin:sessions_app_apikey_change", args=[key.pk])).content.decode()
    assert "Old key works until" in page
    ApiKey.objects.filter(pk=key.pk).update(previous_until=timezone.now() - timedelta(seconds=1))
    assert (_works(old), _works(new)) == ((False, False), (True, True))


def test_a_rotation_ends_the_text_before_the_last_one_and_a_revocation_all_of_them(log_in):
    key, first = ApiKey.issue("laptop", scopes=["tools:call", "tools:list"])
    second = key.rotate(timedelta(days=1))
    third = key.rotate(timedelta(days=1))
    assert [_works(text) for text in (first, second, third)] == [(False, False), (True, True), (True, True)]
    fourth = key.rotate()
    assert [_works(text) for text in (third, fourth)] == [(False, False), (True, True)]
    fifth = key.rotate(timedelta(days=1))
    ApiKey.objects.filter(pk=key.pk).revoke()
    assert [_works(text) for text in (fourth, fifth)] == [(False, False), (False, False)]


def test_an_overlap_that_is_none_of_the_choices_rotates_nothing(log_in):
    key, old = ApiKey.issue("laptop", scopes=["tools:call"])
    rotate = reverse("admin:sessions_app_apikey_rotate", args=[key.pk])
    refused = log_in("Operator").post(rotate, {"confirmed": "yes", "overlap": "9999999"})
    assert refused.context["form"].errors
    assert _works(old)[0]
