"""*My access*: what a person without any right sees and does of their own, and never of somebody else's."""

from __future__ import annotations

import json
import re
import time
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser
from django.utils import timezone
from oauth2_provider.models import Application

from mcphub import clients
from mcphub.features.approvals.models import McpApproval
from mcphub.features.quotas.models import McpQuota, QuotaCount
from mcphub.features.quotas.quota import Charge
from mcphub.features.signin.models import Consent
from sessions_app.login import open_logins
from sessions_app.models import ApiKey, AuditEvent, McpSession
from tests.factories import GroupFactory, McpSessionFactory, McpToolInvocationFactory

pytestmark = pytest.mark.django_db


def browser_of(person: User) -> Browser:
    browser = Browser()
    browser.force_login(person)
    return browser


@dataclass
class World:
    """A person with one of everything."""

    person: User
    browser: Browser
    consent: Consent
    key: ApiKey
    session: McpSession
    call: Any


def world(name: str) -> World:
    person = User.objects.create_user(name)
    person.groups.add(GroupFactory(name=f"group of {name}"))
    client = Application.objects.create(name=f"client of {name}", redirect_uris="https://client.example/back")
    principal = f"user:{person.pk}"
    return World(
        person,
        browser_of(person),
        Consent.give(person, client, "/mcp", ["tools:list"]),
        ApiKey.issue(f"key of {name}", owner=person)[0],
        McpSessionFactory(principal=principal, client_name=f"program of {name}", caller_label=name),
        McpToolInvocationFactory(
            principal=principal, caller_label=f"{name} here", arguments={"word": f"word of {name}"}
        ),
    )


@pytest.fixture
def anna() -> World:
    return world("anna")


@pytest.fixture
def boris() -> World:
    return world("boris")


@pytest.mark.parametrize("address", ["/me/", "/me/calls/", "/me/calls/x/", "/me/calls/?tool=a"])
def test_a_stranger_is_led_to_the_login_and_back(address: str) -> None:
    answer = Browser().get(address)
    assert answer.status_code == 302
    assert answer["location"].split("?next=")[1].replace("%2F", "/").startswith("/me/")


def test_a_login_leads_back_here(anna: World) -> None:
    anna.person.set_password("a long password")
    anna.person.save()
    asked = {"username": "anna", "password": "a long password", "next": "/me/calls/"}
    browser = Browser(headers={"user-agent": "another browser"})
    assert browser.post("/login/", asked)["location"] == "/me/calls/"
    assert "another browser" in browser.get("/me/").content.decode()


def test_a_person_without_rights_sees_all_of_their_own(anna: World) -> None:
    page = anna.browser.get("/me/").content.decode()
    for words in ("client of anna", "key of anna", "program of anna", "anna here", "group of anna"):
        assert words in page
    assert anna.browser.get("/admin/").status_code == 302


def test_nobody_sees_anything_of_somebody_else(anna: World, boris: World) -> None:
    pages = [anna.browser.get(each).content.decode() for each in ("/me/", "/me/calls/", "/me/calls/?status=ok")]
    assert not [page for page in pages if "boris" in page]
    assert anna.browser.get(f"/me/calls/{boris.call.invocation_id}/").status_code == 404


DEEDS: dict[str, Callable[[World], str]] = {
    "clients/take-back": lambda of: str(of.consent.pk),
    "keys/revoke": lambda of: of.key.prefix,
    "open/end-session": lambda of: of.session.session_id,
    "open/end-login": lambda of: open_logins.of(of.person)[0].id,
}


def state(of: World) -> tuple[object, ...]:
    key, session = ApiKey.objects.get(pk=of.key.pk), McpSession.objects.get(pk=of.session.pk)
    consents = Consent.objects.filter(pk=of.consent.pk).exists()
    return consents, key.revoked_at is None, session.state, len(open_logins.of(of.person))


@pytest.mark.parametrize("deed", DEEDS)
def test_nobody_ends_anything_of_somebody_else(anna: World, boris: World, deed: str) -> None:
    before = state(boris)
    assert anna.browser.post(f"/me/{deed}/", {"id": DEEDS[deed](boris)}).status_code == 404
    assert state(boris) == before


@pytest.mark.parametrize("deed", DEEDS)
def test_each_deed_ends_what_it_names_and_is_on_record(anna: World, deed: str) -> None:
    if deed == "open/end-login":
        browser_of(anna.person)
    before = state(anna)
    named = [each.id for each in open_logins.of(anna.person, anna.browser.session.session_key) if not each.is_this]
    asked = named[0] if deed == "open/end-login" else DEEDS[deed](anna)
    answer = anna.browser.post(f"/me/{deed}/", {"id": asked})
    assert (answer.status_code, answer["location"]) == (302, f"/me/#{deed.partition('/')[0]}")
    assert state(anna) != before
    assert AuditEvent.objects.latest("pk").actor == f"user:{anna.person.pk}"
    assert anna.browser.get("/me/").status_code == 200, "this login goes on"


