"""Jobs of operators, auditors, team leads and end users, done in a browser and counted: clicks, keys, fields, seconds.

    python -m tests.browser.jobs            prints them as a table

Each begins at the overview, as somebody does who has just logged in, and ends when what was wanted is on the page.
Fields that are filled in count as fields, not as keys.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
from playwright.sync_api import Page, expect, sync_playwright

SMALL = str(Path(__file__).parents[1] / "upstreams" / "peers" / "small.py")
DIFFERENCES = 10


class Hand:
    """Does what a person does, and counts it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = self.keys = self.fields = 0

    def click(self, name: str | re.Pattern[str], role: Any = "link", within: str = "body") -> None:
        self.clicks += 1
        is_exact = isinstance(name, str)
        self.page.locator(within).get_by_role(role, name=name, exact=is_exact).first.click()

    def click_at(self, selector: str) -> None:
        self.clicks += 1
        self.page.locator(selector).first.click()

    def press(self, *keys: str) -> None:
        self.page.wait_for_load_state()  # keys.js comes last
        for key in keys:
            self.keys += 1
            self.page.keyboard.press(key)

    def fill(self, label: str, text: str) -> None:
        self.fields += 1
        self.page.get_by_label(label).first.fill(text)

    def choose(self, label: str, option: str) -> None:
        self.fields += 1
        self.page.get_by_label(label).first.select_option(option)

    def pick(self, field: str, text: str) -> None:
        """Choose a row in a field that searches for it."""
        self.fields += 1
        self.click_at(f"#id_{field} + .select2 .select2-selection")
        self.page.keyboard.type(text)
        expect(self.page.locator(".select2-results__option--highlighted")).to_contain_text(text)
        self.press("Enter")

    def sees(self, words: str | re.Pattern[str], within: str = "body") -> None:
        expect(self.page.locator(within)).to_contain_text(words)


@dataclass(frozen=True)
class Job:
    """What somebody wants, how it is done, and what it may take at most."""

    words: str
    do: Callable[[Hand], None]
    most_clicks: int
    most_keys: int = 0
    by: str = "operator"
    """Who does it; all others are in `content.PEOPLE`."""


@dataclass(frozen=True)
class Effort:
    clicks: int
    keys: int
    fields: int
    seconds: float


def do(job: Job, page: Page) -> Effort:
    """Do a job from the overview on."""
    page.goto("/admin/")
    page.wait_for_load_state("networkidle")
    hand, began = Hand(page), time.monotonic()
    job.do(hand)
    return Effort(hand.clicks, hand.keys, hand.fields, time.monotonic() - began)


def _why_a_call_failed(hand: Hand) -> None:
    hand.click(re.compile("^Errors"), within="#main")
    hand.click_at("#result_list tbody a[href*='/change/']")
    hand.sees(re.compile("Error group|Similar failures"))


def _errors_in_groups(hand: Hand) -> None:
    hand.click("Calls")
    hand.click("Errors")
    hand.click_at("#result_list tbody a[href*='/change/']")
    hand.sees("First seen")


def _calls_of_a_person_or_key(hand: Hand) -> None:
    hand.click(re.compile("^team 1|^key:|^first key"), within=".hub-traffic")
    expect(hand.page).to_have_url(re.compile("mcptoolinvocation/.*principal="))


def _call_by_id(hand: Hand) -> None:
    found = hand.page.request.get("/admin/invocations/mcptoolinvocation/").text()
    wanted = re.search(r"mcptoolinvocation/([0-9a-f-]{36})/change/", found) or re.search(
        r"mcptoolinvocation/(\d+)/change/", found
    )
    assert wanted is not None
    hand.press("Control+K")
    hand.fields += 1
    hand.page.keyboard.type(wanted[1])
    expect(hand.page.locator("[role=option]").first).to_be_visible()
    hand.press("Enter")
    expect(hand.page).to_have_url(re.compile("mcptoolinvocation/.*/change/"))


