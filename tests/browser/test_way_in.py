"""The whole way of a person without a role: invited, logged in, connected, a call made, and its record read."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import patient
from tests.browser.operating import PASSWORD
from tests.browser.test_signing_in import Visitor
from tests.clients import install
from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect


def make_operator() -> None:
    from django.contrib.auth.models import User

    User.objects.create_superuser("inviter", password=PASSWORD)


@pytest.fixture(scope="module")
def hub(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub"), packs=["starter"]) as running:
        running.operate(make_operator)
        yield running


@contextlib.contextmanager
def visiting(chromium: Any, hub: Hub) -> Iterator[Any]:
    context = patient(chromium.new_context(base_url=hub.url))
    yield context.new_page()
    context.close()


def invited(page: Any, name: str) -> str:
    page.goto("/admin/login/?next=/admin/login/invitation/add/")
    page.get_by_label("Name").fill("inviter")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.wait_for_url("/admin/login/invitation/add/")  # the page before has a field of this name, too
    page.locator("[name=username]").fill(name)
    page.locator("[name=_save]").click()
    link: str = page.locator("#hub-invitation").inner_text()
    return "/login/invited/" + link.partition("/login/invited/")[2].strip()


def refusals(page: Any) -> list[tuple[str, int, str]]:
    """Return the links of the page that lead to a refusal or to another login."""
    found = []
    for link in page.evaluate(
        "[...document.querySelectorAll('main a[href], header a[href]')].map((each) => each.href)"
    ):
        if link.startswith("http"):
            answer = page.request.get(link)
            if answer.status >= 400 or "/login/" in answer.url.replace("/login/own/", ""):
                found.append((link, answer.status, answer.url))
    return found


def test_an_invited_person_comes_to_a_recorded_call_without_an_operator(hub: Hub, chromium: Any) -> None:
    with visiting(chromium, hub) as operator:
        link = invited(operator, "dana")
    with visiting(chromium, hub) as page:
        page.goto(link)
        for field in ("password", "again"):
            page.locator(f"[name={field}]").fill("a rather long one")
        page.locator("main button[type=submit]").first.click()
        expect(page).to_have_url(f"{hub.url}/me/")
        expect(page.get_by_text("No client has called in your name yet")).to_be_visible()
        tools = page.get_by_role("region", name="Your tools")
        expect(tools.locator("dt", has_text="echo")).to_be_visible()
        assert refusals(page) == []
        page.goto("/")
        expect(page).to_have_url(f"{hub.url}/me/")

        address = page.locator("#endpoint").inner_text()
        script = Path(install.__file__).parent / "signin_v2.py"
        with Visitor([sys.executable, str(script), address]) as client:
            page.goto(client.says(r"^visit (\S+)$"))
            page.get_by_role("button", name="Allow", exact=True).click()
            assert client.says(r'^"(.*)"$') == "signed in"
            assert client.process.wait(PATIENCE_SECONDS) == 0

        page.goto("/me/")
        expect(page.get_by_text("Your last call arrived at")).to_be_visible()
        page.locator("#calls tr", has_text="echo").get_by_role("link").first.click()
        expect(page.get_by_text("signed in").first).to_be_visible()
        assert refusals(page) == []
