"""At 1280 pixels no page scrolls sideways, and no table in its frame, in either language and with long names. At 390
those fit that are wanted on a phone, and no value is cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import watched
from tests.browser.operating import lists_on_the_map

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

LONG_NAME = "synchronise_the_customer-records.between_warehouse_and_crm-systems"[:64]
SEED = f"""
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from mcphub.features.approvals.models import McpApproval
from sessions_app.models import ApiKey
from tests import factories as make
from tests.rigs import seeding
from tests.tools_catalog.proposals import definition, offer

now = timezone.now()
name = {LONG_NAME!r}
title = "Synchronises the records of customers between the warehouse and the CRM systems"
client = "enterprise-integration-platform-desktop-client"
caller = "Nightly reconciliation job of the customer service department"
person = User.objects.create_superuser("operator", password="a long password")
make.UserFactory(username="reconciliation.service@customer-department.example.com", email="a" * 60 + "@example.com")
make.GroupFactory(name=caller)
for scopes in (list(ApiKey.DEFAULT_SCOPES), ["tools:list", "tools:call", "audit:read", "catalog:write", "chat"]):
    ApiKey.issue(caller + str(len(scopes)), scopes=scopes, created_by=person, expires_at=now + timedelta(days=90))
connection = make.McpConnectionFactory(
    slug="customer-warehouse-crm-eu-west1", title=title, url="https://reconciliation.customers.example.com/" + name
)
offer(connection, definition(name, description=title, title=title, inputSchema={{"type": "object"}}))
make.HttpServiceFactory(slug="customer-warehouse-crm-eu-west1", url="https://reconciliation.example.com/" + name)
make.McpToolsetFactory(slug="customer-warehouse-crm-eu-west1", title=title)
make.LaunchProfileFactory(name="reconciliation-of-customers", command="/usr/local/bin/" + name)
make.McpResourceFactory(uri="https://reconciliation.example.com/" + name, name=name, title=title)
make.McpPromptFactory(name=name, title=title)
for backend in ({{"url": connection.url}}, {{"service": "customer-warehouse-crm-eu-west1"}}):
    make.McpToolDefinitionFactory(
        name=name[: 63 if "url" in backend else 64], title=title, configuration=backend, destructive=True
    )
process = make.ServerProcessFactory(host="worker-17.reconciliation.customers.example.com")
session = make.McpSessionFactory(
    client_name=client, client_version="2026.11.0-beta", caller_label=caller, principal="key:1"
)
more = dict(
    session=session, process=process, client_name=client, client_version="2026.11.0-beta", caller_label=caller,
    tool_name=name, started_at=now, duration_ms=1234567,
)
for code in ("upstream_result_schema_mismatch", "upstream_unavailable", "schema_validation_failed"):
    make.McpToolInvocationFactory(failed=True, **more | {{"error_code": code}})
