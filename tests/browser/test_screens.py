"""The main task of each screen, done twice: by mouse, and by the keyboard alone, from the top of the page by Tab."""

from __future__ import annotations

import re
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

SEED = """
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from mcphub.features.approvals.models import McpApproval
from mcphub.features.chat.models import ChatModel, ChatProvider
from sessions_app.models import RateLimitBucket
from tests import factories as make
from tests.rigs import seeding
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.backends import python
from tools_catalog.models import McpToolDefinition

now = timezone.now()
User.objects.create_superuser("operator", password="a long password")
python.discover(["starter"])
told = python.definition("tools_catalog.packs.starter.tools:echo")
McpToolDefinition.objects.filter(name="echo").exists() or McpToolDefinition.objects.create(
    name="echo", title=told["title"], description=told["description"], input_schema=told["inputSchema"],
    output_schema=told.get("outputSchema", {}), backend="python", configuration=told["configuration"], read_only=True,
    destructive=False,
)
connection = make.McpConnectionFactory(slug="tracker", policy="hold_all", url="http://127.0.0.1:9/mcp")
provider = ChatProvider(slug="model-house", kind="openai", base_url="https://127.0.0.1:9/v1")
provider.set_secret("a key")
provider.save()
ChatModel.objects.create(provider=provider, name="large")
process, session = make.ServerProcessFactory(), make.McpSessionFactory()
app = make.ApiKeyFactory(name="an app", owner=User.objects.create_user("developer"))
for way in ("mouse", "keyboard"):
    offer(connection, *(definition(f"find_by_{each}") for each in ("mouse", "keyboard")))
    make.McpSessionFactory(session_id=f"{way}_session_to_be_killed", client_name=way, principal="key:900")
    make.McpToolInvocationFactory(session=session, process=process, tool_name=f"tool_of_{way}", failed=True)
    RateLimitBucket.objects.create(
        client_id=f"key:{way}", tokens=0, capacity=10, refill_per_second=0.001, last_refill=now, last_request=now,
        request_count=1,
    )
    McpApproval.objects.create(
        id=f"mcpr_{way}", principal=f"key:{app.pk}", caller_label="an app", turn_id="t", call_id=way,
        tool_name=f"drop_by_{way}", tool_version="1", arguments={"id": way}, binding="0" * 64, created_at=now,
        expires_at=now + timedelta(hours=1),
    )
seeding.seal()
"""
MOST_STOPS = 250
"""Of Tab on a page."""


class Hand:
    """An operator who has a mouse, or none."""

    def __init__(self, page: Any, way: str) -> None:
        self.page = page
        self.way = way

    def use(self, control: Any) -> None:
        """Press a button, follow a link, switch a box."""
        self.page.wait_for_load_state()  # scripts hear nothing before
        if self.way == "mouse":
            control.click()
            return
        self._reach(control)
        is_box = control.evaluate("control => ['checkbox', 'radio'].includes(control.type)")
        self.page.keyboard.press("Space" if is_box else "Enter")

    def write(self, field: Any, words: str) -> None:
        self.page.wait_for_load_state()
        if self.way == "mouse":
            field.click()
        else:
            self._reach(field)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(words)

    def choose(self, field: Any, option: str) -> None:
        if self.way == "mouse":
            field.select_option(label=option)
            return
        self._reach(field)
        self.page.keyboard.type(option)

    def button(self, name: str) -> None:
        self.use(self.page.get_by_role("button", name=name, exact=True))

    def link(self, name: str) -> None:
        self.use(self.page.get_by_role("link", name=name, exact=True))

    def of_row(self, row: Any, name: str) -> None:
        """Follow a link of a row that is one stop: Tab leads to it, arrows through it."""
        self.page.wait_for_load_state()
        link = row.and_(self.page.get_by_role("link", name=name, exact=True))
        if self.way == "keyboard":
            self._reach(row.and_(self.page.locator("[tabindex='0']")))
            for _ in range(row.count()):
                if link.evaluate("link => link === document.activeElement"):
                    break
                self.page.keyboard.press("ArrowRight")
        self.use(link)

    def _reach(self, control: Any) -> None:
        expect(control).to_be_visible()
        for _ in range(MOST_STOPS):
            if control.evaluate("control => control === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not lead to {control}")


