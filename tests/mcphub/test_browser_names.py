"""The browsers of open logins, as people call them."""

from __future__ import annotations

import pytest

from mcphub.my_access.open_now import browser

_LINUX = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (f"{_LINUX} Chrome/156.0.0.0 Safari/537.36", "Chrome 156, Linux"),
        (f"{_LINUX} Chrome/156.0.0.0 Safari/537.36 Edg/156.0.1.2", "Edge 156, Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox 140, Windows"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 Version/18.1 Safari/604.1",
            "Safari 18, iPhone",
        ),
        ("curl/8.14.1", "curl/8.14.1"),
        ("Mozilla/5.0", "Mozilla/5.0"),
        ("", ""),
    ],
)
def test_a_browser_is_named(user_agent: str, name: str) -> None:
    assert browser(user_agent) == name