def _switch_a_tool_off(hand: Hand) -> None:
    hand.click("Catalogue")
    hand.click("Enabled: delete_draft", "switch")
    hand.click("Disable", "button")
    expect(hand.page.get_by_role("switch", name="Disabled: delete_draft")).to_be_visible()


def _try_a_tool(hand: Hand) -> None:
    hand.click("Catalogue")
    hand.click("echo", within="#result_list")
    hand.click("Try it")
    hand.fields += 1
    hand.page.get_by_label("text").fill("hello")
    hand.click("Call", "button")
    expect(hand.page.get_by_role("status")).to_contain_text("hello")


def _make_a_tool_of_a_function(hand: Hand) -> None:
    hand.click("Catalogue")
    hand.click_at("a[href$='mcptooldefinition/add/']")
    hand.fields += 1
    function = hand.page.locator("select[name=function]")
    function.select_option(function.locator("option").first.inner_text())
    hand.click_at("form:has(select[name=function]) button")
    hand.click("Save", "button")
    hand.sees(re.compile("was added successfully"))


def _who_changed_a_tool(hand: Hand) -> None:
    hand.click("Catalogue")
    hand.click("tracker_find_bugs", within="#result_list")
    hand.click("Versions")
    hand.sees("Needed by the service desk")


def _limits_of_two_tools(hand: Hand) -> None:
    hand.click("Catalogue")
    for name in ("add", "echo"):
        hand.clicks += 1
        row = hand.page.locator("#result_list tbody tr").filter(
            has=hand.page.get_by_role("link", name=name, exact=True)
        )
        row.locator("input.action-select").check()
    hand.fields += 1
    hand.page.locator("select[name=action]").select_option("set_limits")
    hand.click("Run", "button")
    hand.fill("timeout in seconds", "12")
    hand.click("Set", "button")
    expect(hand.page.locator("#hub-outcome tbody tr")).to_have_count(2)


def _add_an_upstream(hand: Hand) -> None:
    hand.click("Connections")
    hand.click("Paste and connect")
    hand.fill("URL, command or configuration", f"{sys.executable} {SMALL} shop --three-tools")
    hand.click("Preview", "button")
    hand.click("Save and test", "button")
    hand.click("Approve selected", "button")
    hand.sees("3 definitions approved.")


def _import_an_api(hand: Hand) -> None:
    hand.click("Connections")
    hand.click("Import an API")
    hand.fill("Service", "weather")
    hand.fields += 1
    hand.page.locator("input[type=file]").set_input_files(
        {"name": "openapi.json", "mimeType": "application/json", "buffer": json.dumps(_API).encode()}
    )
    hand.click("Preview", "button")
    hand.click("Import selected", "button")
    hand.sees("3 new tools")


_API = {
    "openapi": "3.1.0",
    "info": {"title": "Weather", "version": "1"},
    "servers": [{"url": "https://weather.example.com"}],
    "paths": {
        f"/{name}": {"get": {"operationId": name, "summary": f"Give the {name}.", "responses": {}}}
        for name in ("forecast", "history", "warnings")
    },
}


def _approve_ten_differences(hand: Hand) -> None:
    hand.press("g", "u")
    hand.page.wait_for_url(re.compile("mcpupstreamtool"))
    hand.press("X", "a")
    expect(hand.page.locator(".hub-offer .hub-diff").nth(DIFFERENCES - 1)).to_be_visible()
    hand.press("y")
    hand.sees(re.compile(r"1\d definitions approved"))


def _approve_a_call(hand: Hand) -> None:
    hand.press("g", "a")
    hand.page.wait_for_url(re.compile("mcpapproval"))
    hand.press("j", "a")
    hand.sees("Approve these calls?")  # the list has its arguments, too
    hand.sees("draft-118")
    hand.press("y")
    hand.sees("1 call approved.")


