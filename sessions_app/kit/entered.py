"""Addresses that people enter in forms and send over REST."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

_NO_PARTS = SplitResult("", "", "", "", "")


def parts_of(address: str) -> SplitResult:
    """Return the parts of an address; empty ones, which checks reject, of what is none, such as `http://[::1`."""
    try:
        parts = urlsplit(address.strip())
        _ = parts.port, parts.hostname
    except ValueError:
        return _NO_PARTS
    return parts
