"""Codes of authenticator apps, against the published ones (RFC 6238, appendix B)."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.login.factors import totp

SECRET = base64.b32encode(b"12345678901234567890").decode()


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (59, "94287082"),
        (1111111109, "07081804"),
        (1111111111, "14050471"),
        (1234567890, "89005924"),
        (2000000000, "69279037"),
        (20000000000, "65353130"),
    ],
)
def test_codes_are_those_of_the_standard(now: int, code: str) -> None:
    assert totp.code_at(SECRET, now // 30) == code[-6:]
    assert totp.step_of(SECRET, f"{code[2:5]} {code[5:]}", now, 0) == now // 30


@given(st.integers(100, 10**9), st.integers(-5, 5))
def test_a_code_is_good_for_a_moment_and_once(step: int, away: int) -> None:
    code = totp.code_at(SECRET, step + away)
    found = totp.step_of(SECRET, code, step * 30 + 7, 0)
    if abs(away) <= 1:
        assert found is not None
        assert totp.step_of(SECRET, code, step * 30 + 7, found) is None


@given(st.text())
def test_what_is_no_code_is_none(text: str) -> None:
    found = totp.step_of(SECRET, text, 59, 0)
    assert found is None or "".join(text.split()) == totp.code_at(SECRET, found)