def _connect_a_client(hand: Hand) -> None:
    hand.click("Connect a client")
    hand.click("Cursor")
    hand.sees("By signing in")


def _make_a_key(hand: Hand) -> None:
    hand.click("Connect a client")
    hand.fill("Key name (who or what will use it)", "laptop")
    hand.click("Create key", "button")
    hand.sees("mcph_")


def _revoke_a_key(hand: Hand) -> None:
    hand.click("Access")
    hand.click("Nightly report", within="#result_list")
    hand.click("Revoke")
    hand.fill("Type", "Nightly report")
    hand.click("Revoke the key", "button")
    hand.sees("Revoked")


def _invite_a_person(hand: Hand) -> None:
    hand.press("Control+K")
    hand.fields += 1
    hand.page.keyboard.type("invite")
    expect(hand.page.locator("[role=option]").first).to_be_visible()
    hand.press("Enter")
    hand.page.wait_for_url(re.compile("invitation"))
    hand.fields += 1
    hand.page.locator("#id_username").fill("ada")
    hand.click("Save", "button")
    hand.sees("/login/invited/")


def _invite_into_a_team(hand: Hand) -> None:
    hand.press("Control+K")
    hand.fields += 1
    hand.page.keyboard.type("invite")
    expect(hand.page.locator("[role=option]").first).to_be_visible()
    hand.press("Enter")
    hand.page.wait_for_url(re.compile("invitation"))
    hand.fields += 2
    hand.page.locator("#id_username").fill("eve")
    hand.page.get_by_label("Groups").select_option("Service desk")
    hand.click("Save", "button")
    hand.sees("/login/invited/")


def _limit_a_team(hand: Hand) -> None:
    hand.click("Rules")
    hand.click_at(".hub-tabs summary:has-text('Limits')")
    hand.click("Quotas", within=".hub-tabs")
    hand.click_at("a[href*='mcpquota/add/']")
    hand.fields += 2
    hand.page.locator("#id_name").fill("service-desk")
    hand.page.get_by_label("Refuse at").fill("1000")
    hand.pick("group", "Service desk")
    hand.click("Save", "button")
    hand.sees("was added successfully")


def _alert_on_a_tool(hand: Hand) -> None:
    hand.click("Inbox")
    hand.click("Alerts")
    hand.click_at("a[href*='alert/add/']")
    hand.fill("Name", "orders fail")
    hand.fill("Threshold", "20")
    hand.sees("It would have fired")
    hand.click("Save", "button")
    hand.sees("was added successfully")


def _replay_a_call(hand: Hand) -> None:
    hand.click("Calls")
    hand.fields += 1
    hand.page.locator("#searchbar").fill("tool:add status:ok")
    hand.press("Enter")
    hand.page.wait_for_url(re.compile("q=tool"))
    hand.click_at("#result_list tbody a[href*='/change/']")
    hand.click(re.compile("Replay"))
    hand.click(re.compile("^Replay"), "button")
    hand.sees(re.compile("The outcome (is the same|differs)"))


def _try_a_rule(hand: Hand) -> None:
    hand.click("Rules")
    hand.click_at("a[href*='mcppolicyrule/add/']")
    hand.fill("Name", "no-drafts")
    hand.fields += 2
    hand.page.locator("[name=applies_to]").select_option("tool")
    hand.page.locator("[name=target]").fill("delete_draft")
    hand.click("Save and continue editing", "button")
    expect(hand.page.locator("#hub-preview")).to_contain_text("matched")


def _evidence_of_a_quarter(hand: Hand) -> None:
    hand.click("Audit log")
    hand.click("Evidence")
    with hand.page.expect_download() as told:
        hand.click("Download the archive", "button")
    assert told.value.suggested_filename.endswith((".zip", ".tar"))


def _key_of_one_s_own(hand: Hand) -> None:
    hand.click_at("#keys summary")
    hand.fields += 1
    hand.page.locator("#keys input[name=name]").fill("my script")
    hand.click(re.compile("^Create"), "button", within="#keys")
    hand.sees("mcph_")


