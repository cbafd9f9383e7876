"""The admin in a real browser, against a real server: what an operator does on the first day.

Every page is also watched for requests that leave the machine, for script errors and for dialogs.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.browser.operating import open_parts, open_tool

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

SEED = """
from django.contrib.auth.models import User
from tools_catalog.backends import python
from tools_catalog.models import McpToolDefinition
User.objects.create_superuser("operator", password="a long password")
python.discover(["starter"])
for name in ("echo", "add"):
    told = python.definition(f"tools_catalog.packs.starter.tools:{name}")
    McpToolDefinition.objects.filter(name=name).exists() or McpToolDefinition.objects.create(
        name=name, title=told["title"], description=told["description"] + " <script>alert(1)</script>",
        input_schema=told["inputSchema"], output_schema=told.get("outputSchema", {}), backend="python",
        configuration=told["configuration"], read_only=True, destructive=False,
    )
"""


def test_a_tool_is_tried_and_its_call_read(page: Any) -> None:
    open_tool(page, "echo")
    page.get_by_role("link", name="Try it").click()
    page.get_by_label("text").fill("<img src=x onerror=alert(1)> hello")
    page.get_by_role("button", name="Call", exact=True).click()
    answer = page.get_by_role("status")
    expect(answer).to_contain_text("OK")
    expect(answer).to_contain_text("<img src=x onerror=alert(1)> hello")
    page.get_by_role("link", name="See the recorded call").click()
    expect(page.locator("body")).to_contain_text("Admin")
    expect(page.locator(".hub-json").first).to_contain_text("<img src=x onerror=alert(1)> hello")


def test_a_failed_call_says_why(page: Any) -> None:
    open_tool(page, "add")
    page.get_by_role("link", name="Try it").click()
    fields = page.locator("form.hub-card input:not([type=hidden])")
    expect(fields).to_have_count(2)  # `all` takes those that are there at once
    for field in fields.all():
        field.fill("1")
    page.get_by_role("button", name="Call", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("2")


def test_the_schema_editor_keeps_the_text_and_errors_stand_beside_it(page: Any) -> None:
    open_tool(page, "echo")
    open_parts(page)
    editor = page.locator(".hub-json-mount .cm-content").first
    editor.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text('{"type": "object", "properties": {"z": {}, "10": {}, "text": {"type": "string"}}, oops')
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text(re.compile("Correct the JSON"))).to_be_visible()
    editor = page.locator(".hub-json-mount .cm-content").first
    expect(editor).to_contain_text("oops")
    editor.click()
    page.keyboard.press("Control+A")
    schema = '{"type": "object", "properties": {"z": {}, "10": {}, "text": {"type": "string"}}}'
    page.keyboard.insert_text(schema)
    page.locator("#id_change_reason").fill("wider")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text(re.compile("was changed successfully"))).to_be_visible()
    assert json.dumps(json.loads(page.locator("#id_input_schema").input_value())) == schema


def test_versions_differ_side_by_side_and_one_is_restored(page: Any) -> None:
    open_tool(page, "add")
    open_parts(page)
    page.locator("#id_description").fill("Adds, but with other words.")
    page.locator("#id_change_reason").fill("shorter")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text(re.compile("was changed successfully"))).to_be_visible()  # both pages have the next link
    page.get_by_role("link", name="Versions").click()
    expect(page.get_by_role("cell", name="shorter")).to_be_visible()
    page.get_by_role("link", name="with the current").first.click()
    expect(page.locator(".hub-added")).to_contain_text("Adds, but with other words.")
    expect(page.locator(".hub-removed")).to_contain_text("<script>")
    page.get_by_role("link", name="Restore this version").click()
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_text("is current again")).to_be_visible()


def test_a_tool_is_disabled_after_a_question(page: Any) -> None:
    page.goto("/admin/tools_catalog/mcptooldefinition/")
    page.get_by_role("row", name=re.compile("add")).get_by_role("checkbox").check()
    page.locator("select[name=action]").select_option("disable_selected")
    page.locator(".changelist-actions button[type=submit]").first.click()
    expect(page.get_by_text("Disable 1 tool?").first).to_be_visible()
    page.get_by_label("Reason for this change").fill("Friday")
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_text("1 tool disabled: add.")).to_be_visible()


def test_a_key_is_shown_once_with_client_configurations(page: Any) -> None:
    page.goto("/admin/sessions_app/apikey/add/")
    page.locator("#id_name").fill("laptop")
    page.get_by_role("button", name="Save", exact=True).click()
    key = page.locator("#hub-key").inner_text()
    assert key.startswith("mcph_")
    expect(page.get_by_text("VS Code").first).to_be_visible()
    page.get_by_role("link", name="I copied the key").click()
    expect(page.get_by_role("link", name="I copied the key")).to_have_count(0)
    page.wait_for_load_state()
    assert key not in page.content()


@pytest.mark.parametrize("width", [1024, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_fit_and_show_where_the_focus_is(width: int, theme: str, page: Any) -> None:
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    for place in ("", "invocations/mcptoolinvocation/", "tools_catalog/mcptooldefinition/", "auth/user/1/change/"):
        page.goto(f"/admin/{place}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, place
    open_tool(page, "echo")
    open_parts(page)
    page.locator("#id_destructive").focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def _call_echo(context: Any, text: str) -> None:
    other = context.new_page()
    open_tool(other, "echo")
    other.get_by_role("link", name="Try it").click()
    other.get_by_label("text").fill(text)
    other.get_by_role("button", name="Call", exact=True).click()
    expect(other.get_by_role("status")).to_contain_text("OK")
    other.close()


def test_the_list_of_calls_is_followed_live_and_pauses_under_the_pointer(page: Any) -> None:
    _call_echo(page.context, "before")
    page.goto("/admin/invocations/mcptoolinvocation/")
    page.get_by_role("button", name="Live view").click()
    state = page.locator("[data-live=state]")
    expect(state).to_contain_text("Live")
    rows = page.locator("#result_list > tbody")
    shown = rows.count()
    _call_echo(page.context, "while it is followed")
    expect(rows).to_have_count(shown + 1)
    page.bring_to_front()
    rows.first.hover()
    expect(state).to_contain_text("Paused while the pointer is on the list")
    _call_echo(page.context, "while it is paused")
    expect(page.get_by_role("button", name="Show 1 new")).to_be_visible()
    expect(rows).to_have_count(shown + 1)
    page.bring_to_front()
    page.mouse.move(5, 5)
    expect(rows).to_have_count(shown + 2)
    page.get_by_role("button", name="Stop live view").click()
    expect(state).to_be_hidden()