@pytest.fixture(params=["mouse", pytest.param("keyboard", marks=pytest.mark.long)])
def hand(request: pytest.FixtureRequest, page: Any) -> Hand:
    return Hand(page, request.param)


def rows(page: Any) -> Any:
    return page.locator("#result_list tbody tr")


def test_a_figure_of_the_overview_leads_to_its_calls(hand: Hand) -> None:
    page = hand.page
    page.goto("/admin/")
    hand.use(page.locator("a.hub-tile", has_text="Errors"))
    expect(page).to_have_url(re.compile("/invocations/mcptoolinvocation/.*status__exact=error"))
    expect(rows(page).filter(has_text="tool_of_")).to_have_count(2)


def test_no_row_moves_while_the_chart_above_it_loads(page: Any) -> None:
    held: list[Any] = []
    page.route("**/histogram/*", lambda route: held.append(route))
    page.goto("/admin/invocations/mcptoolinvocation/", wait_until="domcontentloaded")
    expect(page.locator("#hub-histogram")).to_be_attached()
    page.wait_for_function("document.readyState === 'complete'")
    before = rows(page).first.bounding_box()
    for route in held:
        route.continue_()
    expect(page.locator("#hub-histogram .hub-chart")).to_be_visible()
    assert held
    assert rows(page).first.bounding_box() == before


def test_a_call_is_found_and_read(hand: Hand) -> None:
    page = hand.page
    page.goto("/admin/invocations/mcptoolinvocation/")
    hand.use(page.locator("#nav-sidebar").get_by_role("link", name="Overview"))
    expect(page).to_have_url(re.compile("/admin/$"))  # else the next control is that of the page that is left
    hand.use(page.locator("#nav-sidebar").get_by_role("link", name="Calls"))
    expect(page).to_have_url(re.compile("/invocations/mcptoolinvocation/"))
    hand.use(rows(page).first.get_by_role("link").first)
    expect(page.locator("body")).to_contain_text("Steps")
    expect(page.get_by_role("navigation", name="Earlier and later calls")).to_be_visible()
    hand.write(page.get_by_label("Search within Arguments"), "text")
    expect(page.get_by_role("group", name="Arguments", exact=True).get_by_role("status")).not_to_be_empty()


def test_a_tool_is_tried(hand: Hand) -> None:
    page = hand.page
    page.goto("/admin/tools_catalog/mcptooldefinition/?q=echo")
    hand.use(page.locator("#result_list").get_by_role("link", name="echo", exact=True))
    hand.link("Try it")
    hand.write(page.get_by_label("text"), f"by {hand.way}")
    hand.button("Call")
    expect(page.get_by_role("status")).to_contain_text(f"by {hand.way}")


def test_a_connection_is_tested_step_by_step(hand: Hand) -> None:
    page = hand.page
    page.goto("/admin/tools_catalog/mcpconnection/")
    hand.use(page.locator("#result_list").get_by_role("link", name="tracker", exact=True))
    hand.link("Test")
    hand.button("Test")
    steps = page.get_by_label("Steps")
    expect(steps).to_contain_text("127.0.0.1")
    expect(steps).to_contain_text("MCPHUB_EGRESS_ALLOW")


def test_what_an_upstream_offers_is_approved(hand: Hand) -> None:
    page = hand.page
    page.goto(f"/admin/tools_catalog/mcpupstreamtool/?q=find_by_{hand.way}")
    hand.use(rows(page).first.locator("a[href*='/change/']").first)
    hand.link("Approve")
    hand.button("Approve")
    expect(page.get_by_text("1 definition approved.")).to_be_visible()
    page.goto(f"/admin/tools_catalog/mcptooldefinition/?q=find_by_{hand.way}")
    expect(rows(page)).to_have_count(1)


def test_a_key_is_made_and_revoked(hand: Hand) -> None:
    page = hand.page
    page.goto("/admin/sessions_app/apikey/add/")
    hand.write(page.locator("#id_name"), f"laptop of {hand.way}")
    hand.button("Save")
    expect(page.locator("#hub-key")).to_contain_text("mcph_")
    hand.link("I copied the key")
    page.goto(f"/admin/sessions_app/apikey/?q=laptop of {hand.way}")
    hand.use(rows(page).first.get_by_role("link").first)
    hand.link("Revoke")
    hand.write(page.locator("#hub-typed"), f"laptop of {hand.way}")
    hand.button("Revoke the key")
    expect(page.locator("#hub-typed")).to_be_hidden()
    page.goto(f"/admin/sessions_app/apikey/?q=laptop of {hand.way}")
    expect(rows(page).first).to_contain_text("Revoked")


