"""The page that connects a client: who sees what of it, the key that it makes, and what it says of refusals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from mcphub import clients
from mcphub.console import arrivals
from sessions_app import refused_requests
from sessions_app.models import ApiKey
from sessions_app.refused_requests import RefusedRequest, refusal_of, write
from tests.factories import ApiKeyFactory, McpSessionFactory

PAGE = "/admin/connect/"
HEADERS = [(b"user-agent", b"curl/8")]


def test_the_short_address_leads_to_the_page_and_strangers_to_the_login(log_in):
    assert log_in("Viewer").get("/connect").headers["Location"] == PAGE
    assert log_in("Viewer").get("/connect/?client=curl").headers["Location"] == f"{PAGE}?client=curl"
    answer = Client().get(PAGE)
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/admin/login/?next={PAGE}")


def test_the_page_shows_the_texts_that_the_command_prints(log_in, settings):
    settings.MCPHUB_PUBLIC_URL = "https://hub.example/"
    answer = log_in("Viewer").get(PAGE, {"client": "curl"})
    shown = {each.key: each.text for each in answer.context["snippets"]}
    url = "https://hub.example/mcp"
    made = [*clients.snippets(url, "YOUR-KEY"), *clients.programs(url, "YOUR-KEY")]
    assert {each.key: each.text for each in made}.items() <= shown.items()
    assert answer.context["chosen"] == "curl"
    assert log_in("Viewer").get(PAGE, {"client": "emacs"}).context["chosen"] == "vscode"


def test_the_page_leads_with_the_address_alone(log_in, settings):
    settings.MCPHUB_PUBLIC_URL = "https://hub.example"
    page = log_in("Viewer").get(PAGE, {"client": "cursor"}).content.decode()
    assert page.index("hub-alone-cursor") < page.index("hub-client-cursor")
    assert "registers dynamically" in page
    for key, link in clients.install_links("https://hub.example/mcp").items():
        assert f'href="{escape(link)}">Add to {clients.INSTALLS[key]}<' in page
    assert all(f"<strong>{title}</strong>" in page for title in clients.ON_THE_WEB)
    assert "This client can't sign in" in page
    settings.MCPHUB_CLIENT_REGISTRATION = False
    assert "MCPHUB_CLIENT_REGISTRATION" in log_in("Viewer").get(PAGE).content.decode()
    settings.MCPHUB_SIGN_IN = False
    page = log_in("Viewer").get(PAGE, {"client": "cursor"}).content.decode()
    assert "hub-alone" not in page
    assert "MCPHUB_SIGN_IN" in page


def test_programs_call_a_tool_that_is_there(log_in, echo):
    echo.input_schema = {"type": "object"}
    echo.save()
    shown = {each.key: each.text for each in log_in("Viewer").get(PAGE).context["snippets"]}
    assert 'call_tool("echo", {})' in shown["python"]


def test_a_key_is_made_and_stands_in_every_text_this_once(log_in):
    client = log_in("Operator")
    answer = client.post(PAGE, {"name": "laptop", "client": "python", "chat": "on"})
    key = ApiKey.objects.get(name="laptop")
    text = answer.context["text"]
    assert key.secret_hash == ApiKey.hash(text)
    assert key.scopes == ["tools:list", "tools:call", "chat"]
    assert key.expires_at < timezone.now() + timedelta(days=366)
    assert key.created_by == client.user
    assert all(text in each.text for each in answer.context["snippets"])
    assert (answer.context["watched"], answer.context["chosen"]) == (key.pk, "python")
    assert "no-store" in answer["Cache-Control"]
    assert answer["Referrer-Policy"] == "no-referrer"
    assert text not in client.get(PAGE).content.decode()


def test_a_key_needs_a_name_and_the_right_to_make_one(log_in):
    answer = log_in("Operator").post(PAGE, {"name": " "})
    assert "hub-key-error" in answer.content.decode()
    assert log_in("Viewer").post(PAGE, {"name": "mine"}).status_code == 403
    assert not ApiKey.objects.exists()
    assert "hub-key-name" not in log_in("Viewer").get(PAGE).content.decode()


def test_keys_to_wait_for_are_named_to_those_who_may_see_keys(log_in):
    ApiKeyFactory(name="of the house")
    assert "of the house" in log_in("Auditor").get(PAGE).content.decode()
    assert "of the house" not in log_in("Viewer").get(PAGE).content.decode()


def test_arrivals_are_for_those_who_may_see_calls(log_in):
    client = log_in("Viewer")
    address = reverse("connect_live", args=[0])
    assert client.get(address, {"key": "none"}).status_code == 400
    client.user.groups.clear()
    assert client.get(address).status_code == 403
    assert "hub-connect" not in client.get(PAGE).content.decode()


def test_equal_refusals_are_one_row_and_few_are_kept(db, monkeypatch):
    monkeypatch.setattr(refused_requests, "_MOST_ROWS", 3)
    seen = refusal_of(401, "unauthenticated", "No key.", "/mcp", "192.0.2.1", HEADERS)
    write({seen: 2})
    write({seen: 3})
    assert RefusedRequest.objects.values_list("count", "agent").get() == (5, "curl/8")
    for number in range(6):
        write({refusal_of(404, "not_found", "", f"/{number}", "", []): 1})
    assert RefusedRequest.objects.count() == 3
    RefusedRequest.objects.update(last_at=timezone.now() - timedelta(hours=2))
    assert refused_requests.purge() == 3


def test_nothing_of_a_key_is_kept_but_what_lists_show(db):
    key, text = ApiKey.issue("laptop")
    for token, kept in ((text, key.prefix), ("YOUR-KEY", "YOUR-KEY"), ("sk-secret", "?"), ("", "")):
        seen = refusal_of(401, "unauthenticated", "", "/mcp", "", [(b"authorization", f"Bearer {token}".encode())])
        assert seen.key_prefix == kept


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({}, "t match: it was rotated"),
        ({"revoked_at": datetime(2020, 1, 1, tzinfo=UTC)}, "revoked"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expired"),
    ],
)
def test_advice_about_a_key_says_what_became_of_it(db, made, said):
    key, _text = ApiKey.issue("laptop")
    ApiKey.objects.filter(pk=key.pk).update(**made)
    assert said in arrivals.advice(RefusedRequest(status=401, key_prefix=key.prefix))
    assert "laptop" in arrivals.advice(RefusedRequest(status=401, key_prefix=key.prefix))


def test_every_refusal_has_an_advice_of_its_own(db):
    kinds = [
        {"status": 401},
        {"status": 401, "key_prefix": "YOUR-KEY"},
        {"status": 401, "key_prefix": "?"},
        {"status": 403, "code": "forbidden", "origin": "https://a.example"},
        {"status": 403, "code": "forbidden"},
        {"status": 421},
        {"status": 404, "code": "session_not_found"},
        {"status": 404},
        {"status": 405},
        {"status": 415},
    ]
    said = {arrivals.advice(RefusedRequest(**kind)) for kind in kinds}
    assert len(said) == len(kinds)
    assert any("--cors https://a.example" in words for words in said)


def test_sessions_and_refusals_are_told_once_and_again_when_there_are_more(db, monkeypatch):
    monkeypatch.setattr(arrivals, "_LOOK_SECONDS", 0)
    before = timezone.now() - timedelta(seconds=1)
    McpSessionFactory(principal="key:7", client_name="mine")
    McpSessionFactory(principal="key:8", client_name="theirs")
    seen = refusal_of(401, "unauthenticated", "", "/mcp", "", HEADERS)
    write({seen: 1})
    followed = arrivals.Arrivals("key:7", sessions=True, since=before.isoformat())
    first = followed.look().decode()
    assert first.count("event: session") == 1
    assert "mine" in first
    assert first.count("event: refusal") == 1
    assert followed.look() == b""
    write({seen: 1})
    assert '"count":2' in followed.look().decode()
    assert b"session" not in arrivals.Arrivals("", sessions=False, since=before.isoformat()).look()
    assert arrivals.Arrivals("", sessions=True, since="nonsense").look() == b""
