"""The map of the console and its palette, by the keyboard alone: past the side bar, to the main action, to anything."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from tests.browser.conftest import watched
from tests.browser.operating import lists_on_the_map

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
pytestmark = pytest.mark.long

SEED = """
from django.contrib.auth.models import User
from tests import factories as make
from tests.rigs import seeding
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.models import McpToolDefinition

User.objects.create_superuser("operator", password="a long password")
make.McpToolDefinitionFactory(name="find_book", title="<b>Find</b> a book")
offer(make.McpConnectionFactory(slug="tracker", url="http://127.0.0.1:9/mcp"), definition("x"))
process, session = make.ServerProcessFactory(), make.McpSessionFactory()
make.McpToolInvocationFactory(session=session, process=process, tool_name="find_book")
seeding.seal()
"""
MOST_STOPS = 15
"""Of Tab from the top of a page to what the page is for."""
LISTS = "tools_catalog/mcptooldefinition/", "sessions_app/apikey/", "tools_catalog/mcpconnection/", "auth/user/"
SERIOUS = ("serious", "critical")


@pytest.fixture(params=["en", "ru"])
def reader(request: pytest.FixtureRequest, chromium: Any, address: str, logged_in: Any) -> Iterator[Any]:
    with watched(chromium, address, storage_state=logged_in, locale=request.param) as page:
        yield page


def stops_to(page: Any, control: Any, skip: int = 1) -> int:
    """Return how often Tab is pressed from the top of the page, by way of the first or the second link that skips."""
    expect(control).to_be_visible()
    page.wait_for_load_state()  # no page hears keys before
    page.locator(".hub-skip").nth(skip - 1).focus()
    page.keyboard.press("Enter")
    for stops in range(skip + 1, MOST_STOPS + 1):
        page.keyboard.press("Tab")
        if control.evaluate("control => control === document.activeElement"):
            return stops
    raise AssertionError(f"more than {MOST_STOPS} stops to {control}")


def test_the_first_stop_of_a_page_leads_past_the_side_bar(page: Any) -> None:
    page.goto("/admin/tools_catalog/mcptooldefinition/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to main content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    expect(page).to_have_url(re.compile("mcptooldefinition/$"))


@pytest.mark.parametrize("where", LISTS)
def test_from_the_top_of_a_list_a_new_row_is_few_stops_away(page: Any, where: str) -> None:
    page.goto(f"/admin/{where}")
    stops_to(page, page.locator(f"#main a[href*='{where}add/']").first)


@pytest.mark.parametrize(
    ("where", "action"), [("mcptooldefinition", "Try it"), ("mcpconnection", "Test"), ("mcpupstreamtool", "Approve")]
)
def test_from_the_top_of_a_row_its_main_action_is_few_stops_away(page: Any, where: str, action: str) -> None:
    page.goto(f"/admin/tools_catalog/{where}/?q={'find_book' if where == 'mcptooldefinition' else ''}")
    page.locator("#result_list tbody a[href*='/change/']").first.click()
    stops_to(page, page.locator("#main").get_by_role("link", name=action, exact=True))


def test_from_the_top_of_every_list_its_main_action_is_few_stops_away(page: Any) -> None:
    """The link that adds a row, else the first row, else the search."""
    told = {}
    for where in lists_on_the_map(page):
        page.goto(where)
        if not page.locator("#changelist").count():
            continue
        adds = page.locator(f"#main a[href^='{where}add/']")
        rows, search = page.locator("#result_list tbody a"), page.locator("#searchbar")
        if adds.count():
            told[where] = stops_to(page, adds.first, 1)
        elif rows.count() or search.count():
            told[where] = stops_to(page, (rows if rows.count() else search).first, 2)
    assert len(told) > 30
    assert statistics.median(told.values()) <= 8, told


def test_the_tabs_of_each_area_fit_one_row(reader: Any) -> None:
    reader.goto("/admin/")
    tall = {}
    for area in reader.evaluate("[...document.querySelectorAll('#nav-sidebar ol a')].map((link) => link.pathname)"):
        reader.goto(area)
        if (tabs := reader.locator(".hub-tabs")).count():
            tall[area] = tabs.evaluate("tabs => tabs.offsetHeight")
    assert max(tall.values()) < 1.5 * min(tall.values()), tall


def test_crumbs_side_bar_and_tabs_agree(page: Any) -> None:
    page.goto("/admin/")
    side = page.locator("#nav-sidebar")
    expect(side.locator("ol > li > a")).to_have_count(10)
    side.get_by_role("link", name="Access").click()
    tabs = page.get_by_role("navigation", name="Pages of Access")
    tabs.get_by_role("link", name="Groups").click()
    expect(tabs.get_by_role("link", name="Groups")).to_have_attribute("aria-current", "page")
    expect(page.locator(".hub-crumbs")).to_have_text(re.compile(r"Access\s*chevron_right\s*Groups"))
    expect(side.locator("a.active")).to_have_text(re.compile("Access"))


def test_filters_theme_and_the_way_out_are_reached_without_a_mouse(page: Any) -> None:
    page.goto("/admin/sessions_app/apikey/")
    filters = page.get_by_role("button", name="Filters").first
    filters.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Apply Filters").first).to_be_visible()
    page.goto("/admin/")
    page.get_by_role("button", name=re.compile("operator")).focus()
    page.keyboard.press("Enter")
    for name in ("Dark", "Log out"):
        expect(page.get_by_role("button", name=re.compile(name))).to_be_visible()
    expect(page.get_by_role("link", name="My access")).to_be_visible()


def test_the_palette_finds_a_tool_by_the_keyboard_alone(page: Any) -> None:
    page.goto("/admin/")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    expect(page.get_by_role("option", name=re.compile("API keys"))).to_be_visible()
    page.keyboard.insert_text("find_b")
    tool = page.get_by_role("option", name=re.compile("find_book"))
    expect(tool).to_have_attribute("aria-selected", "true")
    assert field.get_attribute("aria-activedescendant") == tool.get_attribute("id")
    expect(tool).to_contain_text("<b>Find</b> a book")
    page.keyboard.press("ArrowDown")
    expect(tool).to_have_attribute("aria-selected", "false")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/mcptooldefinition/\d+/change/"))


def test_the_palette_leads_to_pages_and_deeds_and_closes_with_escape(page: Any) -> None:
    page.goto("/admin/tools_catalog/mcptooldefinition/")
    page.get_by_role("button", name=re.compile("Search")).first.click()
    page.keyboard.insert_text("qxzv wvzq")
    expect(page.locator("[data-palette-said]")).to_have_text("Nothing found")
    page.keyboard.press("Escape")
    expect(page.locator("#hub-palette")).to_be_hidden()
    page.keyboard.press("Control+k")
    page.keyboard.insert_text("invite")
    expect(page.get_by_role("option", name=re.compile("Invite someone"))).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/login/invitation/add/"))
    page.wait_for_load_state("domcontentloaded")  # no page hears keys before
    page.keyboard.press("Control+k")
    page.keyboard.insert_text("keyboard")
    page.keyboard.press("Enter")  # what is shown may still be for other words; Enter means these
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_read_the_map_and_the_palette(reader: Any, theme: str) -> None:
    axe = (files("axe_playwright_python") / "axe.min.js").read_text()
    reader.emulate_media(color_scheme=theme)
    reader.goto("/admin/sessions_app/apikey/")
    reader.keyboard.press("Control+k")
    reader.get_by_role("option").first.wait_for()
    reader.evaluate(axe)
    told = reader.evaluate("axe.run({resultTypes: ['violations']})")
    wrong = [
        f"{each['id']}: {each['nodes'][0]['html'][:150]}" for each in told["violations"] if each["impact"] in SERIOUS
    ]
    assert wrong == []


@pytest.mark.parametrize("where", ["", "connect/", "invocations/mcpapproval/", "tools_catalog/mcpupstreamtool/"])
def test_overview_inbox_and_connect_fit_a_telephone(reader: Any, where: str) -> None:
    reader.set_viewport_size({"width": 390, "height": 844})
    reader.goto(f"/admin/{where}")
    expect(reader.locator("#main h1")).to_be_visible()
    assert reader.evaluate("document.documentElement.scrollWidth") <= 390
    expect(reader.locator("#main [data-palette-open]")).to_be_visible()


def test_the_overview_refreshes_by_itself_unless_somebody_stops_it(page: Any) -> None:
    page.goto("/admin/")
    button = page.get_by_role("button", name="Don’t refresh")
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    page.reload()
    expect(page.get_by_role("button", name="Refresh automatically")).to_have_attribute("aria-pressed", "false")
    page.get_by_role("button", name="Refresh automatically").click()
    page.clock.install()
    page.reload()
    page.evaluate("document.getElementById('hub-overview').append('what stood here before')")
    with page.expect_response(
        lambda answer: answer.url.endswith("/admin/") and answer.request.resource_type == "fetch"
    ):
        page.clock.fast_forward(31_000)
    expect(page.locator("#hub-overview")).not_to_contain_text("what stood here before")
    expect(page.get_by_role("heading", name="All systems normal")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_read_the_overview(reader: Any, theme: str) -> None:
    reader.emulate_media(color_scheme=theme)
    reader.goto("/admin/")
    reader.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    told = reader.evaluate("axe.run({resultTypes: ['violations']})")
    wrong = [
        f"{each['id']}: {each['nodes'][0]['html'][:150]}" for each in told["violations"] if each["impact"] in SERIOUS
    ]
    assert wrong == []


def test_what_cannot_be_shown_is_said_within_the_console(page: Any) -> None:
    page.goto("/admin/no-such-page/")
    expect(page.get_by_role("heading", name="Page not found").last).to_be_visible()
    page.locator("#nav-sidebar").get_by_role("link", name="Calls").click()
    expect(page).to_have_url(re.compile("/invocations/mcptoolinvocation/"))
