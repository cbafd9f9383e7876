"""Codes of authenticator apps (RFC 6238: SHA-1, six digits, thirty seconds), which all apps know. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from urllib.parse import quote, urlencode

PERIOD_SECONDS = 30
DIGITS = 6
_SECRET_BYTES = 20
_STEPS_AROUND = 1
"""A clock may be half a minute off, in either direction."""


def new_secret() -> str:
    return base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def code_at(secret: str, step: int) -> str:
    """Return the code of a time step (RFC 4226)."""
    digest = hmac.new(base64.b32decode(secret), step.to_bytes(8, "big"), hashlib.sha1).digest()
    at = digest[-1] & 15
    number = int.from_bytes(digest[at : at + 4], "big") & 0x7FFFFFFF
    return f"{number % 10**DIGITS:0{DIGITS}}"


def step_of(secret: str, code: str, now: float, after: int) -> int | None:
    """Return the time step that a code belongs to, None where it belongs to none that comes `after` the last one
    used.
    """
    typed = "".join(code.split())
    if len(typed) != DIGITS or not (typed.isascii() and typed.isdigit()):
        return None
    here = int(now) // PERIOD_SECONDS
    found = None
    for step in range(here - _STEPS_AROUND, here + _STEPS_AROUND + 1):
        if hmac.compare_digest(code_at(secret, step), typed) and step > after:
            found = step
    return found


def address_of(secret: str, hub: str, name: str) -> str:
    """Return the address in an app's QR code: `hub` and `name` are the app's labels of the account."""
    label = quote(f"{hub}:{name}", safe="")
    return f"otpauth://totp/{label}?{urlencode({'secret': secret, 'issuer': hub}, quote_via=quote)}"
