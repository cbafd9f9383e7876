"""The inbox of calls that wait: decided by keyboard, and what each row says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser.conftest import watched
from tests.browser.test_catalogue import look

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

SEED = """
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from mcphub.features.approvals.models import McpApproval
User.objects.create_superuser("operator", password="a long password")
now = timezone.now()
def call(n, **fields):
    known = dict(
        id=f"appr_{n}", principal="key:1", caller_label="laptop", tool_name="shop.refund", tool_version="1",
        arguments={"order": f"A-{n}", "amount": 10 * (n + 1)}, binding=f"{n:064d}", effects="destroys", rule="refunds",
        created_at=now - timedelta(minutes=n), expires_at=now + timedelta(hours=2),
    )
    McpApproval.objects.create(**{**known, **fields})
call(0), call(1), call(3, needed=2)
call(2, status="approved", decided_at=now, created_at=now - timedelta(days=1))
"""
INBOX = "/admin/invocations/mcpapproval/"


def test_calls_are_decided_by_keyboard(page: Any) -> None:
    page.goto(f"{INBOX}?state=pending")
    rows = page.locator("#result_list > tbody")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text(re.compile(r"1\s+hour, \d+\s+minutes left"))
    expect(rows.last).to_contain_text("0/2")
    look(page, "approvals-inbox")
    page.keyboard.press("?")
    expect(page.locator("#hub-keys")).to_contain_text("Waiting items, selected or focused")
    page.keyboard.press("Escape")
    page.keyboard.press("a")  # no row has the focus: nothing happens
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(page.get_by_role("heading", name="Approve these calls?")).to_be_visible()
    expect(page.locator("form.hub-card li")).to_contain_text("amount: 30 → 10")
    look(page, "approvals-approve")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text("1 call approved.")).to_be_visible()
    page.goto(f"{INBOX}?state=pending")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/change/"))  # until it is loaded: the list hears this key, too, and no page before
    page.keyboard.press("d")
    expect(page.get_by_role("heading", name="Deny these calls?")).to_be_visible()


def test_several_calls_are_decided_together_with_their_differences_shown(page: Any) -> None:
    page.goto(f"{INBOX}?state=pending")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#result_list input.action-select:checked")).to_have_count(2)


def test_the_inbox_is_in_russian_for_who_reads_it(chromium: Any, address: str, logged_in: Any) -> None:
    with watched(chromium, address, storage_state=logged_in, locale="ru") as page:
        page.goto(f"{INBOX}?state=pending")
        expect(page.locator("#result_list")).to_contain_text("осталось")
        look(page, "approvals-inbox-ru")
