"""`GET /`: a page for people that leads on, JSON for programs."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

PAGE = {"accept": "text/html"}


def test_a_person_is_told_what_this_is_and_led_on() -> None:
    answer = Client().get("/", headers=PAGE)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "every call is on record" in page
    assert 'href="/admin/connect/"' in page
    assert 'href="/admin/"' in page
    assert "/mcp</code>" in page
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert "<script" not in page


@pytest.mark.parametrize(("signs_in", "words"), [(True, "this address alone"), (False, "needs an API key. Whoever")])
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
