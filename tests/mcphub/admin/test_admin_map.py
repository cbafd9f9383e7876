"""The map of the console: few entries, everything reachable, nothing that a person may not see."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.urls import reverse

from mcphub.console import navigation
from mcphub.console.documents.shelf import chapter
from mcphub.groups import ROLES
from tests.factories import McpConnectionFactory

pytestmark = pytest.mark.django_db

BROWSER = {"accept": "text/html"}
"""REST, which is on the map, gives programs no page."""


def areas(client: Any, where: str = "admin:index") -> list[navigation.ShownArea]:
    return list(client.get(reverse(where)).context["hub_areas"])


def test_the_first_level_has_at_most_ten_entries(log_in):
    shown = areas(log_in("superuser"))
    assert len(shown) == len(navigation.areas()) <= 10
    assert len(log_in("superuser").get(reverse("admin:index")).context["sidebar_navigation"][0]["items"]) <= 10


def test_every_list_of_the_admin_is_on_the_map(log_in):
    links = {tab.link for area in areas(log_in("superuser")) for tab in area.tabs}
    lists = {
        reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist") for model in admin.site._registry
    }
    assert lists - links == set()


def test_each_page_says_where_it_stands_on_the_map(log_in):
    client = log_in("superuser")
    for area in areas(client):
        for tab in area.tabs:
            page = client.get(tab.link, headers=BROWSER)
            here = page.context["hub_area"]
            assert (here.title, here.tab.title) == (area.title, tab.title)
            assert f'aria-current="page">{tab.title}</a>' in page.content.decode() or len(here.tabs) == 1


def test_the_page_of_a_row_stands_in_the_area_of_its_list(log_in):
    connection = McpConnectionFactory(slug="tracker")
    page = log_in("superuser").get(reverse("admin:tools_catalog_mcpconnection_change", args=[connection.pk]))
    assert page.context["hub_area"].title == "Connections"
    assert "tracker" in page.content.decode()


@pytest.mark.parametrize("role", [*ROLES, "nobody"])
def test_what_a_person_may_not_see_is_absent_and_the_rest_opens(role, log_in):
    client = log_in("superuser" if role == "nobody" else role)
    if role == "nobody":
        client.user.is_superuser = False
        client.user.save()
    for area in areas(client):
        assert area.tabs
        for tab in area.tabs:
            assert client.get(tab.link, headers=BROWSER).status_code == 200, tab.link


def test_an_empty_list_says_what_it_is_for_and_has_the_button_for_the_first(log_in):
    client = log_in("superuser")
    empty = 0
    for area in areas(client):
        for tab in area.tabs:
            page = client.get(tab.link, headers=BROWSER)
            if (shown := (page.context or {}).get("cl")) is None:
                continue
            words = str(navigation.purpose(shown.opts.label_lower.replace(".", "_")))
            assert words, f"{tab.title} has no words for an empty list: mcphub/console/purposes.py, or `about`"
            if not shown.result_list and not shown.has_active_filters:
                empty += 1
                assert words in unescape(page.content.decode()), tab.title
                assert not page.context["has_add_permission"] or "/add/" in page.content.decode()
    assert empty > 20


def test_each_page_links_a_chapter_that_exists(log_in):
    client = log_in("superuser")
    for area in areas(client):
        for tab in area.tabs:
            assert tab.chapter, f"{tab.title} has no chapter: mcphub/console/chapters.py, or `docs` of its ConsolePage"
            assert chapter(tab.chapter), f"{tab.title}: there is no {tab.chapter} in docs/"
    page = client.get(reverse("admin:invocations_mcpquota_changelist")).content.decode()
    assert f'href="{reverse("docs-page", args=["secure/quotas"])}"' in page
