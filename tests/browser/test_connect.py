"""The connect page as an operator uses it: a key, a text to paste, and what arrives, or why nothing does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_SECONDS

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

SEED = """
from django.contrib.auth.models import User
from tools_catalog.backends import python
from tools_catalog.models import McpToolDefinition
User.objects.create_superuser("operator", password="a long password")
python.discover(["starter"])
told = python.definition("tools_catalog.packs.starter.tools:add")
McpToolDefinition.objects.create(
    name="add", title=told["title"], description=told["description"], input_schema=told["inputSchema"],
    output_schema=told.get("outputSchema", {}), backend="python", configuration=told["configuration"],
    read_only=True, destructive=False,
)
"""


def picture(page: Any, name: str) -> None:
    if folder := os.environ.get("MCPHUB_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"connect-{name}.png", full_page=True)


def shell(text: str, address: str) -> str:
    """Run a text of the page; the hub of the tests is at another port than it tells."""
    return subprocess.run(
        ["sh", "-c", text.replace("http://127.0.0.1:8000", address)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    ).stdout


def test_a_client_is_connected_and_its_first_call_arrives(page: Any, address: str) -> None:
    page.goto("/connect")
    page.get_by_role("link", name="curl", exact=True).click()
    text = page.locator("[data-snippet=curl] pre")
    state = page.locator("[data-connect=state]")
    expect(text).to_contain_text("Bearer YOUR-KEY")
    expect(page.locator("[data-snippet=vscode]")).to_be_hidden()
    expect(state).to_contain_text("Waiting for the first call")

    shell(text.inner_text(), address)  # pasted as it is
    arrived = page.locator("[data-connect=list] li")
    expect(arrived.first).to_contain_text("The request contained the placeholder")
    page.get_by_label("Or paste an existing key").fill("mcph_00000000_pasted")
    expect(text).to_contain_text("Bearer mcph_00000000_pasted")
    picture(page, "refused")

    page.get_by_label("Key name (who or what will use it)").fill("laptop")
    page.get_by_role("button", name="Create key").click()
    key = page.locator("#hub-key").inner_text()
    expect(text).to_be_visible()
    expect(text).to_contain_text(f"Bearer {key}")
    expect(state).to_contain_text("Waiting for the first call")
    expect(page.get_by_label("of", exact=True)).to_contain_text("laptop")
    assert '"text":"42"' in shell(text.inner_text(), address).replace(" ", "")
    expect(state).to_contain_text("It works: a call arrived")
    picture(page, "arrived")
    page.emulate_media(color_scheme="dark")
    picture(page, "arrived-dark")
    with page.expect_popup() as opened:
        arrived.filter(has_text="add").get_by_role("link", name="See the recorded call").click()
    expect(opened.value.locator("body")).to_contain_text("laptop")
    page.get_by_role("link", name="hide the key").click()
    expect(page.locator("[data-snippet=curl] pre")).to_contain_text("Bearer YOUR-KEY")
    assert key not in page.content()


def test_a_client_at_a_wrong_address_is_seen(page: Any, address: str) -> None:
    page.goto("/connect?client=curl")
    expect(page.locator("[data-connect=state]")).to_contain_text("Waiting for the first call")
    shell(page.locator("[data-snippet=curl] pre").inner_text().replace("/mcp ", "/nowhere "), address)
    expect(page.locator("[data-connect=list]")).to_contain_text("Nothing exists at this address")


def test_the_clients_are_one_stop_of_the_keyboard(page: Any) -> None:
    page.goto("/connect")
    page.get_by_role("link", name="VS Code", exact=True).focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("link", name="stdio", exact=True)).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    chosen = page.get_by_role("link", name="Claude Desktop", exact=True)
    expect(chosen).to_be_focused()
    page.keyboard.press("Enter")
    expect(chosen).to_have_attribute("aria-current", "true")
    page.keyboard.press("Tab")
    expect(page.locator("#hub-alone-claude")).to_be_focused()
