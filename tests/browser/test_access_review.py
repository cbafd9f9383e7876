"""A review in the browser: it is started, narrowed to what is unused, and decided row by row and in a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import watched
from tests.browser.test_quota_pages import shot

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
pytestmark = pytest.mark.long

SEED = """
from datetime import timedelta
from django.contrib.auth.models import Group, User
from django.utils import timezone
from sessions_app.models import ApiKey
from tests import factories as make
User.objects.create_superuser("operator", password="a long password")
payers = Group.objects.create(name="payers")
make.McpToolDefinitionFactory(name="pay.refund").groups.add(payers)
for name, days in (("anna", 0), ("olga", 200)):
    person = User.objects.create_user(name, date_joined=timezone.now() - timedelta(days=days))
    person.groups.add(payers)
for name, days in (("nightly", 0), ("forgotten", 200)):
    key, _text = ApiKey.issue(name, scopes=["tools:call"])
    ApiKey.objects.filter(pk=key.pk).update(created_at=timezone.now() - timedelta(days=days))
"""


@pytest.fixture
def page(chromium: Any, address: str, logged_in: Any) -> Iterator[Any]:
    with watched(chromium, address, storage_state=logged_in) as page:
        yield page


def test_a_review_is_started_and_unused_access_is_taken_away(page: Any) -> None:
    page.goto("/admin/access_review/accessreview/add/")
    page.fill("#id_name", "Quarterly review")
    page.fill("#id_due_at_0", "2099-01-01")
    page.fill("#id_due_at_1", "12:00:00")
    page.get_by_label("operator").check()
    shot(page, "access-review-add")
    page.locator("[name=_save]").first.click()
    expect(page.locator("body")).to_contain_text("0 of 7: 0 kept, 0 taken away")
    shot(page, "access-review")
    page.get_by_role("link", name="3 unused for 90 days").click()
    rows = page.locator("#result_list tbody tr")
    expect(rows).to_have_count(3)
    shot(page, "access-review-unused")
    rows.filter(has_text="forgotten").locator("input.action-select").check()
    rows.filter(has_text="payers").locator("input.action-select").check()
    page.select_option("select[name=action]", "take_away")
    page.locator("select[name=action]").locator("xpath=ancestor::form").get_by_role("button", name="Run").click()
    expect(page.locator("body")).to_contain_text("Take 2 grants away?")
    page.fill("[name=reason]", "unused for half a year")
    shot(page, "access-review-confirm")
    page.locator("button[name=confirmed], [name=confirmed]").first.click()
    expect(page.get_by_text("Taken away")).to_have_count(2)
    page.goto("/admin/sessions_app/apikey/")
    expect(page.locator("#result_list tr", has_text="forgotten")).to_contain_text("Revoked")
    page.goto("/admin/access_review/accessreview/")
    expect(page.locator("#result_list")).to_contain_text("2 of 7: 0 kept, 2 taken away")