def test_a_session_is_killed(hand: Hand) -> None:
    page = hand.page
    page.goto(f"/admin/sessions_app/mcpsession/?q={hand.way}_session_to_be_killed")
    hand.use(rows(page).first.get_by_role("link").first)
    hand.link("End session")
    hand.write(page.locator("#hub-typed"), f"{hand.way}_session_to_be_killed"[:8])
    hand.button("End session")
    expect(page.locator("body")).to_contain_text("Closed")


def test_a_provider_is_tested_step_by_step(hand: Hand) -> None:
    page = hand.page
    page.goto("/admin/chat/chatprovider/")
    hand.use(page.locator("#result_list").get_by_role("link", name="model-house", exact=True))
    hand.link("Test")
    hand.button("Test")
    expect(page.get_by_label("Steps")).to_contain_text("127.0.0.1")


def test_an_empty_bucket_is_filled(hand: Hand) -> None:
    page = hand.page
    page.goto("/admin/sessions_app/ratelimitbucket/")
    bucket = rows(page).filter(has_text=f"key:{hand.way}")
    expect(bucket).to_contain_text("0")
    hand.use(bucket.get_by_role("checkbox"))
    hand.choose(page.locator("select[name=action]"), "Refill the selected rate limits")
    hand.button("Run")
    hand.button("Refill")
    expect(page.locator("#hub-outcome tbody tr")).to_contain_text(f"key:{hand.way}")
    hand.link("Back to the list")
    expect(rows(page).filter(has_text=f"key:{hand.way}")).to_contain_text("10.0")


def test_a_call_of_a_model_is_approved(hand: Hand) -> None:
    page = hand.page
    page.goto("/admin/invocations/mcpapproval/?state=pending")
    hand.use(rows(page).filter(has_text=f"drop_by_{hand.way}").get_by_role("link").first)
    expect(page.locator("body")).to_contain_text(f'"id": "{hand.way}"')
    hand.link("Approve")
    hand.button("Approve")
    expect(page.locator("body")).to_contain_text("Approved")


def test_an_error_is_worded_anew(hand: Hand) -> None:
    page = hand.page
    page.goto("/admin/invocations/mcperrormapping/?q=tool_not_found")
    hand.use(rows(page).first.get_by_role("link").first)
    hand.write(page.get_by_label("Message template"), f"No {{tool}} for a {hand.way}. {{message}}")
    expect(page.locator("#hub-preview")).to_contain_text(f"for a {hand.way}")
    hand.button("Save")
    expect(page.get_by_text(re.compile("was changed successfully"))).to_be_visible()


def test_a_change_is_read_and_the_audit_verified(hand: Hand) -> None:
    page = hand.page
    page.goto("/admin/tools_catalog/mcptooldefinition/?q=echo")
    hand.use(page.locator("#result_list").get_by_role("link", name="echo", exact=True))
    hand.use(page.locator(".hub-part > summary", has_text="What models read"))
    hand.write(page.locator("#id_title"), f"Echo by {hand.way}")
    hand.button("Save")
    expect(page.get_by_text(re.compile("was changed successfully"))).to_be_visible()
    page.goto("/admin/sessions_app/auditevent/")
    hand.use(rows(page).first.get_by_role("link").first)
    expect(page.locator(".hub-added").first).to_contain_text(f"Echo by {hand.way}")
    page.goto("/admin/invocations/auditblock/")
    hand.link("Integrity")
    hand.button("Verify the newest blocks")
    expect(page.get_by_role("status")).to_contain_text("are unchanged")


def test_a_client_is_connected(hand: Hand) -> None:
    page = hand.page
    page.goto("/admin/connect/")
    hand.of_row(page.locator("a[data-client]"), "Cursor")
    hand.write(page.get_by_label("Key name (who or what will use it)"), f"Cursor by {hand.way}")
    hand.button("Create key")
    expect(page.locator("[data-snippet=cursor] pre")).to_contain_text("Bearer mcph_")
