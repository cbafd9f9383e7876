"""What an operator does with call rules: writes one, sees what it would have done, tries a call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import watched
from tests.browser.test_catalogue import look

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
pytestmark = pytest.mark.long

SEED = """
from django.contrib.auth.models import User
from tests import factories as make
from tools_catalog.backends import python
from mcphub.features.call_rules.models import McpPolicyRule
from tools_catalog.models import McpToolDefinition
User.objects.create_superuser("operator", password="a long password")
python.discover(["starter"])
told = python.definition("tools_catalog.packs.starter.tools:add")
McpToolDefinition.objects.filter(name="add").exists() or McpToolDefinition.objects.create(
    name="add", title=told["title"], description=told["description"], input_schema=told["inputSchema"],
    backend="python", configuration=told["configuration"], read_only=True, destructive=False,
)
session, process = make.McpSessionFactory(), make.ServerProcessFactory()
for n in range(5):
    make.McpToolInvocationFactory(
        session=session, process=process, tool_name="add", caller_label="laptop <b>", principal="key:99",
        arguments={"a": n, "b": 1},
    )
McpPolicyRule.objects.create(name="watcher", condition="args.a > 1", watching=True, words="Look.")
McpPolicyRule.objects.create(name="ask-first", applies_to="tool", target="echo", effect="ask")
"""
RULES = "/admin/tools_catalog/mcppolicyrule/"


def test_a_rule_is_written_with_completion_and_shows_what_it_would_have_done(page: Any) -> None:
    page.goto(f"{RULES}add/")
    page.fill("[name=name]", "small-sums")
    page.select_option("[name=applies_to]", "tool")
    page.fill("[name=target]", "add")
    condition = page.locator("[name=condition]")
    condition.press_sequentially("princ")
    expect(page.get_by_role("option", name="principal", exact=True)).to_be_visible()
    condition.press("Escape")
    condition.fill("args.a > 2 && principal.grups == 1")
    expect(page.locator("#check-condition")).to_contain_text("Do you mean principal.groups?")
    condition.fill("args.a > ")
    condition.press_sequentially("2")
    expect(page.locator("#check-condition")).to_have_text("")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.locator("#hub-preview")).to_contain_text(" 2 matched")
    look(page, "policy-rule")


def test_the_list_counts_and_the_bench_says_what_each_rule_says(page: Any) -> None:
    page.goto(RULES)
    expect(page.locator("#result_list")).to_contain_text("would deny 0, ask for 0")
    look(page, "policy-list")
    page.goto(f"{RULES}bench/")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("status")).to_contain_text("watcher@1")
    look(page, "policy-bench")


def test_the_pages_are_in_russian_for_who_reads_it(chromium: Any, address: str, logged_in: Any) -> None:
    with watched(chromium, address, storage_state=logged_in, locale="ru") as page:
        page.goto(RULES)
        expect(page.locator("#result_list")).to_contain_text("только наблюдает")
        look(page, "policy-list-ru")
        page.get_by_role("link", name="watcher", exact=True).click()
        expect(page.locator("#hub-preview")).to_contain_text("Из последних вызовов")
        look(page, "policy-rule-ru")
        page.goto(f"{RULES}bench/")
        page.get_by_role("button", name="Показать").click()
        expect(page.get_by_role("status")).to_contain_text("Ни одно правило не мешает")
        look(page, "policy-bench-ru")
