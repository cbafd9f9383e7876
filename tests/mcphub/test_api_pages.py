"""REST in a browser: `/api/` says what there is, a person of the console gets pages, programs get JSON as ever."""

from __future__ import annotations

import html
import re
import shlex
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.test import Client

from mcphub import content_security
from mcphub.rest.root import about, endpoints
from sessions_app.models import AuditEvent
from tests.factories import (
    McpConnectionFactory,
    McpSessionFactory,
    McpToolDefinitionFactory,
    McpToolInvocationFactory,
    UserFactory,
)
from tests.rest import by_key, by_person, error_of
from tests.rigs.addresses import one_of_each, patterns

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture
def echo_rows() -> None:
    """One row of what the console shows, where it can be made."""
    one_of_each()


def of(role: str, **options: Any) -> Client:
    """A client of somebody in the console, who is in this shipped role."""
    person = UserFactory(is_staff=True)
    person.groups.add(Group.objects.get(name=role))
    client = Client(**options)
    client.force_login(person)
    return client


def page(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address, headers=BROWSER)
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "text/html; charset=utf-8"
    assert response["Cache-Control"] == "private, no-store"
    assert "Accept" in response["Vary"]
    assert "Cookie" in response["Vary"]
    return response.content.decode()


# The root ----------------------------------------------------------------------------------------------


def test_the_root_names_everything_that_has_an_address() -> None:
    found = {re.sub(r"[\^$]|/\?$", "", each.removesuffix("$")) for each in patterns() if each.startswith("api/")}
    addresses = {each.removeprefix("api/") for each in found if "(" not in each}
    below = {each for each in addresses if each.rpartition("/")[0] in about()}
    assert addresses - below - {"", "schema", "docs"} | set(endpoints()) == set(about())


def names(client: Client) -> set[str]:
    response = client.get("/api/")
    assert response["Content-Type"] == "application/json"
    assert response["Cache-Control"] == "private, no-store"
    answer = response.json()
    assert answer["document"] == "http://testserver/api/schema"
    assert answer["docs"] == "http://testserver/api/docs"
    for each in answer["resources"]:
        assert each["address"] == f"http://testserver/api/{each['name']}/"
        assert each["about"].endswith(".")
    return {each["name"] for each in answer["resources"]}


def test_the_root_names_what_the_key_may_read_and_nothing_else() -> None:
    lister = {"tool-definitions", "toolsets", "resources", "prompts", "skills"}
    assert names(by_key("tools:list")) == lister | {"tools", "health"}
    auditor = names(by_key("audit:read"))
    assert {"invocations", "audit/events", "audit/export", "keys"} <= auditor
    assert not auditor & (lister | {"connections", "launch-profiles", "query"})
    assert "launch-profiles" not in names(by_key("catalog:write"))
    assert {"query", "session"} <= names(by_key("chat"))


def test_what_the_root_names_is_given_and_what_it_leaves_out_is_refused() -> None:
    for client in (by_key("audit:read"), by_key("tools:list", "catalog:write"), of("Viewer"), of("Auditor")):
        named = names(client)
        for name in set(about()) - set(endpoints()) - {"audit/export"}:
            assert client.get(f"/api/{name}/").status_code == (200 if name in named else 403), name


def test_the_root_wants_a_key_or_a_login() -> None:
    error_of(Client().get("/api/"), 401, "unauthorized")


def test_programs_read_the_root_in_english_and_people_in_their_language() -> None:
    client = of("Viewer")
    told = client.get("/api/", headers={"accept-language": "ru"}).json()["resources"]
    assert "The tools of the catalogue, with their versions." in {each["about"] for each in told}
    shown = client.get("/api/", headers={**BROWSER, "accept-language": "ru"}).content.decode()
    assert "Инструменты каталога" in shown


