"""The hosts of a secret: what may be written, and which requests that covers."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from tools_catalog.egress import hosts


@pytest.mark.parametrize(
    "text",
    ["api.example.org", "API.example.org, *.example.net", "a\nb", "*.internal", "10.0.3.7", "::1 [fd00::1]", "a_b."],
)
def test_hosts_and_ends_of_names_may_be_written(text: str) -> None:
    hosts.check(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "*",
        "*.",
        "*example.org",
        "a.*.org",
        "https://a.org",
        "a.org:443",
        "a/b",
        "*.0.0.1",
        "*.::1",
        "ä.org",
        "1.2.3",
        "a.org *",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        hosts.check(text)


@pytest.mark.parametrize(
    ("text", "host", "covered"),
    [
        ("api.example.org", "api.example.org", True),
        ("API.example.org", "api.example.org.", True),
        ("x, api.example.org", "api.example.org", True),
        ("api.example.org", "evil-api.example.org", False),
        ("api.example.org", "api.example.org.evil.net", False),
        ("*.example.org", "api.example.org", True),
        ("*.example.org", "a.b.example.org", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", "evilexample.org", False),
        ("[FD00:0::1]", "fd00::1", True),
        ("10.0.3.7", "10.0.3.7", True),
        ("", "", False),
    ],
)
def test_a_host_is_covered_by_its_name_or_its_end(text: str, host: str, covered: bool) -> None:
    assert hosts.covers(text, host) is covered
