"""A person logs in by SAML with a browser, which sends the hub's cookies with no POST of the provider's page."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.browser.conftest import patient
from tests.identity.saml import ISSUER, WITHOUT_XMLSEC, SamlProvider
from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS


def make_provider(slug: str, issuer: str, login: str, certificate: str) -> None:
    from mcphub.features.login.models import LoginProvider

    row = LoginProvider(name="Firm", slug=slug, kind="saml", issuer=issuer, client_id="https://hub.example/saml")
    row.login_address, row.certificates, row.username_claim = login, certificate, "uid"
    row.admits, row.groups = "mapped", {"ops": ["Operator"]}
    row.full_clean()
    row.save()


@pytest.fixture
def hub(program: str, tmp_path: Path) -> Iterator[Hub]:
    with Hub(tmp_path) as running:
        yield running


@contextlib.contextmanager
def page_of(provider: SamlProvider, person: str, attributes: dict[str, list[str]]) -> Iterator[str]:
    """Serve the provider's page, which posts its answer by itself, as they do; give its address, of another site."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            request = provider.asked(f"{provider.login}?{self.path.partition('?')[2]}")
            response = base64.b64encode(provider.answers(request, person, attributes)).decode()
            form = f'<form method="post" action="{request.assertion_consumer_service_url}">'
            field = f'<input type="hidden" name="SAMLResponse" value="{response}"></form>'
            body = f"<!doctype html>{form}{field}<script>document.forms[0].submit()</script>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/login"
        server.shutdown()


@WITHOUT_XMLSEC
def test_an_operator_comes_by_saml_from_a_page_of_another_site(hub: Hub, chromium: Any, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    provider = SamlProvider(tmp_path)
    with page_of(provider, "subject-1", {"uid": ["ada"], "groups": ["ops"]}) as provider.login:
        hub.operate(make_provider, "firm", ISSUER, provider.login, provider.pem.read_text())
        provider.meets(httpx2.get(f"{hub.url}/login/with/firm/metadata/", timeout=PATIENCE_SECONDS).content)
        context = patient(chromium.new_context())
        page = context.new_page()
        page.goto(f"{hub.url}/admin/")
        page.get_by_role("link", name="Log in with Firm").click()
        expect(page).to_have_url(f"{hub.url}/admin/")
        expect(page.get_by_text("Enabled tools")).to_be_visible()
        assert {cookie["name"] for cookie in context.cookies()}.isdisjoint({"mcphub_login", "mcphub_asserted"})
        context.close()
