"""Five servers of a pasted configuration become approved tools, by the mouse, in a dozen clicks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_catalogue import look

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

SEED = """
from django.contrib.auth.models import User
User.objects.create_superuser("operator", password="a long password")
"""
SMALL = str(Path(__file__).parents[1] / "upstreams" / "peers" / "small.py")
NAMES = ("one", "two", "three", "four", "five")
MOST_CLICKS = 12


class Hand:
    """Clicks, and counts."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self.clicks = 0

    def click(self, name: str, role: str = "button") -> None:
        self.clicks += 1
        self._page.get_by_role(role, name=name, exact=True).first.click()


def configuration() -> str:
    entries = {
        name: {
            "command": sys.executable,
            "args": [SMALL, name, "--wants-token"],
            "env": {"SMALL_TOKEN": f"a-long-token-of-{name}"},
        }
        for name in NAMES
    }
    return json.dumps({"mcpServers": entries}, indent=2)


def test_five_servers_of_a_pasted_configuration_are_served_within_a_dozen_clicks(page: Any) -> None:
    page.goto("/admin/tools_catalog/mcpconnection/")
    hand = Hand(page)
    hand.click("Paste and connect", "link")
    page.get_by_label("Address, command or configuration").fill(configuration())
    look(page, "servers-paste")
    hand.click("Look at it")
    expect(page.get_by_role("checkbox", name="one", exact=True)).to_be_checked()
    expect(page.get_by_text("a-long-token-of-one")).to_have_count(0)
    look(page, "servers-drafts")
    hand.click("Save the chosen")
    expect(page.get_by_text("5 connections saved.")).to_be_visible()
    hand.click("Test all")
    expect(page.locator("input[name=offer]:checked")).to_have_count(len(NAMES))
    look(page, "servers-tested")
    hand.click("Approve the chosen")
    expect(page.get_by_text("5 definitions approved.")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="Who may use them")).to_have_attribute("aria-current", "step")
    page.get_by_label("name of the new one").fill("five")
    hand.click("Put them into the toolset")
    expect(page.get_by_text("5 tools are in five.")).to_be_visible()
    look(page, "servers-shared")
    assert hand.clicks <= MOST_CLICKS
    page.goto("/admin/tools_catalog/mcptooldefinition/?q=greet")
    expect(page.locator("#result_list tbody tr")).to_have_count(len(NAMES))


def test_a_known_server_is_found_and_its_form_is_shown(page: Any) -> None:
    page.goto("/admin/tools_catalog/mcpconnection/")
    page.get_by_role("link", name="Known servers", exact=True).first.click()
    page.get_by_label("Search").last.fill("linear")
    page.get_by_role("button", name="Search", exact=True).click()
    look(page, "servers-known")
    page.get_by_role("link", name="Add linear", exact=True).click()
    page.get_by_label("LINEAR_API_KEY").fill("a-long-key")
    look(page, "servers-known-form")
    page.get_by_role("button", name="Save the chosen").click()
    expect(page.get_by_text("1 connection saved.")).to_be_visible()
