"""Hosts as the origins of a secret name them: `api.example.org`, `*.example.org`. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _t

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")


def check(text: str) -> None:
    """Raise ValidationError for an invalid or empty list of hosts."""
    entries = list(_entries(text))
    for entry in entries:
        name = entry.removeprefix("*.")
        is_name = _NAME.fullmatch(name) and not name.rpartition(".")[2].isdecimal()
        if not is_name and (name != entry or _address(entry) is None):
            raise ValidationError(
                _t("“%(entry)s” is neither a host, such as api.example.org, nor a host pattern that begins with *.")
                % {"entry": entry}
            )
    if not entries:
        raise ValidationError(_t("Enter at least one host."))


def covers(text: str, host: str) -> bool:
    """Return whether `host`, as a request names it, is on the list. `*.` stands for one or more labels, not for
    none.
    """
    host = _plain(host)
    return any(host.endswith(entry[1:]) if entry.startswith("*.") else host == entry for entry in _entries(text))


def _entries(text: str) -> Iterator[str]:
    return (_plain(entry) for entry in re.split(r"[\s,]+", text) if entry)


def _plain(host: str) -> str:
    host = host.lower().removesuffix(".")
    address = _address(host)
    return host if address is None else str(address)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
