"""What a client is told of its limit, and whose limit it is."""

from __future__ import annotations

import pytest

from invocations.ledger.limits import Drawn, Quota, client_of
from sessions_app.caller import ANONYMOUS, Caller

QUOTA = Quota("chat", 10, 1 / 6)


def test_headers_tell_what_is_left_and_when_all_is_there_again():
    assert Drawn(QUOTA, 9, 0).headers() == {
        "RateLimit-Policy": '"chat";q=10;w=60',
        "RateLimit": '"chat";r=9;t=6',
        "X-RateLimit-Limit": "10",
        "X-RateLimit-Remaining": "9",
        "X-RateLimit-Reset": "6",
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "9",
        "x-ratelimit-reset-requests": "6s",
    }


def test_a_refusal_tells_when_to_come_back_in_whole_seconds():
    told = Drawn(QUOTA, 0.25, 4.5).headers()
    assert (told["Retry-After"], told["RateLimit"]) == ("5", '"chat";r=0;t=59')
    assert Drawn(QUOTA, 0.999, 0.006).headers()["Retry-After"] == "1"


def test_a_quota_by_the_minute_fills_in_one():
    quota = Quota.per_minute("tools/call", 30)
    assert Drawn(quota, 29, 0).headers()["RateLimit-Policy"] == '"tools/call";q=30;w=60'


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "address:192.0.2.7"),
        ("::ffff:192.0.2.7", "address:192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "address:2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "address:2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "address:2001:db8:1:3::/64"),
        ("fe80::1%eth0", "address:fe80::/64"),
        ("", "address:"),
        ("not an address", "address:"),
    ],
)
def test_without_a_key_the_network_is_the_client(address, client):
    assert client_of(ANONYMOUS, address) == client


def test_a_key_is_one_client_from_wherever_it_calls():
    caller = Caller(principal="key:7", label="", scopes=frozenset())
    assert {client_of(caller, "192.0.2.1"), client_of(caller, "::1")} == {"key:7"}
