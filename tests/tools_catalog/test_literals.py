"""Credentials that stand in a header as they are: who may not write secrets is refused, for others they become some."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.models import AuditEvent
from tests.rest import by_key, by_person
from tools_catalog.bundles import bundle
from tools_catalog.literals import PlainCredential, literal_in, parameter_with_credential
from tools_catalog.models import (
    HttpService,
    LaunchProfile,
    McpConnection,
    McpToolDefinition,
    McpToolVersion,
    Secret,
    moving,
)

pytestmark = pytest.mark.django_db

WORDS = "canary-of-the-house-0123456789"
FORMED = "ghp_0123456789abcdefghij0123456789abcdef"
BEARER = {"Authorization": f"Bearer {WORDS}"}
TOOL = {"name": "weather", "description": "x", "input_schema": {"type": "object"}, "backend": "http"}
HERE, THERE = "https://api.example.org/now", "https://other.example.net/now"
ROWS = {
    "tool-definitions": ({**TOOL, "configuration": {"url": HERE, "headers": BEARER}}, "weather"),
    "services": ({"slug": "api", "url": HERE, "headers": BEARER}, "api"),
    "connections": ({"slug": "up", "transport": "streamable-http", "url": HERE, "headers": BEARER}, "up"),
}


def post(client: Client, page: str, body: dict[str, Any]) -> Any:
    return client.post(f"/api/{page}/", body, content_type="application/json")


def superuser() -> Client:
    return by_person(is_superuser=True)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("Authorization", "Bearer abc", PlainCredential("Bearer ", "abc")),
        ("authorization", "Basic dTpw", PlainCredential("Basic ", "dTpw")),
        ("X-Api-Key", "abc", PlainCredential("", "abc")),
        ("PRIVATE-TOKEN", "abc", PlainCredential("", "abc")),
        ("Ocp-Apim-Subscription-Key", "abc", PlainCredential("", "abc")),
        ("Cookie", "session=abc; theme=dark", PlainCredential("", "session=abc; theme=dark")),
        ("DB_PASSWORD", "abc", PlainCredential("", "abc")),
        ("X-Atlassian-Token", "no-check", None),
        ("X-Atlassian-Token", "abc", PlainCredential("", "abc")),
        (
            "X-Thing",
            "a ghp_0123456789abcdefghij0123456789abcdef b",
            PlainCredential("a ", "ghp_0123456789abcdefghij0123456789abcdef", " b"),
        ),
        ("Authorization", "Bearer {secret:token}", None),
        ("Authorization", "Basic {basic:login}", None),
        ("Authorization", "Bearer {token}", None),
        ("Authorization", "", None),
        ("Accept", "application/json", None),
        ("Idempotency-Key", "abc", None),
        ("X-Monkey", "banana", None),
    ],
)
def test_a_credential_is_told_by_its_name_or_its_form(name: str, text: str, found: PlainCredential | None) -> None:
    assert literal_in(name, text) == found


@given(st.text(max_size=60), st.text(max_size=200))
def test_what_is_found_is_a_part_of_the_text(name: str, text: str) -> None:
    found = literal_in(name, text)
    assert found is None or (found.before + found.value + found.behind == text and found.value)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.example.org/x?access_token=abc&n=1", "access_token"),
        ("https://api.example.org/x?n=1", ""),
        ("https://api.example.org/x?q={q}", ""),
        ("https://[", ""),
    ],
)
def test_an_address_is_searched_too(url: str, name: str) -> None:
    assert parameter_with_credential(url) == name


@pytest.mark.parametrize("page", ROWS)
def test_a_key_is_refused_and_told_what_to_do(page: str) -> None:
    answer = post(by_key("catalog:write"), page, ROWS[page][0])
    assert answer.status_code == 409, answer.content
    text = answer.content.decode()
    assert "{secret:NAME}" in text
    assert WORDS not in text
    assert not Secret.objects.exists()


@pytest.mark.parametrize("page", ROWS)
def test_of_who_may_write_secrets_it_becomes_one_and_is_shown_to_nobody(page: str) -> None:
    body, name = ROWS[page]
    client = superuser()
    made = post(client, page, body)
    assert made.status_code == 201, made.content
    shown = client.get(f"/api/{page}/{name}/").content.decode()
    secret = Secret.objects.get()
    assert f"Bearer {{secret:{secret.name}}}" in shown
    assert WORDS not in made.content.decode() + shown
    assert (secret.value(), secret.origins) == (WORDS, "https://api.example.org")
    assert secret.places == "headers.Authorization"
    assert secret.users.partition(":")[2] == name
    stored = [*AuditEvent.objects.values_list("after", flat=True), *McpToolVersion.objects.values("definition")]
    assert WORDS not in str(stored)


def test_a_query_parameter_becomes_a_secret_and_an_address_holds_none() -> None:
    client = superuser()
    refused = post(client, "tool-definitions", {**TOOL, "configuration": {"url": f"{HERE}?api_key={WORDS}"}})
    assert (refused.status_code, "under query" in refused.content.decode()) == (409, True)
    made = post(client, "tool-definitions", {**TOOL, "configuration": {"url": HERE, "query": {"api_key": WORDS}}})
    assert made.status_code == 201, made.content
    secret = Secret.objects.get()
    assert (secret.value(), secret.places) == (WORDS, "query.api_key")
    tool = McpToolDefinition.objects.get()
    assert tool.configuration["query"] == {"api_key": f"{{secret:{secret.name}}}"}
    connection = {"slug": "up", "transport": "sse", "url": f"{HERE}?token={WORDS}"}
    refused = post(client, "connections", connection)
    assert (refused.status_code, "under headers" in refused.content.decode()) == (409, True)


def test_a_variable_of_a_profile_becomes_a_secret() -> None:
    profile = LaunchProfile(name="git", command="git", environment={"GIT_TOKEN": WORDS, "LEVEL": "info"})
    profile.full_clean()
    profile.save()
    secret = Secret.objects.get()
    assert LaunchProfile.objects.get().environment == {"GIT_TOKEN": f"{{secret:{secret.name}}}", "LEVEL": "info"}
    assert (secret.origins, secret.places) == ("git.stdio", "environment.GIT_TOKEN")


def test_a_check_without_a_save_leaves_no_secret() -> None:
    HttpService(slug="api", url=HERE, headers=BEARER).full_clean()
    assert not Secret.objects.exists()


def test_a_bundle_that_is_loaded_again_makes_no_second_secret() -> None:
    document = {
        "format": "mcphub-bundle/1",
        "services": [{"slug": "api", "url": HERE, "headers": BEARER}],
        "connections": [{"slug": "up", "transport": "sse", "url": HERE, "headers": {"X-Api-Key": WORDS}}],
    }
    for _ in range(2):
        report = bundle.load(document, reason="x")
        assert report.refused == []
    assert Secret.objects.count() == 2
    assert WORDS not in str(bundle.dump())


def test_a_secret_of_that_name_is_never_overwritten() -> None:
    kept = Secret(name="api-authorization", origins="elsewhere.example.org")
    kept.set_value("another")
    kept.save()
    service = HttpService(slug="api", url=HERE, headers=BEARER)
    service.full_clean()
    service.save()
    assert service.headers == {"Authorization": "Bearer {secret:api-authorization-2}"}
    assert Secret.objects.get(name="api-authorization").value() == "another"


def test_a_credential_of_before_does_not_move_with_the_address() -> None:
    """Rows that were stored before the hub looked for credentials hold them as they are."""
    HttpService.objects.bulk_create([HttpService(slug="api", url=HERE, headers=BEARER)])
    McpToolDefinition.objects.bulk_create([McpToolDefinition(**TOOL, configuration={"url": HERE, "headers": BEARER})])
    service, tool = HttpService.objects.get(), McpToolDefinition.objects.get()
    assert moving.rows_with_literals() == ["service api", "tool weather"]
    service.url = THERE
    with pytest.raises(ValidationError, match="another address"):
        service.full_clean()
    tool.configuration = {"url": THERE, "headers": BEARER}
    with pytest.raises(ValidationError, match="another address"):
        tool.full_clean()
    tool.configuration = {"url": THERE}
    tool.full_clean()
    service.url = HERE
    service.full_clean()
    service.save()
    assert Secret.objects.get().origins == "https://api.example.org"
    assert moving.rows_with_literals() == ["tool weather"]


@pytest.mark.parametrize("page", ROWS)
def test_a_moved_address_asks_for_the_secret_anew(page: str) -> None:
    body, name = ROWS[page]
    assert post(superuser(), page, body).status_code == 201
    moved = {"configuration": {**body["configuration"], "url": THERE}} if "configuration" in body else {"url": THERE}
    if "configuration" in moved:
        moved["configuration"]["headers"] = McpToolDefinition.objects.get().configuration["headers"]
    key = by_key("catalog:write")
    refused = key.patch(f"/api/{page}/{name}/", moved, content_type="application/json")
    text = refused.content.decode()
    assert (refused.status_code, "https://other.example.net" in text, "remove it" in text) == (409, True, True)
    dropped = {**moved, "headers": {}} if "url" in moved else {"configuration": {"url": THERE}}
    assert key.patch(f"/api/{page}/{name}/", dropped, content_type="application/json").status_code == 200
    model: Any = {"services": HttpService, "connections": McpConnection}.get(page, McpToolDefinition)
    assert "secret" not in str(model.objects.values().get().get("headers", ""))
