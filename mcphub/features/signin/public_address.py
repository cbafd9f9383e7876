"""A check for `mcphub doctor`: whether clients elsewhere reach this hub's sign-in at its public address.

What stands between them, a proxy or a tunnel, may answer in its place, change the host or be gone; clients then fail
with words of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
from django.conf import settings
from django.utils.translation import gettext as _

from mcphub.process.doctor import Finding
from sessions_app import endpoints
from sessions_app.models import ServerProcess

_SECONDS = 10.0
_MOST_BYTES = 64 * 1024


def check() -> Iterator[Finding]:
    """Ask for the document that clients read first (RFC 9728), where a hub runs."""
    if not settings.MCPHUB_SIGN_IN or not ServerProcess.objects.filter(status=ServerProcess.Status.RUNNING).exists():
        return
    url = endpoints.document(endpoints.MAIN)
    try:
        status, body = _read(url)
    except httpx2.HTTPError as error:
        yield Finding(
            "wrong",
            _("%(url)s cannot be reached: %(why)s.") % {"url": url, "why": str(error) or type(error).__name__},
            _(
                "Clients elsewhere can't connect. Check MCPHUB_PUBLIC_URL, its name and certificate, and the proxy or "
                "tunnel in front of the hub. If your network doesn't route its own public address, only this "
                "machine is affected."
            ),
        )
        return
    found = _object(body)
    if status == 200 and found.get("resource") == endpoints.identifier(endpoints.MAIN):
        return
    values = {"url": url, "status": status}
    if status == 200 and "resource" in found:
        yield Finding(
            "wrong",
            _("%(url)s describes %(found)s instead.") % {**values, "found": str(found["resource"])[:200]},
            _("Set MCPHUB_PUBLIC_URL to the address that clients use, or point the proxy or tunnel to this hub."),
        )
    elif "error" in found:
        yield Finding(
            "wrong",
            _("%(url)s is refused with status %(status)d: %(why)s") % {**values, "why": _message(found["error"])},
            _("Let the proxy or tunnel pass on the Host header unchanged, and add that host to MCPHUB_ALLOWED_HOSTS."),
        )
    else:
        yield Finding(
            "wrong",
            _("Something else answers %(url)s, with status %(status)d.") % values,
            _(
                "Let the proxy or tunnel pass on every path below MCPHUB_PUBLIC_URL, without a login or warning page "
                "of its own."
            ),
        )


def _read(url: str) -> tuple[int, bytes]:
    body = b""
    with (
        httpx2.Client(timeout=_SECONDS, trust_env=False, proxy=settings.MCPHUB_EGRESS_PROXY or None) as http,
        http.stream("GET", url, headers={"accept": "application/json"}) as answer,
    ):
        for chunk in answer.iter_bytes():
            body += chunk
            if len(body) > _MOST_BYTES:
                break
        return answer.status_code, body[:_MOST_BYTES]


def _object(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _message(error: object) -> str:
    words = error.get("message") if isinstance(error, dict) else error
    return str(words)[:200]
