"""What an operator does with many tools and with their errors, by mouse and by keyboard, against a real server."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.servers import until
from tests.wire.speech import Speaker

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

SEED = """
from django.contrib.auth.models import User
from tests import factories as make
from tools_catalog.backends import python
from tools_catalog.models import McpToolDefinition
User.objects.create_superuser("operator", password="a long password")
python.discover(["starter"])
for name in ("echo", "add"):
    told = python.definition(f"tools_catalog.packs.starter.tools:{name}")
    McpToolDefinition.objects.filter(name=name).exists() or McpToolDefinition.objects.create(
        name=name, title=told["title"], description=told["description"], input_schema=told["inputSchema"],
        backend="python", configuration=told["configuration"], read_only=True, destructive=False,
    )
session, process = make.McpSessionFactory(), make.ServerProcessFactory()
for _ in range(3):
    make.McpToolInvocationFactory(session=session, process=process, caller_label="laptop <b>", principal="key:99")
"""
TOOLS = "/admin/tools_catalog/mcptooldefinition/"
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()


def look(page: Any, name: str) -> None:
    """Fail where the page shuts somebody out, in either theme; keep a picture where MCPHUB_SCREENSHOTS says so."""
    page.wait_for_load_state()
    for theme in ("light", "dark"):
        page.evaluate("dark => document.documentElement.classList.toggle('dark', dark)", theme == "dark")
        page.evaluate(AXE)
        told = page.evaluate("axe.run({resultTypes: ['violations']})")
        serious = [each for each in told["violations"] if each["impact"] in ("serious", "critical")]
        assert [(each["id"], each["nodes"][0]["html"][:150]) for each in serious] == [], (name, theme)
        if pictures := os.environ.get("MCPHUB_SCREENSHOTS"):
            page.screenshot(path=Path(pictures) / f"{name}-{theme}.png", full_page=True)
    page.evaluate("document.documentElement.classList.remove('dark')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def press(page: Any, name: str, role: str = "button") -> None:
    """Use a control by the keyboard."""
    control = page.get_by_role(role, name=name, exact=True)
    control.focus()
    page.keyboard.press("Enter")


def make_key(page: Any) -> str:
    page.goto("/admin/sessions_app/apikey/add/")
    page.locator("#id_name").fill("caller")
    page.get_by_role("button", name="Save", exact=True).click()
    return str(page.locator("#hub-key").inner_text())


def test_a_tool_is_switched_in_the_list_by_the_keyboard(page: Any) -> None:
    page.goto(TOOLS)
    row = page.locator("#result_list tbody tr").filter(has_text="echo")
    expect(row.get_by_role("link", name="3 calls of echo")).to_be_visible()
    look(page, "tools")
    press(page, "Enabled: echo", "switch")
    expect(page.get_by_text("Called in the last 7 days by laptop <b> (key:99): 3.")).to_be_visible()
    look(page, "tool-disable")
    page.get_by_label("Reason for this change").fill("Friday")
    press(page, "Disable")
    page.wait_for_url(re.compile(r"#switch-\d+$"))
    expect(page.get_by_role("switch", name="Disabled: echo")).to_have_attribute("aria-checked", "false")
    press(page, "Disabled: echo", "switch")
    expect(page.get_by_role("switch", name="Enabled: echo")).to_be_visible()
    page.locator("#result_list").get_by_role("link", name="echo", exact=True).click()
    page.get_by_role("link", name="All changes").click()
    expect(page.get_by_text("Friday")).to_be_visible()


def test_marked_tools_get_limits_and_each_is_told_of(page: Any) -> None:
    page.goto(TOOLS)
    for name in ("echo", "add"):
        page.locator("#result_list tbody tr").filter(has=page.get_by_role("link", name=name, exact=True)).locator(
            "input.action-select"
        ).check()
    page.locator("select[name=action]").select_option("set_limits")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("Set the limits of 2 tools?")).to_be_visible()
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_text("Fill in at least one field.")).to_be_visible()
    page.get_by_label("timeout in seconds").fill("12")
    page.get_by_label("Reason for this change").fill("quicker")
    look(page, "tools-limits")
    page.get_by_role("button", name="Set", exact=True).click()
    told = page.locator("#hub-outcome tbody tr")
    expect(told).to_have_count(2)
    expect(told.first).to_contain_text("→ 12.0")
    look(page, "tools-limits-done")


def test_the_calls_of_a_tool_are_drawn_and_listed(page: Any) -> None:
    page.goto(TOOLS)
    page.locator("#result_list").get_by_role("link", name="echo", exact=True).click()
    expect(page.get_by_role("heading", name="As clients see it")).to_be_visible()
    page.locator("a[href*='/its-calls']").click()
    expect(page.get_by_role("heading", name="Callers")).to_be_visible()
    look(page, "tool-calls")
    page.get_by_text("As a table").first.click()
    page.locator("table").get_by_role("link").first.click()
    expect(page).to_have_url(re.compile("tool_name=echo"))


def test_what_the_preview_of_an_error_shows_is_what_a_client_gets(page: Any, address: str) -> None:
    key = make_key(page)
    page.goto("/admin/invocations/mcperrormapping/?q=tool_not_found")
    page.locator("#result_list tbody a").first.click()
    preview = page.locator("#hub-preview")
    expect(preview).to_contain_text("There is no tool named")
    page.wait_for_load_state()  # check.js hears nothing before
    template = page.get_by_label("Message template")
    template.fill("{tool}: {nonsense}")
    expect(page.locator("#check-message_template")).to_contain_text("Enter fields as {name}")
    expect(preview).to_contain_text("Correct the errors above")
    expect(template).to_have_attribute("aria-invalid", "true")
    look(page, "mapping-refused")
    template.fill("No {tool} here. {message} [{error_code}]")
    page.locator("#id_retryable").check()
    expect(preview).to_contain_text("No echo here.")
    expect(preview).to_contain_text('"retryable": true')
    expect(page.locator("#check-message_template")).to_be_empty()
    shown = json.loads(preview.locator("pre").inner_text())
    look(page, "mapping")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(re.compile("was changed successfully"))).to_be_visible()
    page.goto(TOOLS)
    with Speaker(address, key) as speaker:
        # The preview speaks of a tool called echo, so there must be none of that name.
        page.locator("#result_list").get_by_role("link", name="echo", exact=True).click()
        page.locator(".hub-part > summary", has_text="What models read").click()
        page.locator("#id_name").fill("echo_else")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text(re.compile("was changed successfully"))).to_be_visible()
        said = until(lambda: speaker.modern_call("echo", {"text": "x"}).json().get("error"))
    for error in (shown, said):
        assert error["data"].pop("invocationId")
        assert error["data"].pop("correlationId")
        error["data"].pop("traceId", None)
    assert said == shown


def test_a_schema_is_judged_while_it_is_written(page: Any) -> None:
    page.goto(TOOLS)
    page.locator("#result_list").get_by_role("link", name="add", exact=True).click()
    page.wait_for_load_state()  # check.js hears nothing before
    page.locator(".hub-part > summary", has_text="Arguments and result").click()
    editor = page.locator(".hub-json-mount .cm-content").first
    editor.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text('{"type": "object", "properties": {"a": {"type": "nonsense"}}}')
    expect(page.locator("#check-input_schema")).to_contain_text("nonsense")
    look(page, "schema-refused")
    editor.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text('{"type": "object", "properties": {"a": {"type": "string"}}}')
    expect(page.locator("#check-input_schema")).to_be_empty()


def an_api(operations: int, server: str = "https://large.example/v1") -> dict[str, Any]:
    paths = {f"/things/{number}": {"get": {"operationId": f"read_{number}"}} for number in range(operations)}
    return {"openapi": "3.1.0", "servers": [{"url": server}] if server else [], "paths": paths}


def test_a_file_is_chosen_once_also_where_the_form_has_errors(page: Any) -> None:
    page.goto("/admin/tools_catalog/httpservice/import/")
    page.get_by_label("Service").fill("kept")
    document = json.dumps(an_api(3, server="")).encode()
    page.locator("input[type=file]").set_input_files(
        {"name": "kept.json", "mimeType": "application/json", "buffer": document}
    )
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text(re.compile("names no server"))).to_be_visible()
    expect(page.get_by_label("The file kept.json")).to_be_checked()
    look(page, "import-kept")
    page.get_by_label("API base URL").fill("https://kept.example/v1")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("Showing 3 of 3 operations.")).to_be_visible()


@pytest.mark.long
def test_a_long_import_says_how_far_it_is(page: Any) -> None:
    page.goto("/admin/tools_catalog/httpservice/import/")
    page.get_by_label("Service").fill("large")
    document = json.dumps(an_api(1000)).encode()
    page.locator("input[type=file]").set_input_files(
        {"name": "large.json", "mimeType": "application/json", "buffer": document}
    )
    page.evaluate(
        """() => {
        const words = document.querySelector("[data-busy-words]");
        new MutationObserver(() => sessionStorage.setItem("read", words.textContent)).observe(words, {childList: true});
    }"""
    )
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("Showing 200 of 1000 operations.")).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('read')") == "Reading the API description."
    button = page.get_by_role("button", name="Import all 1000 matching")
    button.click()
    expect(button).to_be_disabled()
    expect(page.get_by_text(re.compile(r"^[1-9]\d{0,2} of 1000 operations checked\.$"))).to_be_visible()
    assert 0 < page.get_by_label("Progress of the import").evaluate("bar => bar.position") <= 1
    look(page, "import-progress")
    expect(page.get_by_text(re.compile(r"^\d+ of 1000 operations saved\.$"))).to_be_visible()
    expect(page.get_by_text("1000 new tools, 0 changed, 0 disabled.")).to_be_visible()
