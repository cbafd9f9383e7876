"""Whom an address stands for, where addresses are counted."""

from __future__ import annotations

import ipaddress


def network_of(address: str) -> str:
    """Give the address, or of IPv6 its network of 64 bits; nothing for a socket without addresses.

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