make.McpToolInvocationFactory(duplicate_of="invocation-of-long-ago", **more)
make.McpTaskFactory(session=session, process=process, tool_name=name, caller_label=caller)
make.McpRequestEnvelopeFactory(session=session, process=process, tool_name=name, principal="key:1")
McpApproval.objects.create(
    id="mcpr_7f3a", principal="key:2", caller_label=caller, turn_id="t", call_id="call_1", tool_name=name,
    tool_version="1", arguments={{"id": name}}, binding="0" * 64, created_at=now, expires_at=now + timedelta(hours=1),
)
seeding.seal()
"""
TOO_WIDE = """() => {
    const page = document.documentElement.scrollWidth
    const wide = page > innerWidth ? [["page", page, innerWidth]] : []
    for (const table of document.querySelectorAll("table")) {
        let frame = table.parentElement
        while (frame && getComputedStyle(frame).overflowX == "visible") frame = frame.parentElement
        if (frame && frame.clientWidth && frame.scrollWidth > frame.clientWidth)
            wide.push([table.id || table.closest("section")?.id || table.caption?.textContent || table.className,
                frame.scrollWidth, frame.clientWidth])
    }
    return wide
}"""


@pytest.fixture(params=["en", "ru"])
def reader(request: pytest.FixtureRequest, chromium: Any, address: str, logged_in: Any) -> Iterator[Any]:
    """A page in each language."""
    with watched(chromium, address, storage_state=logged_in, locale=request.param) as page:
        yield page


def too_wide(page: Any, where: str) -> list[str]:
    page.goto(where)
    page.wait_for_load_state("networkidle")
    if os.environ.get("MCPHUB_SCREENSHOTS"):
        language = page.evaluate("document.documentElement.lang")
        name = where.removeprefix("/admin/").strip("/").partition("?")[0].replace("/", "-") or "overview"
        page.screenshot(path=Path(os.environ["MCPHUB_SCREENSHOTS"]) / f"{name}-{language}.png", full_page=True)
    return [f"{where}: {what} {width} of {room}" for what, width, room in page.evaluate(TOO_WIDE)]


def test_the_overview_fits(reader: Any) -> None:
    assert "\n".join(too_wide(reader, "/admin/")) == ""
    assert reader.locator("#result_list, .hub-table").count() >= 5


@pytest.mark.long
def test_every_list_fits(reader: Any) -> None:
    lists = [link for link in lists_on_the_map(reader) if len(link.split("/")) == 5]
    assert len(lists) > 20
    assert "\n".join(wide for where in lists for wide in too_wide(reader, where)) == ""


@pytest.mark.parametrize("which", ["invocations/mcptoolinvocation", "tools_catalog/mcpconnection", "auth/user"])
def test_the_page_of_a_row_fits(reader: Any, which: str) -> None:
    """Also on a phone, where its tables are cards: nothing of them is beyond an edge."""
    reader.goto(f"/admin/{which}/")
    row = reader.locator("#result_list tbody a[href*='/change/']").first.get_attribute("href")
    assert too_wide(reader, row) == []
    reader.set_viewport_size({"width": 390, "height": 844})
    assert reader.evaluate(BEYOND_AN_EDGE) == []
    assert reader.evaluate("document.documentElement.scrollWidth") == 390


BEYOND_AN_EDGE = """() => [...document.querySelectorAll(".hub-page-table")]
    .filter((table) => table.parentElement.scrollWidth > table.parentElement.clientWidth)
    .map((table) => table.textContent.trim().slice(0, 60))"""


def test_a_page_with_charts_fits_a_window_that_was_made_narrower(reader: Any) -> None:
    reader.set_viewport_size({"width": 1440, "height": 900})
    reader.goto("/admin/")
    expect(reader.locator("canvas").first).to_be_visible()
    reader.set_viewport_size({"width": 1280, "height": 900})
    assert reader.evaluate("document.documentElement.scrollWidth") <= 1280


CUT = """() => [...document.querySelectorAll("#result_list .data-row > :is(td, th)")]
    .filter((cell) => cell.scrollHeight > cell.clientHeight + 1 || cell.scrollWidth > cell.clientWidth + 1)
    .map((cell) => [cell.dataset.label, cell.textContent.trim().slice(0, 60)])"""
ON_A_PHONE = (
    "/admin/",
    "/admin/connect/",
    "/admin/diagnostics/",
    "/admin/settings/",
    "/admin/invocations/auditblock/",
    "/admin/invocations/mcptoolinvocation/",
    "/admin/invocations/mcpapproval/",
    "/admin/tools_catalog/mcpupstreamtool/",
)


def test_what_is_wanted_on_a_phone_fits_there(reader: Any) -> None:
    """Tables of several columns may scroll in their frames; the page does not, and the cards of a list need not."""
    reader.set_viewport_size({"width": 390, "height": 844})
    wide, cut = list[str](), list[str]()
    for where in ON_A_PHONE:
        wide += [each for each in too_wide(reader, where) if ": page " in each]
        cut += [f"{where} {what}" for what in reader.evaluate(CUT)]
        rows = reader.locator("#result_list tbody a[href*='/change/']")
        if rows.count():
            wide += [each for each in too_wide(reader, rows.first.get_attribute("href")) if ": page " in each]
    assert [*wide, *cut] == []


def test_each_value_of_a_table_bears_the_name_of_its_column_on_a_phone(reader: Any) -> None:
    """Also where another rule about cells is more specific: the names would stand beyond the left edge."""
    reader.set_viewport_size({"width": 390, "height": 844})
    for where in ("/admin/settings/", "/admin/diagnostics/", "/admin/tools_catalog/mcptooldefinition/1/change/"):
        reader.goto(where)
        cells = reader.locator(".hub-scroll > .hub-page-table tbody [data-label]")
        expect(cells.first).to_be_visible()
        paddings = cells.evaluate_all("all => all.map((each) => getComputedStyle(each).paddingInlineStart)")
        assert set(paddings) == {"120px"}, where


UNREACHED = """() => [...document.querySelectorAll(".hub-scroll")]
    .filter((each) => each.checkVisibility() && each.scrollWidth > each.clientWidth && each.tabIndex < 0)
    .filter((each) => !each.querySelector("a[href], button, input, select, summary, [tabindex='0']"))
    .map((each) => each.textContent.trim().slice(0, 80))"""


def test_what_scrolls_sideways_on_a_phone_is_reached_by_the_keyboard(reader: Any) -> None:
    reader.set_viewport_size({"width": 390, "height": 844})
    reader.goto("/admin/invocations/mcptoolinvocation/")
    chart = reader.locator(".hub-scroll[tabindex='0']").first
    expect(chart).to_be_visible()
    assert reader.evaluate(UNREACHED) == []
