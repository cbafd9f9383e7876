"""The archive in the browser: a month leads to its calls, a line with completion finds some, and one is opened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from tests.browser.conftest import watched
from tests.browser.test_quota_pages import shot

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
pytestmark = pytest.mark.long

SEED = """
from django.contrib.auth.models import User
from tests.features.archive.recording import archive_months
User.objects.create_superuser("operator", password="a long password")
archive_months()
"""
ARCHIVE = "/admin/archive/"
SERIOUS = ("serious", "critical")


@pytest.fixture(params=["en", "ru"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def page(chromium: Any, address: str, logged_in: Any, way: str) -> Iterator[Any]:
    with watched(chromium, address, storage_state=logged_in, locale=way) as page:
        yield page


def test_months_lead_to_calls_and_a_call_to_its_own_page(page: Any, way: str) -> None:
    page.goto("/admin/invocations/mcptoolinvocation/")
    page.locator(f"#main a[href='{ARCHIVE}']").last.click()
    expect(page.locator("#hub-archive-months tbody tr")).to_have_count(2)
    shot(page, f"archive-{way}")
    page.get_by_role("link", name="2026-09").click()
    rows = page.locator("#hub-archive-calls tbody tr")
    expect(rows).to_have_count(6)
    shot(page, f"archive-found-{way}")
    line = page.get_by_role("combobox")
    line.fill("tool:echo sta")
    page.get_by_role("option").first.click()
    expect(line).to_have_value("tool:echo status:")
    line.fill("tool:echo")
    line.press("Enter")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(re.compile(r"2026-09:\d+"))
    rows.get_by_role("link").click()
    expect(page.locator("#main")).to_contain_text(re.compile(r"2026-09/part-\d+-\d+\.parquet:\d+"))
    expect(page.locator("#main")).to_contain_text("hi é")
    shot(page, f"archive-call-{way}")
    page.goto(f"{ARCHIVE}?q=colour:red")
    expect(page.get_by_role("alert")).to_contain_text("colour")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_read_the_archive_and_it_fits_a_telephone(page: Any, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    axe = (files("axe_playwright_python") / "axe.min.js").read_text()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{ARCHIVE}?q=")
    where = page.locator("#hub-archive-calls a").first.get_attribute("href")
    for address in (f"{ARCHIVE}?q=", where):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.evaluate(axe)
        told = page.evaluate("axe.run({resultTypes: ['violations']})")
        wrong = [
            f"{each['id']}: {each['nodes'][0]['html'][:150]}"
            for each in told["violations"]
            if each["impact"] in SERIOUS
        ]
        assert wrong == []
