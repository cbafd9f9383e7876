"""Charts of the console: drawn from what the server tells, led on from by a click, told as a table, and printed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
pytestmark = [pytest.mark.rig, pytest.mark.long]

CALLS = "/admin/invocations/mcptoolinvocation/"
SEED = """
from django.contrib.auth.models import User
from tests import factories as make
User.objects.create_superuser("operator", password="a long password")
session = make.McpSessionFactory(client_name="zed")
process = make.ServerProcessFactory()
more = dict(session=session, process=process, client_name="zed", caller_label="laptop")
for number in range(6):
    make.McpToolInvocationFactory(tool_name="echo", request_id=number, **more)
for number in range(3):
    make.McpToolInvocationFactory(tool_name="add", failed=True, request_id=10 + number, **more)
"""
CHART = "Chart.getChart(document.querySelector('[data-chart]'))"
PART = f"""([dataset, at]) => {{ const chart = {CHART}; const bar = chart.getDatasetMeta(dataset).data[at];
    const box = chart.canvas.getBoundingClientRect(); const from = bar.getProps(['x', 'y', 'base'], true);
    return [box.x + from.x, box.y + (from.y + from.base) / 2, box.y + chart.chartArea.top + 2]; }}"""
COLOURS = f"{CHART}.data.datasets.map((_, at) => {CHART}.getDatasetMeta(at).data[0].options.backgroundColor)"
VARIABLES = """['good', 'bad'].map(kind =>
    getComputedStyle(document.documentElement).getPropertyValue(`--hub-${kind}`).trim())"""
ARE = f"wanted => JSON.stringify({COLOURS}) === JSON.stringify(wanted)"
IS_DRAWN = (
    """canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(each => each)"""
)


def opened(page: Any, place: str = CALLS) -> Any:
    """The first canvas of a page, once it is drawn."""
    page.goto(place)
    canvas = page.locator("canvas[data-chart]").first
    expect(canvas).to_be_visible()
    canvas.scroll_into_view_if_needed()
    assert canvas.evaluate(IS_DRAWN)
    return canvas


def column(page: Any) -> int:
    """The place of the last column that has calls."""
    found: int = page.evaluate(f"{CHART}.canvas.hubChart.links.findLastIndex(link => link)")
    return found


def test_a_part_leads_to_its_calls_and_the_rest_of_its_column_to_all(page: Any) -> None:
    opened(page, "/admin/")
    at = column(page)
    x, y, _ = page.evaluate(PART, [1, at])
    page.mouse.click(x, y)
    page.wait_for_url(re.compile("status"))
    expect(page.locator("#result_list > tbody")).to_have_count(3)
    opened(page, "/admin/")
    x, _, top = page.evaluate(PART, [1, at])
    page.mouse.click(x, top)
    page.wait_for_url(re.compile("mcptoolinvocation"))
    expect(page.locator("#result_list > tbody")).to_have_count(9)


def test_the_pointer_learns_the_figures(page: Any) -> None:
    opened(page)
    x, y, _ = page.evaluate(PART, [0, column(page)])
    page.mouse.move(x, y)
    assert page.evaluate(f"{CHART}.tooltip.body.map(each => each.lines[0])") == ["OK: 6", "Error: 3"]
    assert page.evaluate(f"{CHART}.canvas.matches('.hub-leads')")


def test_the_table_tells_the_same_with_the_same_links(page: Any) -> None:
    opened(page)
    links = page.evaluate(f"{CHART}.canvas.hubChart.links.filter(link => link)")
    page.get_by_text("As a table").first.click()
    table = page.locator("#hub-histogram table")
    assert table.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))") == links
    assert [int(cell) for cell in table.locator("tbody td.hub-figure").all_inner_texts()] == [6, 3, 9]


def test_colours_follow_the_theme_and_paper_is_white(page: Any, tmp_path: Path) -> None:
    page.emulate_media(color_scheme="dark")
    opened(page, "/admin/")
    dark = page.evaluate(COLOURS)
    assert dark == page.evaluate(VARIABLES)
    page.evaluate(f"window.printed = []; addEventListener('beforeprint', () => printed.push(...{COLOURS}))")
    pictures = Path(os.environ.get("MCPHUB_SCREENSHOTS", tmp_path))
    page.pdf(path=pictures / "charts.pdf")
    printed = page.evaluate("printed")
    page.wait_for_function(ARE, arg=dark)
    page.emulate_media(color_scheme="light")
    page.reload()
    page.wait_for_function(ARE, arg=printed)
    assert dark != printed
