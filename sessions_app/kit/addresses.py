"""The unit in which addresses are counted, and the names that the hub answers to."""

from __future__ import annotations

import ipaddress

from django.conf import settings


def network_of(address: str) -> str:
    """Return the address, or of IPv6 its network of 64 bits; nothing for a socket without addresses.

    One IPv6 customer has 2^64 addresses, so they count as one (RFC 6177).
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.ip_network((found, 64), strict=False))
        found = found.ipv4_mapped
    return str(found)


def own_names() -> list[str]:
    """Return the host names of requests that are let in, as Django has them: with DEBUG and no names, loopback."""
    if settings.DEBUG and not settings.ALLOWED_HOSTS:
        return [".localhost", "127.0.0.1", "[::1]"]
    return list(settings.ALLOWED_HOSTS)
