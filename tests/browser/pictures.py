"""Make the pictures of the documents, by a browser that goes through a hub as an operator does.

Those of docs/start/tutorial.md come from a hub where the tutorial's own commands ran, the others from one with two days
of calls.

    python -m tests.browser.pictures [--folder docs/pictures] [--only NAME]...

Light theme, 1280 pixels wide. Look at each before it is committed. Times and ids differ from run to run, so every
picture changes: name those that are wanted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import django
from playwright.sync_api import sync_playwright

from tests import operations
from tests.browser.operating import PASSWORD, log_in, open_tool
from tests.servers import ROOT, Hub, until
from tests.tutorial import OFFER, Reader

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
MOST_BYTES = 160_000
LISTS = frozenset({"tools", "sessions", "mapping"})
"""Rows of text down to the foot of the page: the upper part shows enough."""


def _failed_call(page: Any) -> None:
    page.goto("/admin/invocations/mcptoolinvocation/?status__exact=error")
    page.locator("#result_list tbody a[href*='/change/']").first.click()


def _tried(page: Any) -> None:
    open_tool(page, "add")
    page.get_by_role("link", name="Try it").click()
    fields = page.locator("form.hub-card input:not([type=hidden])")
    for at, number in enumerate((19, 23)):
        fields.nth(at).fill(str(number))
    page.get_by_role("button", name="Call", exact=True).click()
    page.get_by_role("status").wait_for()


def _offer(page: Any) -> None:
    page.goto("/admin/tools_catalog/mcpupstreamtool/?q=find_bugs")
    page.locator("#result_list tbody a[href*='/change/']").first.click()


def _invited(page: Any) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto("/admin/login/invitation/add/")
    page.locator("#id_username").fill("ada")
    page.locator("#id_email").fill("ada@example.org")


def _evidence(page: Any) -> None:
    page.set_viewport_size({"width": 1280, "height": 1200})
    page.goto("/admin/evidence/")
    page.locator("#id_until").fill(f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Preview").click()
    page.locator("#hub-evidence-files").wait_for()


_PROVIDERS = ("Google", "Keycloak", "Entra ID", "Okta")
"""Of `content.PROVIDERS`."""


def _provider(name: str) -> Callable[[Any], None]:
    def go(page: Any) -> None:
        page.set_viewport_size({"width": 1000, "height": 1900})
        page.goto("/admin/login/loginprovider/")
        page.get_by_role("link", name=name, exact=True).click()

    return go


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
    "approvals": _at("/admin/invocations/mcpapproval/"),
    "sessions": _at("/admin/sessions_app/mcpsession/?columns=state,id,client,caller_label,transport,created_at"),
    "keys": _at("/admin/sessions_app/apikey/"),
    **{f"login-{name.lower().replace(' ', '-')}": _provider(name) for name in _PROVIDERS},
    "invitations": _invited,
    "archive": _at("/admin/archive/?q=tool:list_orders+status:error"),
    "access-review": _at("/admin/access_review/reviewedgrant/"),
    "mapping": _at("/admin/invocations/mcperrormapping/"),
    "evidence": _evidence,
}


def _lent(page: Any) -> None:
    page.goto("/admin/invocations/mcptoolinvocation/?tool_name=lend_book&status__exact=ok")
    page.locator("#result_list tbody a[href*='/change/']").first.click()


def _found(page: Any) -> None:
    open_tool(page, "find_book")
    page.get_by_role("link", name="Try it").click()
    page.locator("form.hub-card input:not([type=hidden])").first.fill("The Trial")
    page.get_by_role("button", name="Call", exact=True).click()
    page.get_by_role("status").wait_for()


def _waiting(page: Any) -> None:
    page.goto("/admin/tools_catalog/mcpupstreamtool/")
    page.locator("#result_list tbody a[href*='/change/']").first.click()


TUTORIAL: dict[str, Callable[[Any], None]] = {
    "tutorial-try": _found,
    "tutorial-offer": _waiting,
    "tutorial-calls": _at("/admin/invocations/mcptoolinvocation/"),
    "tutorial-call": _lent,
}


@contextlib.contextmanager
def operators_hub(folder: Path) -> Iterator[Hub]:
    with Hub(folder, packs=["starter"]) as hub:
        from tests.browser import content  # its models need Django to be set up

        hub.operate(content.fill, PASSWORD)
        yield hub


@contextlib.contextmanager
def tutorial_hub(folder: Path) -> Iterator[Hub]:
    reader = Reader(folder)
    reader.write_files()
    with reader.hub as hub:
        from tests.browser import content

        hub.operate(content.let_operator_in, PASSWORD)
        upstream = reader.start_upstream()
        try:
            reader.remember("export HUB")
            reader.run("call find_book")
            reader.run("curl -s -X POST")
            reader.run("call post_postage '{\"grams\": 2500}'    # an error")
            until(lambda: hub.operate(operations.count, OFFER) == 1)
            yield hub
        finally:
            upstream.kill()
            upstream.wait()


def take(hub: Hub, pictures: dict[str, Callable[[Any], None]], folder: Path) -> None:
    """Log in, go to each page and keep what it shows."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(
            viewport={"width": 1280, "height": 720}, base_url=hub.url, color_scheme="light", locale="en-GB"
        )
        page = context.new_page()
        page.set_default_timeout(120_000)
        log_in(page)
        for name, go in pictures.items():
            go(page)
            page.wait_for_load_state("networkidle")
            part = {"x": 0, "y": 0, "width": 1280, "height": 480} if name in LISTS else None
            picture = page.screenshot(animations="disabled", path=folder / f"{name}.png", clip=part)
            print(f"{name}: {len(picture)} bytes", flush=True)
        browser.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs/pictures")
    parser.add_argument("--only", action="append", choices=[*PICTURES, *TUTORIAL])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    django.setup()
    for open_hub, pictures in ((operators_hub, PICTURES), (tutorial_hub, TUTORIAL)):
        wanted = {name: go for name, go in pictures.items() if not options.only or name in options.only}
        if wanted:
            with tempfile.TemporaryDirectory(prefix="mcphub-pictures-") as place, open_hub(Path(place)) as hub:
                take(hub, wanted, options.folder)
    big = [path.name for path in options.folder.glob("*.png") if path.stat().st_size > MOST_BYTES]
    return f"Above {MOST_BYTES} bytes: {', '.join(big)}" if big else 0


if __name__ == "__main__":
    sys.exit(main())
