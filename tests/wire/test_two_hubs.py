"""Two hubs on one host: a browser gives a cookie to every port, and yet keeps a login at each of them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import httpx2
import pytest

from tests import operations
from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program
PASSWORD = "a long password"


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Hub]]:
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(Hub(tmp_path_factory.mktemp(name))) for name in ("first", "second"))
        for hub, name in ((first, "ada"), (second, "grace")):
            hub.operate(operations.create_superuser, name, PASSWORD)
        yield first, second


def send(browser: httpx2.Client, address: str, page: str, **fields: str) -> httpx2.Response:
    """Send the form of a page, with the token that stands in it."""
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', browser.get(page).text)
    assert found is not None, page
    return browser.post(address, data={"csrfmiddlewaretoken": found[1], **fields}, headers={"referer": page})


def test_a_browser_keeps_a_login_at_each_of_two_hubs(hubs: tuple[Hub, Hub]) -> None:
    first, second = hubs
    with httpx2.Client(timeout=PATIENCE_SECONDS) as browser:
        for hub, name in ((first, "ada"), (second, "grace")):
            page = f"{hub.url}/admin/login/"
            entered = send(browser, page, page, username=name, password=PASSWORD, next="/admin/")
            assert entered.status_code == 302, entered.text
        # Both jars of cookies are one: the names tell the hubs apart, not the host.
        assert len({cookie.name for cookie in browser.cookies.jar}) == len(list(browser.cookies.jar)) >= 4
        for hub, name in ((first, "ada"), (second, "grace"), (first, "ada")):
            shown = browser.get(f"{hub.url}/admin/")
            assert shown.status_code == 200
            assert name in shown.text
        out = send(browser, f"{second.url}/admin/logout/", f"{second.url}/admin/")
        assert out.status_code in (200, 302)
        assert browser.get(f"{second.url}/admin/").status_code == 302
        assert browser.get(f"{first.url}/admin/").status_code == 200
