"""Five servers of a pasted configuration become approved tools, by the mouse, in a dozen clicks."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_catalogue import look
from tests.waiting import PATIENCE_SECONDS

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

SEED = """
from django.contrib.auth.models import User
User.objects.create_superuser("operator", password="a long password")
"""
SMALL = str(Path(__file__).parents[1] / "upstreams" / "peers" / "small.py")
NAMES = ("one", "two", "three", "four", "five")
MOST_CLICKS = 12
SLOW = """
import os, sys
open(os.path.join(os.environ["HOME"], str(os.getpid())), "wb").write(b"0" * 3_000_000)
print("downloading the package", file=sys.stderr, flush=True)
open(sys.argv[1]).close()  # until somebody opens the other end
os.execv(sys.executable, [sys.executable, sys.argv[2], "slow"])
"""


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
    page.get_by_label("URL, command or configuration").fill(configuration())
    look(page, "servers-paste")
    hand.click("Preview")
    expect(page.get_by_role("checkbox", name="one", exact=True)).to_be_checked()
    expect(page.get_by_text("a-long-token-of-one")).to_have_count(0)
    look(page, "servers-drafts")
    hand.click("Save selected")
    expect(page.get_by_text("5 connections saved.")).to_be_visible()
    hand.click("Test all")
    expect(page.locator("input[name=offer]:checked")).to_have_count(len(NAMES))
    look(page, "servers-tested")
    hand.click("Approve selected")
    expect(page.get_by_text("5 definitions approved.")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="Choose who can use them")).to_have_attribute(
        "aria-current", "step"
    )
    page.get_by_label("name of the new toolset").fill("five")
    hand.click("Add to the toolset")
    expect(page.get_by_text("5 tools are in five.")).to_be_visible()
    look(page, "servers-shared")
    assert hand.clicks <= MOST_CLICKS
    page.goto("/admin/tools_catalog/mcptooldefinition/?q=greet")
    expect(page.locator("#result_list tbody tr")).to_have_count(len(NAMES))


def test_what_a_program_does_at_its_first_start_is_seen_while_it_does_it(page: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    entry = {"command": sys.executable, "args": [str(script), str(gate), SMALL]}
    page.goto("/admin/tools_catalog/mcpconnection/import/")
    page.get_by_label("URL, command or configuration").fill(json.dumps({"mcpServers": {"slow": entry}}))
    page.get_by_role("button", name="Preview").click()
    page.locator("[name=readable-0]").fill(str(gate))
    page.get_by_role("button", name="Save selected").click()
    expect(page.get_by_text("1 connection saved.")).to_be_visible()
    page.wait_for_load_state()  # before trial.js the form is sent, and nothing is seen until the test has ended
    page.get_by_role("button", name="Test slow").click()
    expect(page.get_by_role("status").filter(has_text="Waiting for the first answer")).to_be_visible()
    expect(page.get_by_text("downloading the package")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^\d+ s · \d+\.\d MB loaded into its folder"))).to_be_visible()
    look(page, "servers-first-start")
    gate.open("w").close()
    expect(page.locator("input[name=offer]:checked")).to_have_count(1)
    expect(page.get_by_text("Lists its tools")).to_be_visible()
    look(page, "servers-first-started")
    page.get_by_role("link", name="slow", exact=True).click()
    page.wait_for_load_state()
    page.locator("summary", has_text="Limits").click()
    page.locator("#id_connect_seconds").fill(str(PATIENCE_SECONDS))  # it is looked at while it starts
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text(re.compile("was changed successfully"))).to_be_visible()
    page.get_by_role("link", name="Test", exact=True).click()
    page.wait_for_url(re.compile("/test/"))
    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.get_by_text("downloading the package")).to_be_visible()
    look(page, "servers-test-runs")
    gate.open("w").close()
    expect(page.get_by_text("Lists its tools")).to_be_visible()


def test_a_known_server_is_found_and_its_form_is_shown(page: Any) -> None:
    page.goto("/admin/tools_catalog/mcpconnection/")
    page.get_by_role("link", name="Known servers", exact=True).first.click()
    form = page.locator("main form[role=search], form.hub-inline[role=search]").last
    form.get_by_role("searchbox", name="Search").fill("linear")
    form.get_by_role("button", name="Search").click()
    look(page, "servers-known")
    page.get_by_role("link", name="Add linear", exact=True).click()
    page.get_by_label("LINEAR_API_KEY").fill("a-long-key")
    look(page, "servers-known-form")
    page.get_by_role("button", name="Save selected").click()
    expect(page.get_by_text("1 connection saved.")).to_be_visible()
