"""A hub of its own for a module, and an operator's browser that watches for what must not happen."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forking, template
from tests.browser.operating import log_in
from tests.servers import free_port
from tests.waiting import PATIENCE_SECONDS

playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
playwright.expect.set_options(timeout=PATIENCE_SECONDS * 1000)  # a machine that runs many browsers is slow


@pytest.fixture(scope="session")
def program() -> str:
    """The browser. CI takes a skip for a failure."""
    if not Path(CHROMIUM).exists():
        pytest.skip("there is no Chromium here; set CHROMIUM")
    return CHROMIUM


@pytest.fixture(scope="module")
def address(program: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """A hub of its own, with what the module's SEED makes; among it the superuser `operator`."""
    data = tmp_path_factory.mktemp("hub")
    (data / "static").mkdir()
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")},
        "MCPHUB_DATA_DIR": str(data),
        "MCPHUB_PACKS": "starter",
        "MCPHUB_LIMITS": "alias_days=0",  # a tool renamed here leaves none of its name
        "DJANGO_SETTINGS_MODULE": "mcphub.settings",
    }

    template.copy_to(data / "hub.sqlite3")
    seed = ["shell", "--verbosity", "0", "-c", request.module.SEED]
    seeded = forking.run("manage", *seed, env=variables, timeout=300)
    assert seeded.returncode == 0, seeded.stderr
    port = free_port()
    serving = ["mcphub.asgi:application", "--port", str(port), "--log-level", "warning"]
    server = forking.start("uvicorn", *serving, env=variables)
    try:
        _wait(f"http://127.0.0.1:{port}/admin/login/", server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE_SECONDS)


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=PATIENCE_SECONDS).close()
            return
        except OSError:
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server did not answer in time"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def chromium(program: str) -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
            timeout=PATIENCE_SECONDS * 1000,
        )
        yield browser
        browser.close()


_TELL = """addEventListener("securitypolicyviolation", (event) => console.error(
    `against the policy: ${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber} ` +
    `${event.sample} at ${location.pathname}`))"""


def patient(context: Any) -> Any:
    """Return the browser's context, which waits as long as a busy machine may need."""
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    return context


@contextlib.contextmanager
def watched(chromium: Any, address: str, **options: Any) -> Iterator[Any]:
    """A page of a browser's own memory; fails at its end where anything untoward was seen."""
    context = patient(chromium.new_context(viewport={"width": 1280, "height": 900}, base_url=address, **options))
    context.add_init_script(_TELL)
    page = context.new_page()
    seen: list[str] = []
    page.on("pageerror", lambda error: seen.append(f"script error: {error}"))
    page.on("dialog", lambda dialog: (seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("console", lambda said: seen.append(said.text) if said.text.startswith("against the policy") else None)
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((address, "data:", "blob:")) else seen.append(f"went out: {request.url}")
        ),
    )
    yield page
    context.close()
    assert seen == []


@pytest.fixture(scope="module")
def logged_in(chromium: Any, address: str) -> Any:
    """What a browser remembers of an operator who logged in."""
    with watched(chromium, address) as page:
        log_in(page)
        return page.context.storage_state()


@pytest.fixture
def page(chromium: Any, address: str, logged_in: Any) -> Iterator[Any]:
    """A page of the operator who is logged in."""
    with watched(chromium, address, storage_state=logged_in) as page:
        yield page
