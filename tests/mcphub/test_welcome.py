"""`GET /`: a page for people that leads on, JSON for programs."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

PAGE = {"accept": "text/html"}


def test_a_person_is_told_what_this_is_and_led_on() -> None:
    answer = Client().get("/", headers=PAGE)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "every call is recorded" in page
    assert 'href="/connect/"' in page
    assert 'href="/login/"' in page
    assert "/admin/" not in page, "a page that may refuse whoever reads this"
    assert "/mcp</code>" in page
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert "<script" not in page


@pytest.mark.parametrize(("signs_in", "words"), [(True, "only this URL"), (False, "needs an API key. The operator")])
def test_it_says_what_a_client_needs_here(signs_in: bool, words: str, settings: Any) -> None:
    settings.MCPHUB_SIGN_IN = signs_in
    assert words in Client().get("/", headers=PAGE).content.decode()


def test_it_speaks_russian() -> None:
    page = Client().get("/", headers={**PAGE, "accept-language": "ru"}).content.decode()
    assert '<html lang="ru">' in page
    assert "Подключить клиент" in page


def test_a_program_gets_addresses() -> None:
    answer = Client().get("/", headers={"accept": "application/json"})
    found = answer.json()
    assert found["name"] == "MCP Hub"
    assert found["mcp"].endswith("/mcp")
    assert found["connect"].endswith("/connect")
    assert "Accept" in answer["Vary"]


@pytest.mark.parametrize("method", ["put", "delete"])
def test_it_is_only_read(method: str) -> None:
    assert getattr(Client(), method)("/", headers=PAGE).status_code == 405


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("page", "of_person", "of_operator"),
    [("/", "/me/", None), ("/connect", "/me/#connect", "/admin/connect/?client=curl")],
)
def test_it_leads_each_person_to_pages_that_are_open_to_them(
    page: str, of_person: str, of_operator: str | None
) -> None:
    for name, is_staff, leads in (("anna", False, of_person), ("otto", True, of_operator)):
        browser = Client()
        browser.force_login(User.objects.create_user(name, is_staff=is_staff))
        answer = browser.get(page, {"client": "curl"}, headers=PAGE)
        assert answer.headers.get("location") == leads
        assert leads or 'href="/admin/"' in answer.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("wanted", ["/connect", "/admin/invocations/mcpapproval/appr_1/change/", "/admin/"])
def test_a_person_without_a_role_is_refused_nowhere_on_the_way_in(wanted: str) -> None:
    User.objects.create_user("anna", password="a long password")
    browser = Client()
    asked = {"username": "anna", "password": "a long password"}
    form = browser.get(wanted, headers=PAGE)["location"]
    answer = browser.post(form, asked, follow=True, headers=PAGE)
    assert (answer.status_code, answer.request["PATH_INFO"]) == (200, "/me/")
    again = browser.get(wanted, follow=True, headers=PAGE)
    assert (again.status_code, again.request["PATH_INFO"]) == (200, "/me/")