@pytest.mark.parametrize("deed", [*DEEDS, "keys/make"])
def test_nothing_is_done_by_a_link_or_without_the_form(anna: World, deed: str) -> None:
    before = state(anna)
    asked = DEEDS[deed](anna) if deed in DEEDS else ""
    assert anna.browser.get(f"/me/{deed}/", {"id": asked}).status_code == 405
    strict = Browser(enforce_csrf_checks=True)
    strict.force_login(anna.person)
    assert strict.post(f"/me/{deed}/", {"id": asked, "name": "x"}).status_code == 403
    assert state(anna)[:3] == before[:3]


@pytest.mark.parametrize("asked", ["", "0", "x", "99999999999999999999", "\0", "é"])
@pytest.mark.parametrize(
    "deed", ["clients/take-back", "keys/revoke", "open/end-session", "approvals/approve", "keys/lose", "x/y"]
)
def test_what_names_nothing_is_not_found(anna: World, deed: str, asked: str) -> None:
    assert anna.browser.post(f"/me/{deed}/", {"id": asked}).status_code == 404


# Quotas ----------------------------------------------------------------------------------------------------


def test_a_person_sees_how_much_of_a_quota_is_used_and_when_it_is_released(anna: World, boris: World) -> None:
    quota = McpQuota.objects.create(name="daily", soft_limit=8, hard_limit=10, words="Ask Ann for more.")
    for of, used in ((anna, 9), (boris, 3)):
        charge = Charge(quota.compiled(), f"user:{of.person.pk}", 0)
        today = charge.window(time.time())
        for window in (today, charge.window(today.ends)):  # at midnight the page tells of the next
            fields = {"unit": "calls", "begins": window.begins, "ends": window.ends}
            QuotaCount.objects.create(key=charge.key(window), quota=quota, subject=charge.subject, used=used, **fields)
    page = anna.browser.get("/me/").content.decode()
    part = page[page.index('<section id="quotas"') :].partition("</section>")[0]
    for words in ("daily", "Ask Ann for more.", "9 of 10", "Near the limit", "<time datetime="):
        assert words in part
    assert "3 of 10" not in part
    assert "Near the limit" not in boris.browser.get("/me/").content.decode()


def test_without_quotas_the_page_says_nothing_of_them(anna: World) -> None:
    assert 'id="quotas"' not in anna.browser.get("/me/").content.decode()


# The way to the first call ---------------------------------------------------------------------------------


def test_the_page_has_all_that_a_client_needs(anna: World, settings: Any) -> None:
    page = anna.browser.get("/me/").content.decode()
    address = settings.MCPHUB_PUBLIC_URL + "/mcp"
    assert f'<code id="endpoint">{address}</code>' in page
    for each in (*clients.address_only(address), *clients.snippets(address, "")):
        assert each.title in page
    links = [unescape(link) for link in re.findall(r'href="(vscode:[^"]+|\w+://[^"]+)"', page)]
    told = {link.partition(":")[0]: link for link in links}
    assert json.loads(unquote(told["vscode"].partition("?")[2])) == {"name": "mcp-hub", "type": "http", "url": address}
    for client in ("cursor", "lmstudio"):
        asked = parse_qs(urlsplit(told[client]).query)
        assert (asked["name"], json.loads(b64decode(asked["config"][0]))) == (["mcp-hub"], {"url": address})
    goose = parse_qs(urlsplit(told["goose"]).query)
    assert (goose["type"], goose["url"], goose["id"]) == (["streamable_http"], [address], ["mcp-hub"])


@pytest.mark.parametrize(("address", "is_told"), [("http://hub.example", True), ("https://hub.example", False)])
def test_clients_on_the_web_have_their_steps_on_the_page(
    anna: World, settings: Any, address: str, is_told: bool
) -> None:
    settings.MCPHUB_PUBLIC_URL = address
    page = unescape(anna.browser.get("/me/").content.decode())
    for title, steps in clients.ON_THE_WEB.items():
        assert f"<strong>{title}</strong>: {steps}." in page
    assert ("needs a public https address" in page) == is_told


@pytest.mark.parametrize(("own_keys", "words"), [(True, "Create one"), (False, "Ask the operator who invited you")])
def test_without_sign_in_a_key_is_the_way(anna: World, settings: Any, own_keys: bool, words: str) -> None:
    settings.MCPHUB_SIGN_IN, settings.MCPHUB_OWN_KEYS = False, own_keys
    page = anna.browser.get("/me/").content.decode()
    assert words in page
    assert "vscode:" not in page
    assert ('href="#keys"' in page) == own_keys


# Approvals -------------------------------------------------------------------------------------------------


def waits(of: World, **fields: Any) -> McpApproval:
    now = timezone.now()
    whole = {"id": f"appr_{McpApproval.objects.count()}", "tool_name": "pay", "arguments": {"sum": 3}, **fields}
    whole |= {"binding": str(fields), "principal": f"user:{of.person.pk}", "caller_label": str(of.person)}
    return McpApproval.objects.create(**whole, created_at=now, expires_at=now + timedelta(hours=1))


