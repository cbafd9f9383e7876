"""Documents inside the console, and an alert that shows last week while it is filled in."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from tests.browser.conftest import watched

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
pytestmark = pytest.mark.long

SEED = """
from django.contrib.auth.models import User
User.objects.create_superuser("operator", password="a long password")
"""


def keep(page: Any, name: str) -> None:
    if folder := os.environ.get("MCPHUB_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}.png")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_help_opens_the_chapter_and_its_links_and_pictures_work(
    chromium: Any, address: str, logged_in: Any, scheme: str, width: int
) -> None:
    size = {"width": width, "height": 900}
    with watched(chromium, address, storage_state=logged_in, color_scheme=scheme) as page:
        page.set_viewport_size(size)
        page.goto("/admin/sessions_app/auditevent/")
        page.get_by_role("link", name="Help", exact=True).click()
        expect(page).to_have_url(re.compile("/admin/docs/operate/console/#who-changed-what"))
        expect(page.locator("#who-changed-what-and-is-the-audit-whole")).to_be_in_viewport()
        picture = page.get_by_role("img", name=re.compile("overview: figures"))
        picture.scroll_into_view_if_needed()
        page.wait_for_function("picture => picture.naturalWidth > 0", arg=picture.element_handle())
        page.get_by_role("article").get_by_role("link", name="quotas").first.click()
        expect(page.get_by_role("heading", level=1, name="Quotas")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
        keep(page, f"document-{scheme}-{width}")


def test_an_alert_shows_last_week_while_it_is_filled_in(chromium: Any, address: str, logged_in: Any) -> None:
    with watched(chromium, address, storage_state=logged_in) as page:
        page.goto("/admin/alerts/alert/add/")
        page.get_by_label("Name").fill("Silence")
        page.get_by_label("Measure").select_option("quiet")
        page.get_by_label("Threshold").fill("")
        expect(page.locator("#hub-preview")).to_contain_text("would have fired 1 time in the last 7 days")
        keep(page, "alert")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("link", name="Silence").first).to_be_visible()
