"""Descriptions of APIs in the admin: looked at, chosen from, imported; and who may."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from sessions_app.kit.admin import kept_files
from sessions_app.login.session_store import SessionStore
from tests.factories import GroupFactory, McpToolDefinitionFactory
from tools_catalog.models import HttpService, McpToolDefinition, McpToolset

pytestmark = pytest.mark.program
"""A description is read in a process of its own."""

TICKETS: dict[str, Any] = {
    "openapi": "3.1.0",
    "servers": [{"url": "https://tickets.example/v1"}],
    "paths": {
        "/tickets": {"get": {"operationId": "list", "description": "All. <script>alert(1)</script>"}},
        "/files": {"post": {"requestBody": {"required": True, "content": {"multipart/form-data": {}}}}},
        "/tickets/[all]": {"get": {"operationId": "odd"}},
    },
}


def look(client: Any, document: Any, **more: Any) -> Any:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    given = {"service": "tickets", "kind": "openapi", "document": SimpleUploadedFile("x.json", raw), **more}
    return client.post(reverse("admin:service_import"), given)


def test_a_description_is_looked_at_and_then_chosen_from(log_in: Any) -> None:
    client = log_in("Operator")
    page = look(client, TICKETS).content.decode()
    assert "GET /tickets" in page
    assert "&lt;script&gt;" in page
    assert "tools send JSON, forms or text" in page
    assert not McpToolDefinition.objects.exists()
    assert not HttpService.objects.exists()
    answer = client.post(reverse("admin:service_import"), {"chosen": "ticked", "operation": ["GET /tickets/[all]"]})
    assert answer.status_code == 302
    assert list(McpToolDefinition.objects.values_list("name", flat=True)) == ["tickets_odd"]
    newest = McpToolDefinition.objects.get().versions.first()
    assert newest is not None
    assert newest.author == client.user
    listed = client.get(answer["Location"]).content.decode()
    assert "tickets_odd" in listed
    changed = json.loads(json.dumps(TICKETS))
    changed["paths"]["/tickets/[all]"]["get"]["description"] = "Odd ones."
    page = look(client, changed).content.decode()
    assert "+ Odd ones." in page


def rows_of(page: str) -> dict[str, tuple[bool, str]]:
    """Return each operation of the page: whether it is ticked, and its effects."""
    found = re.findall(r'<input type="checkbox" name="operation" value="([^"]*)"([^>]*)>(.*?)</tr>', page, re.DOTALL)
    words = ("Read-only", "Writes", "Destructive")
    return {key: (" checked" in box, next(word for word in words if word in row)) for key, box, row in found}


RISKY = json.loads(json.dumps(TICKETS))
RISKY["paths"]["/tickets"] |= {
    "delete": {"operationId": "clear", "description": "Delete all."},
    "post": {"operationId": "createTicket"},
}
RISKY["paths"]["/tickets/purge"] = {"post": {"operationId": "createPurge"}, "get": {"operationId": "purge"}}
SHOWN = {
    "GET /tickets": (True, "Read-only"),
    "POST /tickets": (False, "Writes"),
    "DELETE /tickets": (False, "Destructive"),
    "GET /tickets/[all]": (True, "Read-only"),
    "GET /tickets/purge": (False, "Destructive"),
    "POST /tickets/purge": (False, "Destructive"),
}


def test_what_writes_is_marked_and_chosen_by_hand(log_in: Any) -> None:
    client = log_in("Operator")
    assert rows_of(look(client, RISKY).content.decode()) == SHOWN
    page = client.get(reverse("admin:service_import"), {"draft": "1", "effects": "destroys"}).content.decode()
    assert rows_of(page) == {key: row for key, row in SHOWN.items() if row[1] == "Destructive"}


def test_new_tools_are_off_and_go_where_the_page_says(log_in: Any) -> None:
    client = log_in("Operator")
    group, toolset = GroupFactory(name="helpers"), McpToolset.objects.create(slug="help", enabled=True)
    look(client, RISKY)
    where = {"toolset": toolset.pk, "groups": [group.pk]}
    asked = {"chosen": "ticked", "operation": ["GET /tickets", "DELETE /tickets"], **where}
    page = client.post(reverse("admin:service_import"), asked, follow=True).content.decode()
    assert "The new tools are off." in page
    made = McpToolDefinition.objects.all()
    assert {(tool.name, tool.enabled, *tool.groups.all(), *tool.toolsets.all()) for tool in made} == {
        ("tickets_list", False, group, toolset),
        ("tickets_clear", False, group, toolset),
    }
    look(client, RISKY, service="again")
    client.post(reverse("admin:service_import"), {"chosen": "matching", "effects": "reads", "enable": "on"})
    assert set(made.filter(enabled=True).values_list("name", flat=True)) == {"again_list", "again_odd"}


def test_what_was_chosen_stays_where_the_import_is_refused(log_in: Any) -> None:
    client, toolset = log_in("Operator"), McpToolset.objects.create(slug="help", enabled=True)
    look(client, RISKY)
    McpToolDefinitionFactory(name="tickets_clear")
    asked = {"chosen": "ticked", "operation": ["DELETE /tickets", "POST /tickets"], "toolset": toolset.pk}
    page = client.post(reverse("admin:service_import"), asked, follow=True).content.decode()
    assert "Nothing was imported." in page
    assert [key for key, (is_ticked, _effects) in rows_of(page).items() if is_ticked] == ["POST /tickets"]
    assert f'<option value="{toolset.pk}" selected>' in page


@pytest.mark.parametrize(
    ("document", "words"),
    [(b"{", "not valid JSON"), ({"swagger": "1.2"}, "Swagger 1.2"), ({**TICKETS, "servers": []}, "names no server")],
)
def test_what_cannot_be_imported_is_said_on_the_page(log_in: Any, document: Any, words: str) -> None:
    page = look(log_in("Operator"), document).content.decode()
    assert words in page


def test_an_address_inside_is_not_fetched(log_in: Any) -> None:
    given = {"service": "tickets", "kind": "openapi", "source": "http://169.254.169.254/latest/meta-data"}
    page = log_in("Operator").post(reverse("admin:service_import"), given).content.decode()
    assert "is not on the public internet" in page


def test_either_a_file_or_an_address(log_in: Any) -> None:
    given = {"service": "tickets", "kind": "openapi"}
    assert (
        "Choose a file or enter a URL."
        in log_in("Operator").post(reverse("admin:service_import"), given).content.decode()
    )


@pytest.mark.parametrize("role", ["Viewer", "Auditor"])
def test_who_may_not_write_tools_may_not_import(log_in: Any, role: str) -> None:
    client = log_in(role)
    assert client.get(reverse("admin:service_import")).status_code == 403
    assert look(client, TICKETS).status_code == 403


def test_a_draft_that_is_gone_is_asked_for_again(log_in: Any) -> None:
    answer = log_in("Operator").post(reverse("admin:service_import"), {"chosen": "matching"}, follow=True)
    assert "has expired" in answer.content.decode()


LARGE: dict[str, Any] = {
    "openapi": "3.1.0",
    "servers": [{"url": "https://tickets.example/v1"}],
    "paths": {
        f"/{'even' if number % 2 == 0 else 'odd'}/{number}": {
            "get": {"operationId": f"read_{number}", "tags": ["reading"]},
            "delete": {"operationId": f"remove_{number}", "tags": ["removing", "<b>"]},
        }
        for number in range(600)
    },
}


def test_operations_are_chosen_by_a_filter_that_is_sent_in_their_place(log_in: Any) -> None:
    """1 200 fields would be more than Django takes of a form."""
    client = log_in("Operator")
    page = look(client, LARGE).content.decode()
    assert "Showing 200 of 1200 operations." in page
    assert page.count('name="operation"') == 200
    chosen = {"method": "GET", "tag": "reading", "text": "/EVEN/1"}
    page = client.get(reverse("admin:service_import"), {"draft": "1", **chosen}).content.decode()
    assert "Import all 55 matching" in page
    assert "DELETE /" not in page
    answer = client.post(reverse("admin:service_import"), {"chosen": "matching", **chosen})
    assert answer.status_code == 302
    assert McpToolDefinition.objects.filter(name__startswith="tickets_read_1").count() == 55
    assert McpToolDefinition.objects.count() == 55


def test_a_filter_that_is_none_matches_nothing(log_in: Any) -> None:
    client = log_in("Operator")
    look(client, LARGE)
    given = {"draft": "1", "method": "BREW", "text": "x" * 300}
    page = client.get(reverse("admin:service_import"), given).content.decode()
    assert "Showing 0 of 0 operations." in page
    client.post(reverse("admin:service_import"), {"chosen": "matching", **given})
    assert not McpToolDefinition.objects.exists()


def test_a_name_that_another_tool_has_is_said_before_the_import(log_in: Any) -> None:
    McpToolDefinitionFactory(name="tickets_list")
    client = log_in("Operator")
    page = look(client, TICKETS).content.decode()
    assert "Another tool already has this name." in page
    client.post(reverse("admin:service_import"), {"chosen": "matching"})
    assert set(McpToolDefinition.objects.values_list("name", flat=True)) == {"tickets_list", "tickets_odd"}


def test_swagger_is_read_from_a_file(log_in: Any) -> None:
    document = {"swagger": "2.0", "host": "tickets.example", "paths": {"/tickets": {"get": {"operationId": "all"}}}}
    client = log_in("Operator")
    assert "GET /tickets" in look(client, document).content.decode()
    client.post(reverse("admin:service_import"), {"chosen": "matching"})
    assert HttpService.objects.get().url == "https://tickets.example"


NAMELESS = {**TICKETS, "servers": []}
"""Its address has to be given beside it."""


def test_a_file_is_kept_while_the_form_has_errors(log_in: Any) -> None:
    client = log_in("Operator")
    page = look(client, NAMELESS).content.decode()
    assert "names no server" in page
    assert re.search(r'<input type="checkbox" name="again"[^>]* checked', page)
    assert "The file x.json (" in page
    given = {"service": "no good name", "kind": "openapi", "again": "on", "url": "https://tickets.example"}
    page = client.post(reverse("admin:service_import"), given).content.decode()
    assert re.search(r'<input type="checkbox" name="again"[^>]* checked', page)
    page = client.post(reverse("admin:service_import"), {**given, "service": "tickets"}).content.decode()
    assert "GET /tickets" in page
    page = client.post(reverse("admin:service_import"), given).content.decode()
    assert "Choose a file or enter a URL." in page, "a description that was read is kept no longer"


def test_another_file_or_an_address_takes_the_place_of_a_kept_one(log_in: Any) -> None:
    client = log_in("Operator")
    look(client, NAMELESS)
    given = {"again": "on", "source": "http://169.254.169.254/latest"}
    page = client.post(reverse("admin:service_import"), {"service": "tickets", "kind": "openapi", **given})
    assert "Choose a file or enter a URL." in page.content.decode()
    given = {"source": "http://169.254.169.254/latest"}
    page = client.post(reverse("admin:service_import"), {"service": "tickets", "kind": "openapi", **given})
    assert "is not on the public internet" in page.content.decode()
    assert "GET /tickets" in look(client, TICKETS, again="on").content.decode()


def test_a_kept_file_is_for_its_own_login_alone_and_bounded(log_in: Any) -> None:
    look(log_in("Operator"), NAMELESS)
    given = {"service": "tickets", "kind": "openapi", "again": "on"}
    page = log_in("Operator").post(reverse("admin:service_import"), given).content.decode()
    assert "Choose a file or enter a URL." in page
    rows = SessionStore.get_model_class().objects
    before = rows.count()
    client = log_in("Operator")
    for _ in range(3):
        look(client, NAMELESS)
    assert rows.count() == before + 2, "the login and one file"


def test_a_file_that_is_too_large_to_be_kept_has_to_be_chosen_again(log_in: Any) -> None:
    long = b'{"openapi": "' + b" " * kept_files.MOST_BYTES + b'"}'
    page = look(log_in("Operator"), long, service="no good name").content.decode()
    assert "too large to keep" in page
    assert 'name="again"' not in page


def test_a_script_hears_how_far_an_import_is_and_goes_on_by_itself(log_in: Any) -> None:
    client = log_in("Operator")
    here = reverse("admin:service_import")
    assert client.get(here, {"progress": "1"}).json() == {}
    look(client, LARGE)
    assert client.get(here, {"progress": "1"}).json() == {"step": "checked", "done": 0, "total": 0}
    matching = {"chosen": "matching", "method": "GET", "text": "/even/"}  # more than a page shows
    answer = client.post(here, matching, headers={"accept": "application/json"})
    assert answer.json() == {"next": f"{reverse('admin:tools_catalog_mcptooldefinition_changelist')}?service=tickets"}
    assert "300 new tools" in client.get(answer.json()["next"]).content.decode()
    assert client.get(here, {"progress": "1"}).json() == {}


def test_progress_is_for_who_may_import(log_in: Any) -> None:
    assert log_in("Viewer").get(reverse("admin:service_import"), {"progress": "1"}).status_code == 403
