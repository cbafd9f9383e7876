"""The reason why no connection was made, worded alike on every way to an upstream."""

from __future__ import annotations

import ssl

import httpcore2
import httpx2

from tools_catalog.egress import guard as egress

_TOO_SLOW = (TimeoutError, httpcore2.ConnectTimeout, httpx2.ConnectTimeout, httpx2.PoolTimeout)


def reason(error: BaseException) -> str:
    """Return it as a sentence without the other side's words, and without secrets."""
    if str(error).startswith(("The name ", egress.PROXY)):  # of the egress guard
        return str(error)
    if isinstance(error, _TOO_SLOW):
        return "No connection was made in time."
    for cause in egress.causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "Its certificate is not trusted."
        if isinstance(cause, ssl.SSLError):
            return "It does not speak TLS there."
    return "Nothing takes connections there."