# Who gets a page ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "accept", ["*/*", "application/json", "application/json, text/plain, */*", "text/html, application/json"]
)
def test_who_takes_json_gets_what_a_program_gets_to_the_byte(accept: str) -> None:
    McpSessionFactory()
    by_login, program = of("Viewer"), by_key("audit:read")
    given = by_login.get("/api/sessions/", headers={"accept": accept})
    assert given["Content-Type"] == "application/json"
    assert given.content == program.get("/api/sessions/").content
    assert "unsafe" not in given["Content-Security-Policy"]


def test_a_key_and_who_is_not_in_the_console_get_json() -> None:
    for client in (by_key("audit:read"), by_person("sessions_app.view_mcpsession")):
        assert client.get("/api/sessions/", headers=BROWSER)["Content-Type"] == "application/json"
        error_of(client.get("/api/sessions/", headers={"accept": "text/html"}), 406, "not_acceptable")


def test_what_streams_and_the_document_stay_what_they_are() -> None:
    client = of("Auditor")
    assert client.get("/api/schema", headers=BROWSER)["Content-Type"].startswith("application/json")
    assert client.get("/api/audit/export/?format=csv", headers=BROWSER)["Content-Type"].startswith("text/csv")


def test_a_page_runs_nothing_that_stands_in_it_and_keeps_the_policy_of_the_console() -> None:
    McpToolInvocationFactory(result={"content": [{"type": "text", "text": "<script>alert(1)</script>"}]})
    client = of("Auditor")
    for address in ("/api/", "/api/invocations/", "/api/nothing/"):
        response = client.get(address, headers=BROWSER)
        assert response["Content-Security-Policy"] == content_security.ADMIN
        text = response.content.decode()
        assert "<script>alert" not in text
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style", text)
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text) if 'type="application/json"' not in tag)


# What a page shows -------------------------------------------------------------------------------------


def test_everything_that_the_root_names_has_a_page(echo_rows: None) -> None:
    client = by_person(is_staff=True, is_superuser=True)
    lists = set(about()) - set(endpoints()) - {"audit/export"}
    below = {"invocations/facets", "invocations/statistics", "quotas/usage"}
    for name in sorted(lists | below):
        text = page(client, f"/api/{name}/")
        assert f"GET /api/{name}/" in text
        row = re.search(rf'<td class="hub-mono"><a class="hub-link" href="(/api/{name}/[^"]+/)"', text)
        if row is not None:
            page(client, row[1])


def test_the_command_of_a_page_runs_nothing_that_an_address_holds() -> None:
    text = page(of("Viewer"), "/api/sessions/?client=$(id)%27;id")
    command = text[text.index("curl -H") :].partition("</pre>")[0]
    asked = "http://testserver/api/sessions/?client=$(id)%27;id"
    assert shlex.split(html.unescape(command))[-1] == asked


def test_a_list_leads_to_its_rows_and_to_the_rows_that_they_name() -> None:
    call = McpToolInvocationFactory(tool_name="weather")
    McpToolDefinitionFactory(name="weather")
    client = of("Auditor")
    text = page(client, "/api/invocations/?fields=invocation_id,session_id,tool_name")
    assert f'href="/api/invocations/{call.invocation_id}/"' in text
    assert f'href="/api/sessions/{call.session_id}/"' in text
    assert 'href="/api/tool-definitions/weather/"' in text
    assert 'href="/api/invocations/facets/"' in text
    assert "/api/invocations/stream/" not in text
    assert 'href="/api/schema' in text
    row = page(client, f"/api/invocations/{call.invocation_id}/")
    assert 'href="/api/tool-definitions/weather/"' in row
    assert 'href="/api/invocations/"' in row
    assert 'href="/api/tool-definitions/weather/versions/"' in page(client, "/api/tool-definitions/weather/")


def test_a_page_leads_on_and_back_and_stands_on_the_map_of_the_console() -> None:
    for _number in range(3):
        McpConnectionFactory()
    client = of("Viewer")
    text = page(client, "/api/connections/?limit=2")
    [onward] = re.findall(r'rel="next" href="([^"]+)"', text)
    assert onward.startswith("/api/connections/?")
    last = client.get(onward.replace("&amp;", "&"), headers=BROWSER)
    assert 'rel="prev"' in last.content.decode()
    assert 'rel="next"' not in last.content.decode()
    assert last.context["hub_area"].tab.title == "REST"