def test_a_person_sees_what_waits_and_decides_what_is_theirs(anna: World, boris: World) -> None:
    assert 'id="approvals"' not in anna.browser.get("/me/").content.decode()
    own, others, foreign = waits(anna, decider="caller"), waits(anna, decider="another"), waits(boris, decider="caller")
    page = anna.browser.get("/me/").content.decode()
    assert page.count(f'value="{own.pk}"') == 2
    assert page.count(f'value="{others.pk}"') == 1, "to deny it alone"
    assert foreign.pk not in page
    for row, code in ((own, 302), (others, 302), (foreign, 404)):
        assert anna.browser.post("/me/approvals/approve/", {"id": row.pk}).status_code == code
    assert [McpApproval.objects.get(pk=row.pk).status for row in (own, others, foreign)] == [
        "approved",
        "pending",
        "pending",
    ]
    assert "Another person must approve" in anna.browser.get("/me/").content.decode()
    assert anna.browser.post("/me/approvals/deny/", {"id": others.pk}).status_code == 302
    assert McpApproval.objects.get(pk=others.pk).status == "denied"
    assert AuditEvent.objects.get(kind="call.approved").actor == f"user:{anna.person.pk}"


# Keys ------------------------------------------------------------------------------------------------------


def made(answer: Any) -> str:
    found = re.search(r"mcph_[0-9a-f]{8}_[\w-]+", answer.content.decode())
    return found[0] if found else ""


def test_a_person_makes_a_key_that_is_shown_once(anna: World) -> None:
    [group] = anna.person.groups.all()
    asked = {"name": "laptop", "scopes": ["tools:list", "tools:call"], "groups": [group.pk], "days": "30"}
    answer = anna.browser.post("/me/keys/make/", asked)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    text = made(answer)
    key = ApiKey.objects.get(name="laptop")
    assert (key.owner, list(key.groups.all()), key.secret_hash) == (anna.person, [group], ApiKey.hash(text))
    assert key.expires_at is not None
    assert text not in anna.browser.get("/me/").content.decode()


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"days": "0"},
        {"days": "366"},
        {"days": ""},
        {"scopes": ["audit:read"]},
        {"scopes": ["keys:write"]},
        {"groups": ["of boris"]},
        {"name": "x" * 101},
        {"name": "a\0b"},
    ],
)
def test_a_key_beyond_what_the_person_has_is_refused(anna: World, boris: World, wrong: dict[str, Any]) -> None:
    asked = {"name": "laptop", "scopes": ["tools:list"], "days": "30", **wrong}
    if wrong.get("groups"):
        asked["groups"] = [boris.person.groups.get().pk]
    answer = anna.browser.post("/me/keys/make/", asked, follow=True)
    assert "problem" in answer.content.decode()
    assert ApiKey.objects.filter(owner=anna.person).count() == 1


def test_an_operator_may_keep_people_from_making_keys(anna: World, settings: Any) -> None:
    settings.MCPHUB_OWN_KEYS = False
    assert "Make a key" not in anna.browser.get("/me/").content.decode()
    asked = {"name": "laptop", "scopes": ["tools:list"], "days": "30"}
    anna.browser.post("/me/keys/make/", asked)
    assert ApiKey.objects.filter(owner=anna.person).count() == 1


# Calls -----------------------------------------------------------------------------------------------------


def test_the_calls_are_narrowed_and_turned(anna: World) -> None:
    principal = f"user:{anna.person.pk}"
    for number in range(60):
        McpToolInvocationFactory(principal=principal, tool_name=f"tool_{number % 2}")
    page = anna.browser.get("/me/calls/", {"tool": "tool_1"}).content.decode()
    assert ("<code>tool_1</code>" in page, "<code>tool_0</code>" in page) == (True, False)
    first = anna.browser.get("/me/calls/").content.decode()
    older = re.search(r'href="(\?before=\d+)"', first)
    assert older is not None
    second = anna.browser.get(f"/me/calls/{older[1]}").content.decode()
    assert first.count("<code>") + second.count("<code>") == 61
    assert anna.browser.get("/me/calls/?before=x&status=y&tool=%00").status_code == 200


def test_a_call_shows_what_is_on_record(anna: World) -> None:
    assert "word of anna" in anna.browser.get(f"/me/calls/{anna.call.invocation_id}/").content.decode()


# The end ---------------------------------------------------------------------------------------------------


def test_a_person_logs_out(anna: World) -> None:
    page = anna.browser.get("/me/").content.decode()
    assert 'action="/login/logout/"' in page
    anna.browser.post("/login/logout/")
    assert anna.browser.get("/me/").status_code == 302


def test_a_person_who_is_disabled_finds_nothing_open_when_enabled_again(anna: World) -> None:
    person = User.objects.get(pk=anna.person.pk)
    person.is_active = False
    person.save()
    event = AuditEvent.objects.filter(kind="user.ended").latest("pk")
    assert event.after == {"keys": 1, "tokens": 0, "logins": 1, "accounts": 0}
    person.is_active = True
    person.save()
    assert anna.browser.get("/me/").status_code == 302
    assert not ApiKey.objects.usable().filter(owner=person).exists()
