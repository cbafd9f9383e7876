"""What the palette finds, for whom, and at what price."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation

from mcphub.console import palette
from mcphub.groups import ROLES
from sessions_app.models import ApiKey
from tests.factories import (
    McpConnectionFactory,
    McpSessionFactory,
    McpToolDefinitionFactory,
    McpToolInvocationFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db
FIND = "palette"


def found(client: Any, words: str) -> dict[str, list[str]]:
    answer = client.get(reverse(FIND), {"q": words}).json()
    return {group["title"]: [item["title"] for item in group["items"]] for group in answer["groups"]}


def test_without_words_it_offers_pages_and_deeds(log_in):
    offered = found(log_in("superuser"), "")
    assert {"Overview", "API keys", "Retention"} <= set(offered["Go to"])
    assert {"Invite someone", "Paste and connect"} <= set(offered["Actions"])
    assert list(offered) == ["Go to", "Actions"]


def test_each_kind_of_row_is_found_by_its_words(log_in):
    McpToolDefinitionFactory(name="find_book", title="Find a book")
    McpConnectionFactory(slug="library", title="The library")
    key = ApiKey.issue("laptop of ada", scopes=["tools:call"])[0]
    ada = UserFactory(username="ada", first_name="Ada", last_name="Lovelace")
    session = McpSessionFactory(client_name="librarian", caller_label="ada")
    call = McpToolInvocationFactory(session=session, tool_name="find_book")
    client = log_in("superuser")
    assert found(client, "book find")["Tools"] == ["find_book"]
    assert found(client, "librar")["Connections"] == ["library"]
    assert found(client, "LAPTOP")["API keys"] == ["laptop of ada"]
    assert found(client, f"key:{key.pk}")["API keys"] == ["laptop of ada"]
    assert found(client, "lovelace")["People"] == ["ada"]
    assert found(client, f"user:{ada.pk}")["People"] == ["ada"]
    assert found(client, "librarian ada")["Sessions"] == [session.session_id]
    assert found(client, session.session_id)["Sessions"] == [session.session_id]
    assert found(client, call.invocation_id)["Calls"] == ["find_book"]
    assert found(client, f"#{call.pk}")["Calls"] == ["find_book"]


def test_what_begins_with_the_word_stands_first_and_a_kind_has_few(log_in):
    for number in range(9):
        McpToolDefinitionFactory(name=f"a_find_{number}")
    McpToolDefinitionFactory(name="find_it")
    tools = found(log_in("superuser"), "find")["Tools"]
    assert (tools[0], len(tools)) == ("find_it", palette.MOST_OF_A_KIND)


EVERYDAY = [
    ("alert", "My notifications"),
    ("slack", "My notifications"),
    ("webhook", "My notifications"),
    ("email", "My notifications"),
    ("budget", "Quotas"),
    ("spend", "Prices"),
    ("cost", "Quotas"),
    ("limit", "Quotas"),
    ("audit log", "Configuration history"),
    ("activity", "Configuration history"),
    ("sso", "Login providers"),
    ("saml", "Login providers"),
    ("oidc", "Login providers"),
    ("mfa", "Second factors"),
    ("2fa", "Second factors"),
    ("passkey", "Second factors"),
    ("docs", "REST"),
    ("help", "Keyboard"),
    ("swagger", "REST"),
    ("openapi", "Import an API"),
    ("theme", "My access"),
    ("language", "My access"),
    ("logout", "My access"),
    ("password", "Change my password"),
    ("egress", "Services"),
    ("timeout", "Tools"),
    ("role", "Groups"),
    ("permission", "Groups"),
    ("team", "Workspaces"),
    ("tenant", "Workspaces"),
    ("user", "People"),
    ("invite", "Invite someone"),
    ("token", "API keys"),
    ("credentials", "Secrets"),
    ("csv", "Calls"),
    ("export", "Catalogue as a file"),
    ("logs", "Calls"),
    ("trace", "Calls"),
    ("backup", "Catalogue as a file"),
    ("siem", "Audit export"),
    ("pii", "Guardrails"),
    ("mask", "Redaction"),
    ("policy", "Call rules"),
    ("throttle", "Rate limits"),
    ("workers", "Server processes"),
    ("version", "Server processes"),
    ("stdio", "Launch profiles"),
    ("upstream", "Connections"),
    ("oauth", "Authorized apps"),
    ("dashboard", "Overview"),
]
FURTHER = [
    ("alert", "Alerts"),
    ("threshold", "Alerts"),
    ("allow list", "Allowed hosts"),
    ("approve", "Calls to approve"),
    ("block", "Call rules"),
    ("docs", "Documentation"),
    ("health", "Overview"),
    ("import", "Import an API"),
    ("latency", "Overview"),
    ("manual", "Documentation"),
    ("metrics", "Traces and metrics"),
    ("offboard", "People"),
    ("otel", "Traces and metrics"),
    ("price", "Prices"),
    ("prometheus", "Traces and metrics"),
    ("prompt", "Prompts"),
    ("rate limit", "Rate limits"),
    ("resource", "Resources"),
    ("retention", "Retention"),
    ("rotate", "API keys"),
    ("schema", "Tools"),
    ("secret", "Secrets"),
    ("skill", "Skills"),
    ("upgrade", "Upgrading"),
]
RUSSIAN = [
    ("алерт", "Alerts"),
    ("аккаунт", "People"),
    ("аудит", "Blocks"),
    ("белый список", "Allowed hosts"),
    ("блокировать", "Call rules"),
    ("бюджет", "Quotas"),
    ("вебхук", "My notifications"),
    ("версия", "Server processes"),
    ("выйти", "My access"),
    ("группа", "Groups"),
    ("двухфакторная", "Second factors"),
    ("документация", "Documentation"),
    ("журнал аудита", "Configuration history"),
    ("задержка", "Overview"),
    ("импорт", "Import an API"),
    ("квота", "Quotas"),
    ("команда", "Workspaces"),
    ("лимит", "Quotas"),
    ("логи", "Calls"),
    ("метрики", "Traces and metrics"),
    ("навык", "Skills"),
    ("обновление", "Upgrading"),
    ("ограничение скорости", "Rate limits"),
    ("одобрить", "Calls to approve"),
    ("оповещения", "My notifications"),
    ("ошибка", "Errors"),
    ("пароль", "Change my password"),
    ("почта", "My notifications"),
    ("права", "Groups"),
    ("пригласить", "Invite someone"),
    ("прометеус", "Traces and metrics"),
    ("промпт", "Prompts"),
    ("расходы", "Quotas"),
    ("резервная копия", "Catalogue as a file"),
    ("ресурс", "Resources"),
    ("роль", "Groups"),
    ("ротация", "API keys"),
    ("секрет", "Secrets"),
    ("слак", "My notifications"),
    ("стоимость", "Prices"),
    ("таймаут", "Tools"),
    ("тема", "My access"),
    ("токен", "API keys"),
    ("уволить", "People"),
    ("хранение", "Retention"),
    ("цена", "Prices"),
    ("экспорт", "Audit export"),
    ("язык", "My access"),
]


@pytest.mark.parametrize(("words", "leads_to"), [*EVERYDAY, *FURTHER, *RUSSIAN])
@pytest.mark.parametrize("language", ["en", "ru"])
def test_everyday_words_lead_to_their_page_in_either_language(log_in, words, leads_to, language):
    answer = log_in("superuser").get(reverse(FIND), {"q": words}, headers={"accept-language": language}).json()
    offered = [item["title"] for group in answer["groups"] for item in group["items"]]
    with translation.override(language):
        assert translation.gettext(leads_to) in offered


@pytest.mark.parametrize("role", [*ROLES, "nobody"])
def test_it_finds_nothing_that_the_person_could_not_open(role, log_in):
    McpToolDefinitionFactory(name="xyz_tool")
    McpConnectionFactory(slug="xyz")
    ApiKey.issue("xyz", scopes=["tools:call"])
    UserFactory(username="xyz")
    session = McpSessionFactory(client_name="xyz")
    McpToolInvocationFactory(session=session, tool_name="xyz_tool")
    client = log_in("superuser" if role == "nobody" else role)
    if role == "nobody":
        client.user.is_superuser = False
        client.user.save()
    for words in ("", "xyz"):
        for group in client.get(reverse(FIND), {"q": words}).json()["groups"]:
            for item in group["items"]:
                if item["link"].startswith("/"):
                    assert client.get(item["link"], follow=True).status_code == 200, item
    if role == "nobody":
        assert set(found(client, "xyz")) == set()


def test_a_stranger_and_a_person_without_the_console_get_none_of_it(client):
    assert client.get(reverse(FIND)).status_code == 302
    client.force_login(UserFactory())
    assert client.get(reverse(FIND)).status_code == 302


def test_its_statements_do_not_grow_with_the_words(log_in):
    client = log_in("superuser")
    counts = []
    for words in ("a", "a b c d e f g h i j", "x" * 500, "\x00'%_\\ \u202e"):
        with CaptureQueriesContext(connection) as asked:
            assert client.get(reverse(FIND), {"q": words}).status_code == 200
        counts.append(len(asked))
    assert max(counts) <= 14
