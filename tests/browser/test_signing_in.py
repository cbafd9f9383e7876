"""Clients that others wrote come to a call with nothing but an address; a browser does the person's part."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from mcphub.clients import address_only
from tests.browser.conftest import patient
from tests.clients import install
from tests.servers import ROOT, Hub, free_port
from tests.waiting import PATIENCE_SECONDS
from tests.wire.signing_in import DEVICE, Client

AUTHORIZE = r"(http://127\.0\.0\.1:\d+/oauth/authorize/\S+)"
NAME, PASSWORD = "anna", "a long password"


def make_person() -> None:
    from django.contrib.auth.models import User

    User.objects.create_user(NAME, password=PASSWORD)


@pytest.fixture(scope="module")
def hub(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub"), packs=["starter"]) as running:
        running.operate(make_person)
        yield running


class Visitor:
    """A client of others at work, and what it says."""

    def __init__(self, words: list[str], environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._watch = threading.Timer(PATIENCE_SECONDS, self.process.kill)
        self._watch.start()

    def __enter__(self) -> Visitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.cancel()
        self.process.kill()
        self.process.communicate()

    def sends(self, id: int | None, method: str, params: Any) -> None:
        assert self.process.stdin is not None
        numbered = {} if id is None else {"id": id}
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **numbered, "method": method, "params": params}) + "\n")
        self.process.stdin.flush()

    def says(self, pattern: str) -> str:
        """Read on until a line says it; give what is in its brackets."""
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError("".join(said))


def visitor_of(runtime: str, hub: Hub) -> Visitor:
    address = f"{hub.url}/mcp"
    if runtime == "node":
        folder = install.needed("node")
        script = install.scripts(folder) / "signin.mjs"
        return Visitor([str(folder / "node_modules/.bin/node"), str(script), address], install.node_environment(folder))
    script = Path(install.__file__).parent / f"signin_v{runtime[0]}.py"
    python = sys.executable if runtime == "2.3.0" else str(install.needed(runtime))
    return Visitor([python, str(script), address])


def lets_in(page: Any, address: str, closing: str = "You may close this page") -> None:
    """The person logs in where that is asked, by keyboard, and allows it; `closing` is what the client then shows."""
    from playwright.sync_api import expect

    page.goto(address)
    if "/oauth/login/" in page.url:
        expect(page.get_by_label("Name")).to_be_focused()
        page.keyboard.type(NAME)
        page.keyboard.press("Tab")
        page.keyboard.type(PASSWORD)
        page.keyboard.press("Enter")
    allow = page.get_by_role("button", name="Allow", exact=True)
    expect(allow).to_be_visible()
    allow.focus()
    page.keyboard.press("Enter")
    if closing:
        expect(page.get_by_text(closing)).to_be_visible()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    context = patient(chromium.new_context())
    blocked: list[str] = []
    page = context.new_page()
    page.on("console", lambda said: blocked.append(said.text) if "Content Security Policy" in said.text else None)
    yield page
    context.close()
    assert blocked == []


@pytest.mark.parametrize("runtime", ["1.30.0", "2.3.0", "node"])
def test_an_sdk_signs_in_with_nothing_but_the_address(hub: Hub, page: Any, runtime: str) -> None:
    with visitor_of(runtime, hub) as visitor:
        lets_in(page, visitor.says(r"^visit (\S+)$"))
        assert json.loads(visitor.says(r'^(".*")$')) == "signed in"
        assert visitor.process.wait(PATIENCE_SECONDS) == 0
    row = hub.rows(tool="echo")[0]
    assert row["caller_label"].startswith(f"{NAME} via ")
    assert row["principal"].startswith("user:")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("locale", "allow"), [("en", "Allow"), ("ru", "Разрешить")])
def test_the_pages_are_open_to_everybody(hub: Hub, chromium: Any, scheme: str, locale: str, allow: str) -> None:
    """Contrast, labels and order, on a narrow screen too."""
    from playwright.sync_api import expect

    axe = (files("axe_playwright_python") / "axe.min.js").read_text()
    seen_by: dict[str, Any] = {"color_scheme": scheme, "locale": locale, "viewport": {"width": 360, "height": 800}}
    with (
        Client(hub, grants=("authorization_code", DEVICE)) as client,
        contextlib.closing(patient(chromium.new_context(base_url=hub.url, bypass_csp=True, **seen_by))) as context,
    ):
        page = context.new_page()
        page.goto(client.address())
        found = []

        def judge() -> None:
            page.wait_for_load_state()  # a page without its end, or its styles, shuts people out
            page.evaluate(axe)
            told = page.evaluate("axe.run({resultTypes: ['violations']})")
            found.extend((each["id"], each["nodes"][0]["html"]) for each in told["violations"])
            found.extend(["wider than the screen"] * page.evaluate("document.documentElement.scrollWidth > innerWidth"))

        judge()
        page.fill("#id_username", NAME)
        page.fill("#id_password", PASSWORD)
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name=allow, exact=True)).to_be_visible()
        judge()
        asked = {"client_id": client.id, "resource": f"{hub.url}/mcp"}
        told = client.http.post("/oauth/device_authorization/", data=asked).json()
        page.goto("/oauth/device/")
        judge()
        page.keyboard.type(told["user_code"].lower())
        page.keyboard.press("Enter")
        button = page.get_by_role("button", name=allow, exact=True)
        expect(button).to_be_visible()
        judge()
        button.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_be_visible()
        judge()
        waiting = {"grant_type": DEVICE, "device_code": told["device_code"]}
        assert client.token(**waiting, client_id=client.id).json()["refresh_token"]
    assert found == []


def test_mcp_remote_signs_in_with_nothing_but_the_address(hub: Hub, page: Any, tmp_path: Path) -> None:
    folder = install.needed("node")
    words = [str(folder / "node_modules/.bin/mcp-remote"), f"{hub.url}/mcp", "--transport", "http-only"]
    with Visitor(words, {**install.node_environment(folder), "MCP_REMOTE_CONFIG_DIR": str(tmp_path)}) as visitor:
        lets_in(page, visitor.says(AUTHORIZE), closing="Authorization successful")
        whom = {"name": "bridged", "version": "1"}
        visitor.sends(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": whom})
        assert visitor.says(r'^{"jsonrpc":"2.0","id":1,"(\w+)"') == "result"
        visitor.sends(None, "notifications/initialized", {})
        visitor.sends(2, "tools/call", {"name": "echo", "arguments": {"text": "bridged"}})
        assert visitor.says(r'^{"jsonrpc":"2.0","id":2,.*"text":"(\w+)"') == "bridged"
    assert hub.rows(tool="echo")[0]["caller_label"].startswith(f"{NAME} via MCP CLI Proxy")


def test_the_inspector_signs_in_with_nothing_but_the_address(hub: Hub, page: Any, tmp_path: Path) -> None:
    folder = install.needed("node")
    [told] = [each.text for each in address_only(f"{hub.url}/mcp") if each.key == "inspector"]
    words = shlex.split(
        told.replace("--method tools/list", "--method tools/call --tool-name echo --tool-arg text=seen")
    )
    words[:3] = [str(folder / "node_modules/.bin/mcp-inspector")]
    callback = f"http://127.0.0.1:{free_port()}/oauth/callback"
    own = {
        "HOME": str(tmp_path),
        "BROWSER": "true",
        "MCP_AUTO_OPEN_ENABLED": "true",
        "MCP_OAUTH_CALLBACK_URL": callback,
    }
    with Visitor(words, {**install.node_environment(folder), **own}) as visitor:
        lets_in(page, visitor.says(AUTHORIZE), closing="")
        assert visitor.says(r'"text": "(\w+)"') == "seen"
    assert hub.rows(tool="echo")[0]["caller_label"].startswith(f"{NAME} via ")


def test_the_official_suite_finds_nothing_amiss_with_the_server(hub: Hub, page: Any, tmp_path: Path) -> None:
    folder = install.needed("node")
    port = free_port()
    callback = f"http://127.0.0.1:{port}/callback"
    with Client(hub, redirect_uri=callback) as client:
        words = ["conformance", "authorization", "--url", hub.url, "--client-id", client.id, "--port", str(port)]
    words += ["--resource", f"{hub.url}/mcp"]
    words[0] = str(folder / "node_modules/.bin/conformance")
    with Visitor([*words, "--output-dir", str(tmp_path)], install.node_environment(folder)) as visitor:
        lets_in(page, visitor.says(AUTHORIZE), closing="")
        out, _ = visitor.process.communicate(timeout=PATIENCE_SECONDS)
    assert visitor.process.returncode == 0, out
    found = [check for file in tmp_path.rglob("checks.json") for check in json.loads(file.read_text())]
    assert len(found) >= 3
    assert [check for check in found if check["status"] not in ("SUCCESS", "INFO")] == []
