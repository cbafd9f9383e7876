"""A proxy that ends TLS before a hub that was not told so: the page and the check name the setting."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import RequestFactory

from mcphub import checks, error_pages


@pytest.mark.parametrize(
    ("origin", "is_secure", "is_named"),
    [("https://testserver", False, True), ("https://testserver", True, False), ("https://other.example", False, False)],
)
def test_a_form_that_lost_its_tls_on_the_way_names_the_setting(origin: str, is_secure: bool, is_named: bool) -> None:
    request = RequestFactory().post("/admin/login/", HTTP_ORIGIN=origin, HTTP_ACCEPT="text/html", secure=is_secure)
    answer: Any = error_pages.unverified(request)
    assert answer.status_code == 403
    assert ("MCPHUB_BEHIND_PROXY" in answer.content.decode()) is is_named


@pytest.mark.parametrize(
    ("url", "header", "count"),
    [
        ("https://hub.example", None, 1),
        ("https://hub.example", ("HTTP_X_FORWARDED_PROTO", "https"), 0),
        ("http://hub.example", None, 0),
    ],
)
def test_a_public_address_with_tls_needs_a_trusted_proxy(url: str, header: Any, count: int, settings: Any) -> None:
    settings.MCPHUB_PUBLIC_URL, settings.SECURE_PROXY_SSL_HEADER = url, header
    assert len(checks.proxy_that_is_not_trusted()) == count
