"""Make the pictures of docs/operators.md: a hub with two days of calls, and an operator's browser that goes through it.

    python -m tests.browser.pictures [--folder docs/pictures] [--only NAME]...

Light theme, 1280 pixels wide. Look at each before it is committed. Times and ids differ from run to run, so every
picture changes: name those that are wanted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.browser.operating import PASSWORD, log_in, open_tool
from tests.servers import ROOT, Hub

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
MOST_BYTES = 150_000

CONTENT = f"""
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from mcphub.chat.models import ChatApproval
from sessions_app.models import ApiKey
from tests.rigs import seeding
from tests.tools_catalog.proposals import definition, offer
from tools_catalog import discovery
from tools_catalog.models import McpConnection, McpToolDefinition

person = User.objects.filter(username="operator").first() or User(username="operator")
person.is_staff = person.is_superuser = True
person.set_password({PASSWORD!r})
person.save()

def schema(**properties):
    return {{"type": "object", "properties": {{name: {{"type": "string", "description": words}} for name, words in
             properties.items()}}, "required": list(properties)}}

made = [
    ("search_issues", "Find issues", "Finds issues of a project by words.", schema(query="Words to look for.")),
    ("get_invoice", "Get an invoice", "Gives one invoice with its lines.", schema(number="Such as 2026-0815.")),
    ("create_ticket", "Open a ticket", "Opens a ticket for the service desk.",
     schema(subject="One line.", text="What happened.")),
    ("list_orders", "List orders", "Gives the orders of a customer, newest first.",
     schema(customer="Customer number.")),
    ("delete_draft", "Delete a draft", "Deletes a draft. It cannot be brought back.", schema(id="Id of the draft.")),
]
for name, title, words, takes in made:
    McpToolDefinition.objects.create(
        name=name, title=title, description=words, input_schema=takes, backend="http",
        configuration={{"url": "https://desk.example.com/api/" + name}},
        read_only=name.startswith(("get", "list", "search")), destructive=name.startswith("delete"),
    )
connection = McpConnection.objects.create(
    slug="tracker", title="Issue tracker", transport="streamable-http", url="https://tracker.example.com/mcp",
    enabled=False, policy="hold_all",
)
first = definition("find_bugs", description="Find bugs by words.", inputSchema=schema(query="Words."))
offer(connection, first)
for row in connection.tools.all():
    discovery.approve(row, author=person, reason="Needed by the service desk")
offer(
    connection,
    {{**first, "description": "Find bugs by words, in all projects. Also reads closed ones."}},
    definition("close_bug", description="Close a bug.", inputSchema=schema(id="Id of the bug.")),
)
now = timezone.now()
ChatApproval.objects.create(
    id="mcpr_7f3a", principal="key:2", caller_label="Service desk assistant", turn_id="t", call_id="call_1",
    tool_name="delete_draft", tool_version="1", arguments={{"id": "draft-118"}}, binding="0" * 64, created_at=now,
    expires_at=now + timedelta(hours=1),
)
keys = ("Service desk assistant", ["tools:list", "tools:call", "chat"]), ("Nightly report", ["audit:read"])
for name, scopes in keys:
    ApiKey.issue(name, scopes=scopes, expires_at=now + timedelta(days=60))
seeding.calls(1500, [name for name, *_ in made] + ["echo", "add"], days=2)
seeding.seal()
"""


def _failed_call(page: Any) -> None:
    page.goto("/admin/invocations/mcptoolinvocation/?status__exact=error")
    page.locator("#result_list tbody a[href*='/change/']").first.click()


def _tried(page: Any) -> None:
    open_tool(page, "add")
    page.get_by_role("link", name="Try it").click()
    for field, number in zip(page.locator("form.hub-card input:not([type=hidden])").all(), (19, 23), strict=False):
        field.fill(str(number))
    page.get_by_role("button", name="Call", exact=True).click()
    page.get_by_role("status").wait_for()


def _offer(page: Any) -> None:
    page.goto("/admin/tools_catalog/mcpupstreamtool/?q=find_bugs")
    page.locator("#result_list tbody a[href*='/change/']").first.click()


def _at(where: str) -> Callable[[Any], None]:
    return lambda page: page.goto(where) and None


PICTURES: dict[str, Callable[[Any], None]] = {
    "overview": _at("/admin/"),
    "connect": _at("/admin/connect/"),
    "tools": _at("/admin/tools_catalog/mcptooldefinition/"),
    "tool": lambda page: open_tool(page, "search_issues"),
    "try": _tried,
    "calls": _at("/admin/invocations/mcptoolinvocation/"),
    "call": _failed_call,
    "connections": _at("/admin/tools_catalog/mcpconnection/"),
    "offer": _offer,
    "approvals": _at("/admin/chat/chatapproval/"),
    "sessions": _at("/admin/sessions_app/mcpsession/?columns=state,id,client,caller_label,transport,created_at"),
    "keys": _at("/admin/sessions_app/apikey/"),
    "mapping": _at("/admin/invocations/mcperrormapping/"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs/pictures")
    parser.add_argument("--only", action="append", choices=PICTURES)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="mcphub-pictures-") as folder,
        Hub(Path(folder), packs=["starter"]) as hub,
        sync_playwright() as started,
    ):
        hub.shell(CONTENT)
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(
            viewport={"width": 1280, "height": 720}, base_url=hub.url, color_scheme="light", locale="en-GB"
        )
        page = context.new_page()
        page.set_default_timeout(120_000)
        log_in(page)
        for name in options.only or PICTURES:
            PICTURES[name](page)
            page.wait_for_load_state("networkidle")
            picture = page.screenshot(animations="disabled", path=options.folder / f"{name}.png")
            print(f"{name}: {len(picture)} bytes", flush=True)
        browser.close()
    big = [path.name for path in options.folder.glob("*.png") if path.stat().st_size > MOST_BYTES]
    return f"Above {MOST_BYTES} bytes: {', '.join(big)}" if big else 0


if __name__ == "__main__":
    sys.exit(main())
