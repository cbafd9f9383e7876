"""People come to the hub by a real identity provider: npm's oidc-provider, in a process of its own."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mcphub.features.login.factors import totp
from tests.cookies import cookie_of
from tests.identity import SECRET, IdentityProvider
from tests.identity.visiting import Visitor
from tests.servers import Hub

pytestmark = [pytest.mark.slow]

PEOPLE = {
    "ada": {"preferred_username": "ada", "email": "ada@firm.example", "groups": ["mcp-operators"]},
    "bob": {"preferred_username": "bob", "groups": []},
}


def make_provider(slug: str, issuer: str, secret: str, **more: Any) -> None:
    from mcphub.features.login.models import LoginProvider

    row = LoginProvider(
        name=slug.title(),
        slug=slug,
        issuer=issuer,
        client_id="hub",
        scopes="openid profile email groups",
        groups={"mcp-operators": ["Operator"]},
        **{"admits": "everybody", **more},
    )
    row.set_secret(secret)
    row.full_clean()
    row.save()


def set_provider(slug: str, **changed: Any) -> None:
    from mcphub.features.login.models import LoginProvider

    LoginProvider.objects.filter(slug=slug).update(**changed)


def what_is_known(name: str) -> dict[str, Any]:
    from django.contrib.auth.models import User

    user = User.objects.get(username=name)
    return {"groups": sorted(user.groups.values_list("name", flat=True)), "staff": user.is_staff, "email": user.email}


def last_event(kind: str) -> Any:
    from sessions_app.models import AuditEvent

    event = AuditEvent.objects.filter(kind=kind).order_by("-pk").first()
    return event and {"actor": event.actor, "label": event.actor_label, "after": event.after}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with IdentityProvider(PEOPLE, bare_id_token=True) as provider:
        environment = {"MCPHUB_EGRESS_ALLOW": f"127.0.0.1:{provider.port},127.0.0.1:9"}
        with Hub(tmp_path_factory.mktemp("hub"), environment=environment) as running:
            provider.start(f"{running.url}/login/back/firm/", f"{running.url}/login/")
            running.operate(make_provider, "firm", provider.issuer, SECRET)
            running.operate(make_provider, "away", "http://127.0.0.1:9", "")
            running.settle()
            yield running


@pytest.fixture
def visitor(hub: Hub) -> Iterator[Visitor]:
    with Visitor(hub.url) as visitor:
        yield visitor


def test_an_operator_comes_to_the_console_with_the_groups_of_the_claim(hub: Hub, visitor: Visitor) -> None:
    assert "Log in with Firm" in visitor.http.get(f"{hub.url}/admin/login/?next=/admin/").text
    answer = visitor.comes_by("firm", "ada", "/admin/tools_catalog/mcptooldefinition/")
    assert (answer.status_code, answer.headers["location"]) == (302, "/admin/tools_catalog/mcptooldefinition/")
    assert visitor.http.get(f"{hub.url}/admin/").status_code == 200
    assert hub.operate(what_is_known, "ada") == {"groups": ["Operator"], "staff": True, "email": "ada@firm.example"}
    event = hub.operate(last_event, "login.succeeded")
    assert event["label"] == "ada"
    assert event["after"] == {"address": "127.0.0.1", "by": "provider:firm"}
    assert SECRET not in hub.log()


def test_a_person_without_rights_comes_to_sign_a_client_in(hub: Hub, visitor: Visitor) -> None:
    answer = visitor.comes_by("firm", "bob", "/oauth/authorize/%3Fclient_id%3Dx")
    assert answer.headers["location"] == "/oauth/authorize/?client_id=x"
    assert hub.operate(what_is_known, "bob")["staff"] is False
    assert visitor.http.get(f"{hub.url}/admin/").status_code == 302


def test_an_answer_counts_once_and_in_its_own_browser(hub: Hub, visitor: Visitor) -> None:
    back = visitor.answers(visitor.begins("/login/with/firm/"), "ada")
    with Visitor(hub.url) as another:
        assert another.http.get(back).status_code == 403
        another.begins("/login/with/firm/")
        assert another.http.get(back).status_code == 403
    cookie = visitor.http.cookies["mcphub_login"]
    assert visitor.http.get(back).status_code == 302
    assert visitor.http.get(back).status_code == 403  # the cookie is gone
    with Visitor(hub.url) as thief:
        thief.http.cookies.set("mcphub_login", cookie)
        assert thief.http.get(back).status_code == 403
    assert hub.operate(last_event, "login.refused")["after"]["code"] == "code"


@pytest.mark.parametrize("spoilt", ["iss=http://evil.example", "state=x", "code=x"])
def test_an_answer_that_was_changed_is_refused(hub: Hub, visitor: Visitor, spoilt: str) -> None:
    back = visitor.answers(visitor.begins("/login/with/firm/"), "ada")
    name, _, value = spoilt.partition("=")
    address, _, query = back.partition("?")
    parameters = dict(each.split("=", 1) for each in query.split("&"))
    answer = visitor.http.get(f"{address}?" + "&".join(f"{k}={v}" for k, v in {**parameters, name: value}.items()))
    assert answer.status_code == 403
    assert "Nobody was logged in." in answer.text
    assert not [name for name in visitor.http.cookies if name.startswith("mcphub_admin")]


def test_who_turns_back_is_told_so(hub: Hub, visitor: Visitor) -> None:
    at_provider = visitor.begins("/login/with/firm/")
    state = at_provider.partition("state=")[2].partition("&")[0]
    issuer = at_provider.partition("/auth")[0]
    answer = visitor.http.get(f"{hub.url}/login/back/firm/?error=access_denied&state={state}&iss={issuer}")
    assert answer.status_code == 403
    assert "you cancelled it" in answer.text


def test_a_login_leads_to_no_other_site(hub: Hub, visitor: Visitor) -> None:
    for elsewhere in ("https://evil.example/", "//evil.example/", "/%5Cevil.example"):
        assert visitor.comes_by("firm", "ada", elsewhere).headers["location"] == "/admin/"


def test_a_provider_that_is_away_or_off_lets_nobody_in(hub: Hub, visitor: Visitor) -> None:
    answer = visitor.http.get(f"{hub.url}/login/with/away/")
    assert answer.status_code == 502
    assert "log in another way" in answer.text
    hub.operate(set_provider, "firm", enabled=False)
    try:
        assert "Firm" not in visitor.http.get(f"{hub.url}/login/").text
        assert visitor.http.get(f"{hub.url}/login/with/firm/").status_code == 404
    finally:
        hub.operate(set_provider, "firm", enabled=True)


def test_only_invited_people_come_where_the_provider_says_so(hub: Hub, visitor: Visitor) -> None:
    hub.operate(set_provider, "firm", admits="invited")
    try:
        answer = visitor.comes_by("firm", "stranger")
        assert (answer.status_code, "invited" in answer.text) == (403, True)
    finally:
        hub.operate(set_provider, "firm", admits="everybody")


def invite(name: str) -> str:
    from mcphub.features.login import invitations

    return "/login" + invitations.invite(name, "", [], 1)[1].partition("/login")[2]


def test_who_was_invited_comes_by_the_provider(hub: Hub, visitor: Visitor) -> None:
    hub.operate(set_provider, "firm", admits="invited")
    try:
        page = visitor.http.get(hub.url + hub.operate(invite, "guest"))
        address = re.search(r'href="(/login/with/firm/[^"]+)"', page.text)
        assert address is not None, page.text
        answer = visitor.http.get(visitor.answers(visitor.begins(address[1]), "gast"))
        assert answer.headers["location"] == "/me/"
        assert "logged in as guest" in visitor.http.get(f"{hub.url}/login/own/").text
        with Visitor(hub.url) as again:
            assert again.comes_by("firm", "gast").status_code == 302
    finally:
        hub.operate(set_provider, "firm", admits="everybody")


def make_local(name: str) -> None:
    from django.contrib.auth.models import User

    User.objects.create_user(name, password="a long password")


def test_a_person_links_an_account_by_their_own_page_alone(hub: Hub, visitor: Visitor) -> None:
    hub.operate(make_local, "local")
    page = visitor.http.get(f"{hub.url}/login/?next=/login/own/").text
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert token is not None
    form = {"csrfmiddlewaretoken": token[1], "username": "local", "password": "a long password", "next": "/login/own/"}
    assert visitor.http.post(f"{hub.url}/login/", data=form).headers["location"] == "/login/own/"
    for forged in ("", "=x", "=" + "0" * 64):
        answer = visitor.http.get(f"{hub.url}/login/with/firm/?link{forged}")
        assert answer.headers["location"].startswith("/login/?")
    own = visitor.http.get(f"{hub.url}/login/own/").text
    address = re.search(r'href="(/login/with/firm/\?link=[^"]+)"', own)
    assert address is not None, own
    answer = visitor.http.get(visitor.answers(visitor.begins(address[1]), "elsewhere"))
    assert answer.headers["location"] == "/login/own/"
    with Visitor(hub.url) as again:
        again.comes_by("firm", "elsewhere")
        assert "logged in as local" in again.http.get(f"{hub.url}/login/own/").text


def make_careful(name: str) -> str:
    """Return the secret of the person's app."""
    from django.contrib.auth.models import User

    from mcphub.features.login.factors import holding

    user, secret = User.objects.create_user(name, password="a long password"), totp.new_secret()
    assert holding.add_app(user, secret, totp.code_at(secret, int(time.time()) // totp.PERIOD_SECONDS))
    return secret


def test_one_code_lets_one_in_of_many_who_show_it_at_once(hub: Hub) -> None:
    secret = hub.operate(make_careful, "careful")

    def shows_password() -> Visitor:
        visitor = Visitor(hub.url)
        visitor.http.get(f"{hub.url}/login/")
        form = {"csrfmiddlewaretoken": cookie_of(visitor.http.cookies, "mcphub_csrf"), "username": "careful"}
        answer = visitor.http.post(f"{hub.url}/login/", data={**form, "password": "a long password"})
        assert answer.headers["location"] == "/login/second/"
        return visitor

    def shows_code(visitor: Visitor) -> int:
        form = {"csrfmiddlewaretoken": cookie_of(visitor.http.cookies, "mcphub_csrf"), "code": code}
        return visitor.http.post(f"{hub.url}/login/second/", data=form).status_code

    with contextlib.ExitStack() as opened:
        visitors = [opened.enter_context(shows_password()) for _ in range(4)]
        # The next one, which is good for at least half a minute more.
        code = totp.code_at(secret, int(time.time()) // totp.PERIOD_SECONDS + 1)
        with ThreadPoolExecutor(len(visitors)) as pool:
            statuses = sorted(pool.map(shows_code, visitors))
    assert statuses == [200, 200, 200, 302]