def test_filters_are_a_form_whose_empty_fields_narrow_nothing() -> None:
    McpConnectionFactory(slug="kept", enabled=True)
    McpConnectionFactory(slug="gone", enabled=False)
    client = of("Viewer")
    assert '<select class="hub-input" id="hub-enabled-1" name="enabled">' in page(client, "/api/connections/")
    text = page(client, "/api/connections/?enabled=true&transport=&policy=&not_policy=&limit=")
    assert "kept" in text
    assert "gone" not in text
    assert "<option selected>true</option>" in text
    error_of(client.get("/api/connections/?enabled=true&transport="), 400, "invalid_params")


def test_a_person_sees_on_a_page_what_json_gives_them_and_reading_bodies_is_on_record() -> None:
    McpToolInvocationFactory(arguments={"city": "Oslo"})
    assert "Oslo" not in page(of("Viewer"), "/api/invocations/")
    assert not AuditEvent.objects.filter(kind="bodies.read").exists()
    assert "Oslo" in page(of("Auditor"), "/api/invocations/")
    assert AuditEvent.objects.filter(kind="bodies.read").count() == 1


# Errors ------------------------------------------------------------------------------------------------


def test_errors_are_pages_with_what_to_do() -> None:
    client = of("Viewer")
    denied = page(client, "/api/audit/events/", 403)
    assert "Forbidden" in denied
    assert "Ask an administrator for it." in denied
    assert "sessions_app.view_auditevent" in denied
    missing = page(client, "/api/connections/nothing/", 404)
    assert "There is no such connection." in missing
    assert 'href="/api/connections/"' in missing
    wrong = page(client, "/api/connections/?enabled=perhaps", 400)
    assert "enabled" in wrong
    unknown = page(client, "/api/connections/?colour=red", 400)
    assert "Unknown query parameter: colour." in unknown
    assert "There is nothing here." in page(client, "/api/nothing/", 404)


def test_who_is_not_logged_in_is_led_to_the_login_and_back() -> None:
    text = page(Client(), "/api/sessions/?state=closed", 401)
    assert "/admin/login/?next=%2Fapi%2Fsessions%2F%3Fstate%3Dclosed" in text
    assert "sidebar" not in text


# Writes ------------------------------------------------------------------------------------------------


def test_a_cookie_alone_writes_nothing() -> None:
    row = McpConnectionFactory(slug="tracker", enabled=True)
    client = of("Operator", enforce_csrf_checks=True)
    sent: dict[str, Any] = {"data": {"enabled": False}, "content_type": "application/json"}
    error_of(client.patch("/api/connections/tracker/", **sent), 403, "forbidden")
    page(client, "/api/connections/")  # which has the form to log out, so sets the cookie
    error_of(client.patch("/api/connections/tracker/", **sent), 403, "forbidden")
    foreign = {"origin": "https://evil.example", "x-csrftoken": "x" * 32}
    error_of(client.patch("/api/connections/tracker/", headers=foreign, **sent), 403, "forbidden")
    form = client.post("/api/connections/", {"slug": "other"}, headers=BROWSER)  # as a page of others could send it
    error_of(form, 415, "unsupported_media_type")
    row.refresh_from_db()
    assert row.enabled
    token = client.cookies[settings.CSRF_COOKIE_NAME].value
    given = client.patch("/api/connections/tracker/", headers={"x-csrftoken": token}, **sent)
    assert given.status_code == 200
    row.refresh_from_db()
    assert not row.enabled


def test_no_page_has_a_form_that_writes_but_the_one_to_log_out() -> None:
    McpConnectionFactory(slug="tracker")
    client = of("Operator")
    for address in ("/api/", "/api/connections/", "/api/connections/tracker/", "/api/keys/"):
        forms = re.findall(r"<form[^>]*>", page(client, address))
        writes = [form for form in forms if "post" in form.lower()]
        assert all("logout" in form or "log-out" in form for form in writes), writes
