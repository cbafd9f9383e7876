"""Every address of the console that shows a page has one landmark, one heading and a title in people's words."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from tests.factories import UserFactory
from tests.rigs import addresses
from tests.rigs.pages import _LEFT_OUT

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

OF_TABLES = re.compile(r"^Select .* to (change|view)|\| (Change|View) ")
"""How Django names its pages."""


@pytest.fixture(scope="module")
def shown(django_db_setup: None, django_db_blocker: Any) -> dict[str, str]:
    """Return the HTML by address of all pages that a superuser may open."""
    found = {}
    with django_db_blocker.unblock(), transaction.atomic():
        rows = addresses.one_of_each()
        client = Client()
        client.force_login(UserFactory(is_staff=True, is_superuser=True))
        for pattern in dict.fromkeys(addresses.patterns()):
            if pattern.startswith(("admin/", "me/")) and pattern not in _LEFT_OUT:
                answer = client.get(addresses.address(pattern, rows), headers={"accept": "text/html"})
                if answer.status_code == 200 and not answer.streaming and b"<html" in answer.content:
                    found[answer.wsgi_request.path] = answer.content.decode()
        transaction.set_rollback(True)
    return found


def test_who_can_fill_in_nothing_is_offered_no_saving(shown):
    field = re.compile(r"""<(?:select|textarea|input (?!type="(?:hidden|submit|search)"))[^>]*name="(?!q"|_)""")
    wrong = []
    for where, html in shown.items():
        form = re.search(r"""<form[^>]*id="\w+_form".*?</form>""", html, re.DOTALL)
        if 'name="_save"' in html and "/change/" in where and form and not field.search(form[0]):
            wrong.append(where)
    assert wrong == []


def test_a_page_that_asks_before_it_deletes_has_the_words_of_its_scripts(shown):
    asking = [where for where in shown if where.endswith("/delete/")]
    assert len(asking) > 10
    assert [where for where in asking if "calendar.js" in shown[where] and "/jsi18n/" not in shown[where]] == []


def test_every_page_has_a_landmark_and_a_title_in_peoples_words(shown):
    assert len(shown) > 150
    wrong = []
    for where, html in shown.items():
        title = unescape(re.search("<title>(.*?)</title>", html, re.DOTALL)[1]).strip()
        if html.count("<main") != 1 or html.count("<h1") != 1:
            wrong.append(f"{where}: {html.count('<main')} landmarks, {html.count('<h1')} headings")
        if not title.endswith("| MCP Hub") or OF_TABLES.search(title):
            wrong.append(f"{where}: the title {title!r}")
    assert wrong == []


@pytest.mark.parametrize("language", ["en", "ru"])
def test_no_part_of_a_form_names_two_rows_alike(db: Any, language: str) -> None:
    rows = addresses.one_of_each()
    client = Client(headers={"accept-language": language})
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    alike, seen = [], 0
    for pattern in dict.fromkeys(addresses.patterns()):
        if re.match(r"admin/\w+/\w+/<path:object_id>/change/$", pattern):
            answer = client.get(addresses.address(pattern, rows))
            for part in answer.context["adminform"] if answer.status_code == 200 else ():
                labels = [_label(each) for line in part for each in line]
                seen += len(labels)
                alike += [f"{pattern}: {label}" for label in set(labels) if labels.count(label) > 1]
    assert seen > 200
    assert alike == []


def _label(field: Any) -> str:
    return str(field.field["label"] if isinstance(field.field, dict) else field.field.label)


@pytest.mark.parametrize("key", ["words-beside", "9" * 30, "-1"])
def test_an_address_of_no_row_is_answered_without_a_fault(db: Any, key: str) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    failed = []
    for pattern in dict.fromkeys(addresses.patterns()):
        if "<" in pattern and pattern.startswith(("admin/", "me/")) and "stream" not in pattern:
            where = addresses.filled(pattern, lambda name: key)
            failed += [where] if client.get(where).status_code >= 500 else []
    assert failed == []
