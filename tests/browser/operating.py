"""What an operator does in the console, as tests and the pictures of the documentation do it."""

from __future__ import annotations

from typing import Any

PASSWORD = "a long password"


def log_in(page: Any, name: str = "operator") -> None:
    from playwright.sync_api import expect

    page.goto("/admin/login/")
    page.fill("[name=username]", name)
    page.fill("[name=password]", PASSWORD)
    page.click("button[type=submit]")
    expect(page.get_by_text("Enabled tools").or_(page.get_by_role("heading", name="Your tools"))).to_be_visible()


def open_tool(page: Any, name: str) -> None:
    from playwright.sync_api import expect

    page.goto(f"/admin/tools_catalog/mcptooldefinition/?q={name}")
    page.locator("#result_list").get_by_role("link", name=name, exact=True).click()
    expect(page.locator("#id_name")).to_have_value(name)


def open_parts(page: Any) -> None:
    """Open every part of the form on a row's page."""
    page.wait_for_load_state()
    for summary in page.locator(".hub-part:not([open]) > summary").all()[::-1]:  # an opened one is no longer counted
        summary.click()


def lists_on_the_map(page: Any) -> list[str]:
    """Return the paths of all pages that the side bar and the tabs of its areas lead to."""
    page.goto("/admin/")
    found: list[str] = []
    for area in page.evaluate("[...document.querySelectorAll('#nav-sidebar ol a')].map((link) => link.pathname)"):
        page.goto(area)
        tabs = page.evaluate("[...document.querySelectorAll('.hub-tabs a')].map((link) => link.pathname)")
        found += [area, *tabs]
    return list(dict.fromkeys(found))
