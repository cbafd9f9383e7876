"""A person logs in with a browser: by a real identity provider, by an app, by a passkey."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from mcphub.features.login.factors import totp
from tests.browser.conftest import patient, watched
from tests.identity import SECRET, IdentityProvider
from tests.servers import Hub
from tests.wire.test_login_by_provider import PEOPLE, invite, make_provider

PASSWORD = "a long password"


def make_people() -> None:
    from django.contrib.auth.models import User

    User.objects.create_superuser("zoe", password=PASSWORD)


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider(PEOPLE) as provider:
        yield provider


@pytest.fixture(scope="module")
def hub(program: str, provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {"MCPHUB_EGRESS_ALLOW": f"127.0.0.1:{provider.port}"}
    with Hub(tmp_path_factory.mktemp("hub"), environment=environment) as running:
        provider.start(f"{running.url}/login/back/firm/", f"{running.url}/login/")
        running.operate(make_provider, "firm", provider.issuer, SECRET)
        running.operate(make_people)
        yield running


def test_an_operator_comes_by_the_provider_and_by_keyboard(
    hub: Hub, provider: IdentityProvider, chromium: Any, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    context = patient(chromium.new_context(viewport={"width": 1280, "height": 900}))
    page = context.new_page()
    blocked: list[str] = []
    page.on("console", lambda said: blocked.append(said.text) if "Content Security Policy" in said.text else None)
    page.goto(f"{hub.url}/admin/")
    expect(page.get_by_label("Name")).to_be_focused()
    page.get_by_role("link", name="Log in with Firm").press("Enter")
    page.fill("[name=login]", "ada")
    page.fill("[name=password]", "x")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Continue").click()
    expect(page).to_have_url(f"{hub.url}/admin/")
    expect(page.get_by_text("Enabled tools")).to_be_visible()
    page.goto(f"{hub.url}/login/own/")
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("link", name="Log out at Firm too").click()
    page.get_by_role("button", name="Yes, sign me out").click()
    expect(page).to_have_url(f"{hub.url}/login/")
    page.get_by_role("link", name="Log in with Firm").click()
    expect(page.locator("[name=login]")).to_be_visible()  # the provider asks who comes again
    assert blocked == []
    context.close()


def code_on(page: Any) -> str:
    secret = page.locator("dd code").inner_text().replace(" ", "")
    return totp.code_at(secret, int(time.time()) // totp.PERIOD_SECONDS)


def test_a_person_adds_an_app_and_a_passkey_and_logs_in_with_the_passkey_alone(hub: Hub, chromium: Any) -> None:
    from playwright.sync_api import expect

    address = hub.url.replace("127.0.0.1", "localhost")
    with watched(chromium, address) as page:
        tools = page.context.new_cdp_session(page)
        tools.send("WebAuthn.enable")
        made = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        tools.send("WebAuthn.addVirtualAuthenticator", {"options": made})
        page.goto("/login/?next=/login/own/")
        page.fill("[name=username]", "zoe")
        page.fill("[name=password]", PASSWORD)
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Add an authenticator app").click()
        expect(page.get_by_alt_text("QR code of the key")).to_be_visible()
        page.get_by_label("Code").fill(code_on(page))
        page.keyboard.press("Enter")
        expect(page.locator(".codes li")).to_have_count(10)
        recovery = page.locator(".codes li").first.inner_text()
        page.get_by_role("link", name="I saved them").click()
        page.get_by_role("link", name="Add a passkey").click()
        page.get_by_label("Name").fill("My laptop")
        page.wait_for_load_state()  # before passkeys.js the form is sent without a passkey
        page.get_by_role("button", name="Add").click()
        expect(page.get_by_text("My laptop")).to_be_visible()

        page.context.clear_cookies()
        page.goto("/login/?next=/login/own/")
        page.get_by_role("button", name="Log in with a passkey").click()
        expect(page.get_by_text("You are logged in as zoe.")).to_be_visible()

        for proof in ("passkey", recovery):
            page.context.clear_cookies()
            page.goto("/login/?next=/login/own/")
            page.fill("[name=username]", "zoe")
            page.fill("[name=password]", PASSWORD)
            page.keyboard.press("Enter")
            expect(page.get_by_text("One more step")).to_be_visible()
            if proof == "passkey":
                page.wait_for_load_state()
                page.get_by_role("button", name="Use a passkey").click()
            else:
                page.get_by_label("Code").fill(proof)
                page.keyboard.press("Enter")
            expect(page.get_by_text("You are logged in as zoe.")).to_be_visible()
        expect(page.get_by_text("9 left")).to_be_visible()


@pytest.mark.parametrize(("scheme", "locale"), [("light", "en"), ("dark", "ru")])
def test_the_pages_are_open_to_everybody(hub: Hub, chromium: Any, scheme: str, locale: str) -> None:
    """Contrast, labels and order, on a narrow screen too."""
    axe = (files("axe_playwright_python") / "axe.min.js").read_text()
    seen_by: dict[str, Any] = {"color_scheme": scheme, "locale": locale, "viewport": {"width": 360, "height": 800}}
    address = hub.url.replace("127.0.0.1", "localhost")
    found: list[Any] = []
    with contextlib.closing(patient(chromium.new_context(base_url=address, bypass_csp=True, **seen_by))) as context:
        page = context.new_page()

        def judge() -> None:
            page.wait_for_load_state()  # a page without its end, or its styles, shuts people out
            page.evaluate(axe)
            told = page.evaluate("axe.run({resultTypes: ['violations']})")
            found.extend((page.url, each["id"], each["nodes"][0]["html"]) for each in told["violations"])
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found.append((page.url, "wider than the screen"))

        page.goto(hub.operate(invite, f"guest-{locale}").replace("/login/", f"{address}/login/"))
        judge()
        page.fill("#id_password", PASSWORD)
        page.fill("#id_again", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/me/")
        for where in ("/login/own/", "/login/own/passkey/", "/login/own/app/"):
            page.goto(where)
            judge()
        page.fill("#id_code", code_on(page))
        page.keyboard.press("Enter")
        page.wait_for_selector(".codes")
        judge()
        page.context.clear_cookies()
        page.goto("/login/")
        judge()
        page.fill("#id_username", f"guest-{locale}")
        page.fill("#id_password", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/login/second/")
        judge()
    assert found == []