def _configuration_of_one_s_client(hand: Hand) -> None:
    hand.click_at("#connect summary")
    hand.sees("[mcp_servers.mcp-hub]")


def _is_the_audit_whole(hand: Hand) -> None:
    hand.click(re.compile("audit log (verified|has not been verified)", re.IGNORECASE))
    hand.click(re.compile("^Verify"), "button")
    hand.sees(re.compile("Blocks .* are unchanged"))


JOBS: tuple[Job, ...] = (
    Job("Find out why a call failed", _why_a_call_failed, 3),
    Job("See errors in groups: since when, how often, whom they hit", _errors_in_groups, 3),
    Job("See the calls of one caller", _calls_of_a_person_or_key, 2),
    Job("Open a call by its id", _call_by_id, 0, 2),
    Job("Switch a tool off", _switch_a_tool_off, 3),
    Job("Try a tool", _try_a_tool, 4),
    Job("Make a tool of a function", _make_a_tool_of_a_function, 4),
    Job("See who changed a tool, and what", _who_changed_a_tool, 3),
    Job("Set the timeout of two tools", _limits_of_two_tools, 6),
    Job("Add an upstream with three tools", _add_an_upstream, 5),
    Job("Import an API", _import_an_api, 4),
    Job("Approve ten changed definitions, their differences seen", _approve_ten_differences, 0, 20),
    Job("Approve a call that waits", _approve_a_call, 0, 5),
    Job("Give a client its configuration, by signing in", _connect_a_client, 2),
    Job("Give a client its configuration, with a key", _make_a_key, 2),
    Job("Revoke a key", _revoke_a_key, 4),
    Job("Invite a person", _invite_a_person, 1, 2),
    Job("See whether the audit is whole", _is_the_audit_whole, 3),
    Job("Invite a person into a team", _invite_into_a_team, 1, 2),
    Job("Limit the calls of a team", _limit_a_team, 6, 1),
    Job("Be alerted when calls fail", _alert_on_a_tool, 4),
    Job("Replay a call", _replay_a_call, 4, 1),
    Job("See what a rule would have done", _try_a_rule, 3),
    Job("Take a quarter's evidence away", _evidence_of_a_quarter, 3, by="auditor"),
    Job("Get the configuration of one's own client", _configuration_of_one_s_client, 1, by="member"),
    Job("Make a key of one's own", _key_of_one_s_own, 2, by="member"),
)


def main() -> int:
    from tests.browser.operating import log_in
    from tests.browser.pictures import CHROMIUM, operators_hub

    wanted = sys.argv[1:]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    django.setup()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="mcphub-jobs-") as place, operators_hub(Path(place)) as hub:
        from tests.browser import content

        hub.operate(content.offer_changes, DIFFERENCES)
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            expect.set_options(timeout=20_000)
            pages: dict[str, Page] = {}
            print("| Job | Clicks | Keys | Fields | Seconds |\n|---|---|---|---|---|")
            for job in JOBS:
                if wanted and not any(word in job.words for word in wanted):
                    continue
                if job.by not in pages:
                    pages[job.by] = browser.new_page(
                        viewport={"width": 1280, "height": 800}, base_url=hub.url, locale="en-GB"
                    )
                    pages[job.by].set_default_timeout(20_000)
                    log_in(pages[job.by], job.by)
                page = pages[job.by]
                try:
                    told = do(job, page)
                except Exception as error:
                    failed += 1
                    page.screenshot(path=f"{tempfile.gettempdir()}/job-{failed}.png")
                    print(f"| {job.words} | failed: {str(error)[:300]} | {page.url}", flush=True)
                    continue
                print(
                    f"| {job.words} | {told.clicks} | {told.keys or ''} | {told.fields or ''} | {told.seconds:.1f} |",
                    flush=True,
                )
            browser.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
