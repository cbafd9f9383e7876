"""Badge, toast and list of notices in a real browser, at a hub of two workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests import telling_operations as telling
from tests.browser.conftest import patient
from tests.browser.operating import PASSWORD
from tests.servers import Hub

pytestmark = pytest.mark.program


def make_operator(name: str) -> None:
    from django.contrib.auth.models import User

    User.objects.create_superuser(name, f"{name}@example.org", PASSWORD)


@pytest.fixture(scope="module")
def hub(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub"), flags=["--workers", "2"]) as running:
        running.operate(make_operator, "chief")
        yield running


@pytest.fixture(params=["en-light", "ru-dark"])
def page(request: pytest.FixtureRequest, hub: Hub, chromium: Any) -> Iterator[Any]:
    language, look = request.param.split("-")
    context = patient(
        chromium.new_context(
            base_url=hub.url,
            locale=language,
            color_scheme=look,
            viewport={"width": 1280, "height": 800},
            extra_http_headers={"Accept-Language": language},
        )
    )
    blocked: list[str] = []
    page = context.new_page()
    page.on("console", lambda said: blocked.append(said.text) if said.type == "error" else None)
    page.goto("/admin/login/")
    page.fill("[name=username]", "chief")
    page.fill("[name=password]", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_selector("[data-notices][data-live=open]")
    yield page
    context.close()
    assert blocked == []


def shot(page: Any, name: str) -> None:
    """Keep a picture where somebody asked for pictures."""
    if folder := os.environ.get("MCPHUB_TEST_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png")


def test_a_notice_appears_at_once_and_is_seen_with_the_list(
    hub: Hub, page: Any, request: pytest.FixtureRequest
) -> None:
    from playwright.sync_api import expect

    look = request.node.callspec.params["page"]
    # It goes after a while, and `operate` waits for both workers: it is looked for meanwhile. The hub may have others.
    with ThreadPoolExecutor(1) as beside:
        facts = {"connection": "shop", "error": "refused <b>by</b> it"}
        noted = beside.submit(hub.operate, telling.note, "connection.down", f"shop {look}", **facts)
        expect(page.locator(".hub-toast", has_text="refused <b>by</b> it")).to_be_visible()
        noted.result()
    expect(page.locator("[data-notices-count]")).to_be_visible()
    hub.operate(telling.note, "audit.alarm", f"alarm {look}", problem="block 7 was changed.")
    expect(page.locator(".hub-toast-alarm")).to_be_visible()
    shot(page, f"toast-{look}")
    page.click("[data-notices]")
    expect(page.locator("#result_list")).to_contain_text("shop")
    expect(page.locator("[data-notices-count]")).to_be_hidden()
    shot(page, f"list-{look}")
    page.locator("#result_list").get_by_role("link").last.click()
    shot(page, f"notice-{look}")


def test_a_person_chooses_what_and_where(page: Any, request: pytest.FixtureRequest) -> None:
    from playwright.sync_api import expect

    look = request.node.callspec.params["page"]
    page.goto("/admin/telling/subscription/add/")
    page.fill("#id_name", f"hook {look}")
    page.select_option("#id_way", "webhook")
    page.click("[name=_save]")
    expect(page.locator(".errorlist, .text-red-600").first).to_be_visible()
    page.fill("#id_address", "http://127.0.0.1:9/secret")
    shot(page, f"add-{look}")
    page.click("[name=_save]")
    shot(page, f"refused-{look}")
    page.fill("#id_address", "https://hooks.example/services/secret")
    page.click("[name=_save]")
    expect(page.get_by_text("whsec_")).to_be_visible()
    expect(page.locator("#result_list")).to_contain_text("https://hooks.example/…")
    expect(page.locator("body")).not_to_contain_text("services/secret")
    shot(page, f"subscriptions-{look}")
