"""Where requests may go: rules over URLs and addresses. Pure; `egress` holds every request to them.

A URL is looked at twice: its text, which may hide where it leads, and each address that its host turns out to have.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import httpx2

from sessions_app.advice import Advice
from sessions_app.protocol.errors import EgressRefused
from tools_catalog.egress import listed
from tools_catalog.egress.hosts_and_networks import HOST, NUMERIC_LABEL, Address, HostList

MAX_REDIRECTS = 5

# Beyond what `ipaddress` calls global or not. IPv4: translation and relay ranges, and two clouds' metadata
# and host services that live on addresses of public or shared ranges.
# fmt: off
_CLOSED_V4 = tuple(map(IPv4Network, (
    "0.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.0/24",
    "192.88.99.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
)))
# IPv6: ranges inside or outside 2000::/3 that carry an IPv4 address or lead to no public host.
_CLOSED_V6 = tuple(map(IPv6Network, (
    "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16",
    "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)))
# fmt: on
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254")
)
"""Closed to an allowed host *name* and to the console's list; only an address or network of the setting opens them."""

ALLOW = Advice(
    page="An operator can allow it under Connections, Allowed hosts, or in MCPHUB_EGRESS_ALLOW.",
    command="Allow it in MCPHUB_EGRESS_ALLOW, or in the console under Connections, Allowed hosts.",
    neutral="An operator can allow it, under Allowed hosts or in MCPHUB_EGRESS_ALLOW.",
)
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\x9f\\]")


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Where requests may go: nowhere that `deny` names; to public addresses, with `only` to those that it names; to
    others only where `allow` names them, or the list of the console. Each is a list of entries as `HostList` takes
    them; a malformed entry raises ValueError.
    """

    allow: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("http", "https")
    max_redirects: int = MAX_REDIRECTS
    deny: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    is_live: bool = False
    """It also allows the hosts that operators list in the console, as they stand at each request."""
    _allow: HostList = field(init=False, repr=False)
    _deny: HostList = field(init=False, repr=False)
    _only: HostList = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_allow", HostList("MCPHUB_EGRESS_ALLOW", self.allow))
        object.__setattr__(self, "_deny", HostList("MCPHUB_EGRESS_DENY", self.deny))
        object.__setattr__(self, "_only", HostList("MCPHUB_EGRESS_ONLY", self.only))

    @classmethod
    def from_settings(cls) -> EgressPolicy:
        from django.conf import settings

        return cls(
            allow=tuple(settings.MCPHUB_EGRESS_ALLOW),
            deny=tuple(settings.MCPHUB_EGRESS_DENY),
            only=tuple(settings.MCPHUB_EGRESS_ONLY),
            is_live=True,
        )

    def check_url(self, url: str) -> None:
        """Raise `EgressRefused` for a URL that leads, or hides that it leads, where it must not.

        Names are not resolved here: that happens when the connection is made.
        """
        self.check_parsed(parse(url))

    def check_parsed(self, url: httpx2.URL) -> None:
        """Do as `check_url` does, for a URL that `parse` gave."""
        if url.scheme not in self.schemes:
            raise EgressRefused(f"Only {' and '.join(self.schemes)} URLs can be requested.")
        if url.userinfo:
            raise EgressRefused("The URL contains a user name or password. Remove it.")
        port = url.port if url.port is not None else {"http": 80, "https": 443}.get(url.scheme, 0)
        if not 0 < port < 65536:
            raise EgressRefused("The port of the URL is not valid.")
        host = url.raw_host.decode("ascii").lower()
        address = literal_address(host)
        if address is not None:
            self.check_address(address, host=host, port=port)
            return
        if self._deny.names(host, port):
            raise _denied(host, port)
        if self._allows(host, port):
            return
        if host == "localhost" or host.endswith(".localhost"):
            raise _refusal(host, port)
        # A private network of the list of what is allowed may hold it, too.
        has_networks = (
            self._only.has_networks or self._allow.has_networks or (self.is_live and listed.current.has_networks)
        )
        if self._only and not (self._only.names(host, port) or has_networks):
            raise _not_listed(host, port)

    def check_address(self, address: Address, *, host: str, port: int) -> None:
        """Raise `EgressRefused` unless `address`, or `host` that has it, may be reached."""
        if self._deny.names(host, port) or self._deny.holds(address, port):
            raise _denied(host, port)
        if self._allow.holds(address, port):
            return
        if self.is_live and address not in _METADATA and listed.current.holds(address, port):
            return
        if is_public(address):
            if self._only and not (
                self._only.names(host, port) or self._only.holds(address, port) or self._allows(host, port)
            ):
                raise _not_listed(host, port)
            return
        if self._allows(host, port) and address not in _METADATA:
            return
        raise _refusal(host, port)

    def names_host(self, host: str, port: int) -> bool:
        """Return whether an operator listed this host by its name, and so trusts it though its addresses are not
        known.
        """
        return self._allows(host, port) or self._only.names(host, port)

    def _allows(self, host: str, port: int) -> bool:
        return self._allow.names(host, port) or (self.is_live and listed.current.names(host, port))


def is_public(address: Address) -> bool:
    """Return whether an address is one host of the public internet, with every disguise taken off."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        return (
            address in _GLOBAL_UNICAST and address.is_global and not any(address in network for network in _CLOSED_V6)
        )
    return address.is_global and not address.is_multicast and not any(address in network for network in _CLOSED_V4)


def parse(url: str) -> httpx2.URL:
    """Read a URL; raise `EgressRefused` for one that two readers may read differently."""
    # httpx2 would encode or drop these; another reader of the same text might not.
    if _UNSAFE.search(url):
        raise EgressRefused("The URL contains spaces, control characters or backslashes.")
    try:
        return httpx2.URL(url)
    except httpx2.InvalidURL as exc:
        raise EgressRefused("The URL is not valid.") from exc


def literal_address(host: str) -> Address | None:
    """Return the address that a URL's host spells, None for a name. Rejects texts that only look like a name."""
    if not host:
        raise EgressRefused("The URL has no host.")
    if ":" in host:
        if "%" in host:
            raise EgressRefused("The URL's host carries an IPv6 zone.")
        try:
            return IPv6Address(host)
        except ValueError as exc:
            raise EgressRefused("The URL's host is not valid.") from exc
    if host.endswith(".") or not HOST.match(host) or ".." in host:
        raise EgressRefused("The URL's host is not a plain name or address.")
    # A last label that is a number makes other resolvers read the whole as an IPv4 address: 127.1, 0x7f.1.
    if NUMERIC_LABEL.match(host.rpartition(".")[2]):
        try:
            return IPv4Address(host)
        except ValueError as exc:
            raise EgressRefused("Write the IPv4 address as four decimal numbers.") from exc
    return None


def _refusal(host: str, port: int) -> EgressRefused:
    return EgressRefused(
        f"'{host}' is not on the public internet, so the hub does not send requests there. {ALLOW.words()}",
        host=host,
        port=port,
    )


def _denied(host: str, port: int) -> EgressRefused:
    return EgressRefused(f"'{host}' is closed to the hub by its operator (MCPHUB_EGRESS_DENY).", host=host, port=port)


def _not_listed(host: str, port: int) -> EgressRefused:
    return EgressRefused(
        f"'{host}' is not among the hosts that the hub may reach. The operator can add it to MCPHUB_EGRESS_ONLY.",
        host=host,
        port=port,
    )
