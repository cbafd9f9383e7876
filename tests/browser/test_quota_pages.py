"""What people see of quotas: an operator the list, the form, who is near what and the overview; a person their own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import watched
from tests.browser.test_catalogue import look

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
pytestmark = pytest.mark.long

SEED = """
import time
from django.contrib.auth.models import User
from mcphub.features.quotas.models import McpQuota, QuotaCount
from mcphub.features.quotas.quota import Charge
from sessions_app.models import ApiKey
from tests import factories as make
operator = User.objects.create_superuser("operator", password="a long password")
eve = User.objects.create_user("eve <b>")
key = ApiKey.issue("nightly", scopes=["tools:call"])[0]
session, process = make.McpSessionFactory(), make.ServerProcessFactory()
for n in range(3):
    make.McpToolInvocationFactory(session=session, process=process, tool_name="echo", principal=key.principal)
people = McpQuota.objects.create(
    name="each-person", soft_limit=800, hard_limit=1000, period="month", words="Ask Ann for more."
)
everybody = McpQuota.objects.create(name="traffic", per="all", unit="bytes", soft_limit=10**9, period="month")
spending = McpQuota.objects.create(name="spending", unit="money", hard_limit=25 * 10**6, period="month")
used = [
    (people, f"user:{operator.pk}", 812), (people, f"user:{eve.pk}", 1000), (people, f"key:{key.pk}", 3),
    (everybody, "all", 4 * 10**8), (spending, f"user:{operator.pk}", 12_500_000), (spending, f"user:{eve.pk}", 10),
]
now = time.time()
for quota, subject, count in used:
    charge = Charge(quota.compiled(), subject, 0)
    window = charge.window(now)
    QuotaCount.objects.create(
        key=charge.key(window), quota=quota, unit=quota.unit, subject=subject, begins=window.begins, ends=window.ends,
        used=count,
    )
"""
QUOTAS = "/admin/invocations/mcpquota/"


@pytest.fixture(params=["en-light", "ru-dark"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def page(chromium: Any, address: str, logged_in: Any, way: str) -> Iterator[Any]:
    language, scheme = way.split("-")
    with watched(chromium, address, storage_state=logged_in, locale=language, color_scheme=scheme) as page:
        yield page


def shot(page: Any, name: str) -> None:
    """Keep a picture where somebody asked for pictures; fail where the page shuts somebody out."""
    if folder := os.environ.get("MCPHUB_TEST_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)
    look(page, name)


def test_the_list_says_how_full_each_quota_is(page: Any, way: str) -> None:
    page.goto(QUOTAS)
    rows = page.locator("#result_list tbody tr")
    person = rows.filter(has_text="each-person")
    expect(person).to_contain_text("eve <b>")
    expect(person).to_contain_text(re.compile(r"100\s?%"))
    shot(page, f"quota-list-{way}")


def test_a_quota_is_written_with_help_and_what_is_wrong_stands_at_its_field(page: Any, way: str) -> None:
    page.goto(f"{QUOTAS}add/")
    helped = {
        "en": "Once usage reaches this, further calls are refused",
        "ru": "Когда расход достигнет этого значения",
    }[way[:2]]
    expect(page.get_by_text(helped)).to_be_visible()
    page.fill("[name=name]", f"few-{way}")
    page.fill("[name=soft_limit]", "20")
    page.fill("[name=hard_limit]", "10")
    page.locator("[name=hard_limit]").press("Tab")
    expect(page.locator("#check-soft_limit")).not_to_have_text("")
    shot(page, f"quota-add-{way}")
    page.fill("[name=soft_limit]", "8")
    page.locator("[name=soft_limit]").press("Tab")
    expect(page.locator("#check-soft_limit")).to_have_text("")
    page.uncheck("[name=enabled]")
    page.click("[name=_continue]")
    page.wait_for_url(re.compile(r"/mcpquota/\d+/change/"))  # the form had this value, too
    expect(page.locator("[name=hard_limit]")).to_have_value("10")
    page.goto(QUOTAS)
    expect(page.locator("#result_list")).to_contain_text(f"few-{way}")


def test_who_is_near_what_leads_to_the_quotas(page: Any, way: str) -> None:
    page.goto(f"{QUOTAS}usage/")
    rows = page.locator("section[aria-labelledby=hub-uses] tbody tr")
    expect(rows).to_have_count(6)
    expect(rows.first).to_contain_text({"en": "Used up", "ru": "Исчерпана"}[way[:2]])
    shot(page, f"quota-usage-{way}")
    rows.first.get_by_role("link", name="each-person").click()
    expect(page).to_have_url(re.compile(r"/mcpquota/\d+/change/"))


def test_the_overview_shows_the_five_nearest_to_a_quota(page: Any, way: str) -> None:
    page.goto("/admin/")
    part = page.locator("section[aria-labelledby=hub-budgets]")
    rows = part.locator("tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.first).to_contain_text("eve <b>")
    expect(part).to_contain_text({"en": "warning only", "ru": "только предупреждает"}[way[:2]])
    shot(page, f"quota-overview-{way}")
    rows.first.get_by_role("link", name="each-person").click()
    expect(page).to_have_url(re.compile(r"/mcpquota/\d+/change/"))


def test_a_person_sees_their_own_quotas_without_the_console(page: Any, way: str) -> None:
    page.goto("/me/")
    part = page.locator("#quotas")
    rows = part.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("each-person")
    expect(rows.first).to_contain_text("Ask Ann for more.")
    expect(part).not_to_contain_text("eve <b>")
    shot(page, f"quota-own-{way}")
