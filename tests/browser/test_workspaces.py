"""What a person sees who acts in a workspace: its calls, its toolsets, where they are, and the way to another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import watched
from tests.browser.operating import PASSWORD
from tests.browser.test_quota_pages import shot

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
pytestmark = pytest.mark.long

SEED = """
from django.contrib.auth.models import Group, User
from mcphub.features.approvals.models import McpApproval
from sessions_app.models import ApiKey, McpWorkspace
from tests import factories as make
User.objects.create_superuser("operator", password="a long password")
lead = User.objects.create_user("lead", password="a long password")
for slug, title in (("payments", "Payments"), ("support", "Support")):
    group = Group.objects.create(name=f"{slug} leads")
    lead.groups.add(group)
    row = McpWorkspace.objects.create(slug=slug, title=title)
    row.auditors.add(group)
    row.operators.add(group)
    make.McpToolDefinitionFactory(name=f"{slug}.refund", workspace=row)
    make.McpToolsetFactory(slug=f"{slug}-set", patterns="*", workspace=row)
    ApiKey.issue(f"{slug} nightly", workspace=row)
    session, process = make.McpSessionFactory(), make.ServerProcessFactory()
    for n in range(3):
        make.McpToolInvocationFactory(
            session=session, process=process, tool_name=f"{slug}.refund", workspace=slug, failed=n == 1
        )
make.McpToolDefinitionFactory(name="everybodys.echo")
"""
CALLS = "/admin/invocations/mcptoolinvocation/"


@pytest.fixture(scope="module")
def lead(chromium: Any, address: str) -> Any:
    with watched(chromium, address) as page:
        page.goto("/admin/login/")
        page.fill("[name=username]", "lead")
        page.fill("[name=password]", PASSWORD)
        page.click("button[type=submit]")
        expect(page.locator("#hub-workspace")).to_be_visible()
        return page.context.storage_state()


@pytest.fixture(params=["en-light", "ru-dark"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def page(chromium: Any, address: str, lead: Any, way: str) -> Iterator[Any]:
    language, scheme = way.split("-")
    with watched(chromium, address, storage_state=lead, locale=language, color_scheme=scheme) as page:
        yield page


def test_the_console_opens_in_a_workspace_and_names_it(page: Any, way: str) -> None:
    page.goto("/admin/")
    expect(page.locator("#hub-workspace")).to_contain_text("payments")
    expect(page.locator("#result_list")).to_contain_text("payments.refund")
    expect(page.locator("#result_list")).not_to_contain_text("support.refund")
    shot(page, f"workspace-calls-{way}")
    page.locator("#result_list tbody tr th a, #result_list tbody tr td a").first.click()
    page.wait_for_url("**/change/**")
    shot(page, f"workspace-call-{way}")


def test_another_workspace_is_chosen_and_shows_its_own(page: Any, way: str) -> None:
    page.goto("/admin/workspaces/")
    shot(page, f"workspace-choice-{way}")
    page.locator("#hub-workspaces tr", has_text="support").locator("button").click()
    expect(page.locator("#hub-workspace")).to_contain_text("support")
    expect(page.locator("#result_list")).not_to_contain_text("payments.refund")
    page.goto("/admin/tools_catalog/mcptooldefinition/")
    expect(page.locator("#result_list")).to_contain_text("everybodys.echo")
    expect(page.locator("#result_list")).to_contain_text("support.refund")
    expect(page.locator("#result_list")).not_to_contain_text("payments.refund")
    page.goto("/admin/workspaces/")
    page.locator("#hub-workspaces tr", has_text="payments").locator("button").click()
    expect(page.locator("#hub-workspace")).to_contain_text("payments")


def test_a_toolset_is_made_without_being_asked_whose_it_is(page: Any, way: str) -> None:
    page.goto("/admin/tools_catalog/mcptoolset/add/")
    expect(page.locator("#id_workspace")).to_have_count(0)
    page.fill("#id_slug", f"made-{way}")
    page.fill("#id_patterns", "payments.*")
    shot(page, f"workspace-toolset-{way}")
    page.locator("[name=_save]").first.click()
    expect(page.locator("#result_list")).to_contain_text(f"made-{way}")


def test_a_page_of_the_whole_hub_says_why_it_is_closed(page: Any, way: str) -> None:
    answer = page.goto("/admin/invocations/errorgroup/")
    assert answer.status == 403
    expect(page.locator("body")).to_contain_text("payments")
    shot(page, f"workspace-closed-{way}")


def test_an_operator_of_the_hub_keeps_workspaces(chromium: Any, address: str, logged_in: Any, way: str) -> None:
    language, scheme = way.split("-")
    with watched(chromium, address, storage_state=logged_in, locale=language, color_scheme=scheme) as page:
        page.goto("/admin/sessions_app/mcpworkspace/")
        shot(page, f"workspace-list-{way}")
        page.get_by_role("link", name="payments", exact=True).first.click()
        expect(page.locator("body")).to_contain_text("/w/payments/mcp")
        shot(page, f"workspace-page-{way}")
