"""The list of calls as an operator works with it: counts, views, columns, keys, times; by mouse and by keyboard."""

from __future__ import annotations

import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
pytestmark = pytest.mark.long

CALLS = "/admin/invocations/mcptoolinvocation/"
FOCUSED_ROW = "[...document.querySelectorAll('#result_list > tbody')].findIndex(row => row.matches(':focus-within'))"
SEED = """
from django.contrib.auth.models import User
from tests import factories as make
User.objects.create_superuser("operator", password="a long password")
session = make.McpSessionFactory(client_name="zed")
process = make.ServerProcessFactory()
more = dict(session=session, process=process, client_name="zed", caller_label="laptop")
for number in range(6):
    make.McpToolInvocationFactory(tool_name="echo", request_id=number, **more)
make.McpToolInvocationFactory(tool_name="add", failed=True, trace_id="trace-of-one", **more)
make.ErrorGroupFactory(tool_name="order")
"""


def rows(page: Any) -> Any:
    return page.locator("#result_list > tbody")


def is_fit(page: Any, name: str, ready: Any) -> None:
    """The page fits the window and shuts nobody out, in both themes; `ready` is on it once it is loaded."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.reload()
        expect(ready).to_be_visible()
        page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        told = page.evaluate("axe.run({resultTypes: ['violations']})")
        wrong = [
            f"{theme}: {each['id']}: {each['nodes'][0]['html'][:200]}"
            for each in told["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert wrong == []
        if os.environ.get("MCPHUB_SCREENSHOTS"):
            page.screenshot(path=Path(os.environ["MCPHUB_SCREENSHOTS"]) / f"lists-{name}-{theme}.png")


ROOM = """() => {
    const row = document.querySelector("#result_list > tbody tr").getBoundingClientRect()
    const end = document.querySelector("main > [class~='lg:sticky']").getBoundingClientRect().top
    const list = document.querySelector("#result_list")
    return [Math.floor((end - row.top) / row.height), list.scrollWidth <= list.parentElement.clientWidth]
}"""


def test_twenty_calls_fit_a_screen_each_in_one_line(page: Any) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(CALLS)
    expect(page.locator("#hub-histogram .hub-chart")).to_be_visible()
    expect(page.locator("#hub-facets")).to_contain_text("echo")
    calls, is_whole = page.evaluate(ROOM)
    assert (calls >= 20, is_whole) == (True, True), calls
    page.emulate_media(media="print")
    expect(page.locator("#nav-sidebar")).to_be_hidden()
    expect(rows(page).first).to_be_visible()
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1280, "height": 800})


def test_a_count_narrows_the_list_and_is_taken_out_again(page: Any) -> None:
    page.goto(CALLS)
    expect(rows(page)).to_have_count(7)
    page.get_by_text("Counts by value").click()
    tools = page.get_by_role("region", name="Tool")
    expect(tools.get_by_role("link", name=re.compile("^echo"))).to_contain_text("6")
    is_fit(page, "counts", page.get_by_role("button", name="Count again"))
    tools.get_by_role("link", name=re.compile("^add")).click()
    expect(rows(page)).to_have_count(1)
    assert "q=tool:add" in page.url
    chosen = page.locator("#hub-facets a[aria-current]")
    expect(chosen).to_contain_text("add")  # the panel stays open
    expect(chosen).to_be_visible()  # nothing hidden takes the focus
    chosen.focus()
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(7)
    tools.get_by_role("link", name="All but echo").click()
    expect(rows(page)).to_have_count(1)
    expect(page.locator("#searchbar")).to_have_value("-tool:echo")
    page.goto("/admin/")
    page.goto(CALLS)
    panel = page.locator("#hub-facets > summary")
    expect(page.get_by_role("button", name="Count again")).to_be_visible()
    panel.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Count again")).to_be_hidden()


def test_keys_and_values_are_completed_and_chips_take_them_out(page: Any) -> None:
    page.goto(CALLS)
    expect(rows(page)).to_have_count(7)
    box = page.get_by_role("combobox", name="Search")
    box.click()
    box.press_sequentially("stat")
    offered = page.get_by_role("listbox")
    expect(offered.get_by_role("option").first).to_have_accessible_name(re.compile("^status:"))
    box.press("ArrowDown")
    box.press("Enter")
    expect(box).to_have_value("status:")
    expect(offered.get_by_role("option", name=re.compile("status:error"))).to_be_visible()
    box.press("ArrowDown")
    box.press("ArrowDown")
    box.press("Enter")
    expect(box).to_have_value("status:error ")
    box.press("Enter")
    expect(rows(page)).to_have_count(1)
    box.fill("-tool:add time:24h")
    box.press("Enter")
    expect(rows(page)).to_have_count(6)
    is_fit(page, "search", page.locator("#hub-histogram canvas"))
    page.get_by_role("link", name="Remove tool is not add").click()
    expect(rows(page)).to_have_count(7)
    page.get_by_text("As a table").click()
    page.locator("#hub-histogram td a").last.click()
    page.wait_for_url(re.compile(r"q=time:[0-9T:-]+\.\."))
    expect(rows(page)).to_have_count(7)


def test_a_wrong_key_or_value_is_said_at_the_line_with_what_may_stand_there(page: Any) -> None:
    page.goto(f"{CALLS}?q=status:broken colour:red")
    box = page.get_by_role("combobox", name="Search")
    expect(box).to_have_attribute("aria-invalid", "true")
    problems = page.get_by_role("alert")
    expect(problems).to_contain_text("Accepted values: ok, error.")
    expect(problems).to_contain_text("Unknown key “colour”.")
    expect(rows(page)).to_have_count(0)
    is_fit(page, "search-problem", problems)


def test_errors_in_groups_are_resolved_and_lead_to_their_calls(page: Any) -> None:
    page.goto(CALLS)
    page.get_by_role("link", name="Errors", exact=True).click()
    group = rows(page).filter(has_text="order")  # beside what the hub groups by itself
    expect(group).to_have_count(1)
    is_fit(page, "errors", group)
    group.get_by_role("link").first.click()
    is_fit(page, "error", page.get_by_role("link", name="Resolve"))
    page.get_by_role("link", name="Resolve").click()
    page.get_by_role("button", name="Resolve").click()
    expect(page.locator("#errorgroup_form")).to_contain_text("Resolved")
    page.get_by_role("link", name="Calls of this tool with this error code").click()
    expect(page.get_by_role("combobox", name="Search")).to_have_value("tool:order code:execution_error")


def test_a_call_tells_its_steps_and_its_json_is_searched_and_folded(page: Any) -> None:
    page.goto(f"{CALLS}?q=status:error")
    rows(page).first.get_by_role("link").first.click()
    is_fit(page, "call", page.get_by_role("heading", name=re.compile("^Steps")))
    error = page.get_by_role("group", name="Error", exact=True)
    error.get_by_label("Search within Error").fill("message")
    expect(error.locator(".hub-tree-here")).to_be_visible()
    error.get_by_role("button", name="Collapse all", exact=True).click()
    expect(error.locator(".hub-tree-key").first).to_be_hidden()
    error.get_by_role("button", name="Expand all").click()
    expect(error.locator(".hub-tree-key").first).to_be_visible()


def test_columns_are_chosen_and_a_view_is_saved_renamed_and_deleted(page: Any) -> None:
    page.goto(f"{CALLS}?status__exact=error")
    expect(rows(page)).to_have_count(1)
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("checkbox", name="Duration").uncheck()
    page.get_by_role("checkbox", name="Size").check()
    page.get_by_role("button", name="Apply").click()
    heads = page.locator("#result_list thead")
    expect(heads).to_contain_text("Size")
    expect(heads).not_to_contain_text("Duration")
    summary = page.locator("summary", has_text="Save view")
    expect(summary).to_be_visible()  # nothing hidden takes the focus
    summary.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("Failures")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    view = page.get_by_role("navigation", name="Saved views").get_by_role("link", name="Failures")
    expect(view).to_have_attribute("aria-current", "page")
    is_fit(page, "views", view)
    page.goto(CALLS)
    expect(rows(page)).to_have_count(7)
    expect(heads).to_contain_text("Size")  # remembered
    view.click()
    expect(rows(page)).to_have_count(1)
    page.locator("summary", has_text="Change view").click()
    page.locator("details[open] [name=name]").fill("What failed")
    page.get_by_role("button", name="Rename").click()
    views = page.get_by_role("navigation", name="Saved views")
    expect(views.get_by_role("link", name="What failed")).to_be_visible()  # both pages have the next control
    page.locator("summary", has_text="Change view").click()
    page.get_by_role("link", name="Delete …").click()
    expect(page.get_by_text("What failed").first).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    expect(views).to_have_count(0)
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("button", name="Reset to default").click()
    expect(heads).to_contain_text("Duration")


def _focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.closest('#result_list > tbody')?.innerText ?? ''"))


def test_keys_lead_through_rows_and_screens_and_rest_while_something_is_written(page: Any) -> None:
    page.goto(CALLS)
    expect(rows(page)).to_have_count(7)
    page.keyboard.press("j")
    assert "add" in _focused(page)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    here = page.evaluate(
        "[...document.querySelectorAll('#result_list > tbody')].indexOf(document.activeElement.closest('tbody'))"
    )
    assert here == 1
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("k")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/mcptoolinvocation/\d+/change/"))
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url(re.compile("/sessions_app/mcpsession/$"))
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.wait_for_url(re.compile("/invocations/mcptoolinvocation/$"))
    page.keyboard.press("/")
    box = page.locator("#searchbar")
    expect(box).to_be_focused()
    page.keyboard.type("jgi?")
    expect(box).to_have_value("jgi?")
    expect(page.locator("#hub-keys")).to_be_hidden()
    expect(page).to_have_url(re.compile("/invocations/mcptoolinvocation/$"))


def test_the_list_of_keys_is_shown_and_closed(page: Any) -> None:
    page.goto(CALLS)
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard")
    expect(keys).to_be_visible()
    page.keyboard.press("j")
    assert _focused(page) == ""
    expect(keys.get_by_role("link", name="Connections", exact=True)).to_be_visible()
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    told = page.evaluate("axe.run('#hub-keys', {resultTypes: ['violations']})")
    assert [each["id"] for each in told["violations"] if each["impact"] in ("serious", "critical")] == []
    if os.environ.get("MCPHUB_SCREENSHOTS"):
        page.screenshot(path=Path(os.environ["MCPHUB_SCREENSHOTS"]) / "lists-keys.png")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    page.get_by_role("button", name=re.compile("operator")).click()
    page.locator("a[href='#hub-keys']").click()
    keys.get_by_role("button", name="Close").click()
    expect(keys).to_be_hidden()
    page.goto("/admin/")
    page.keyboard.press("?")
    keys.get_by_role("link", name="API keys", exact=True).click()
    expect(page).to_have_url(re.compile("/sessions_app/apikey/$"))


def test_times_are_told_as_their_reader_wants_them(page: Any) -> None:
    page.goto(CALLS)
    times = page.get_by_role("group", name="Times")
    shown = page.locator("#result_list time").first
    expect(times.get_by_role("radio", name="UTC", exact=True)).to_be_checked()
    moment = shown.get_attribute("datetime")
    expect(shown).to_contain_text(moment[11:19])
    times.get_by_text("Relative").click()
    expect(shown).to_have_text(re.compile(r"\d+\s+(second|minute)s? ago|now"))
    expect(shown).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\dT"))
    is_fit(page, "times", times)
    expect(shown).to_have_text(re.compile(r"ago|now"))  # remembered
    times.get_by_role("radio", name="Relative").focus()
    page.keyboard.press("ArrowLeft")
    expect(times.get_by_role("radio", name="Local")).to_be_checked()
    local = page.evaluate("moment => new Date(moment).toTimeString().slice(0, 8)", moment)
    expect(shown).to_contain_text(local)
    page.goto("/admin/sessions_app/mcpsession/")
    expect(page.get_by_role("radio", name="Local")).to_be_checked()
    page.get_by_role("group", name="Times").locator("label").first.click()
    expect(page.locator("#result_list time").first).to_contain_text("UTC")


def test_an_id_that_one_call_has_leads_to_its_page(page: Any) -> None:
    for written in ("trace-of-one", "3"):
        page.goto(CALLS)
        page.keyboard.press("/")
        page.keyboard.type(written)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(r"/mcptoolinvocation/\d+/change/"))
