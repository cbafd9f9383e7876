"""Lists of hosts, addresses and networks, as settings and operators write them. Pure."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

NUMERIC_LABEL = re.compile(r"^(0[xX][0-9a-fA-F]*|[0-9]+)\Z")
HOST = re.compile(r"^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\Z")


@dataclass(frozen=True, slots=True)
class HostList:
    """Hosts, addresses and networks, each with or without a port, as a setting names them.

    An entry is a host, all names below one (`*.example.com`), an address or a network (`10.0.0.0/8`); a host or an
    address may have a port (`[::1]:8080`). A malformed one raises ValueError.
    """

    setting: str
    entries: tuple[str, ...] = ()
    _networks: tuple[tuple[IPv4Network | IPv6Network, int | None], ...] = field(init=False, repr=False)
    _hosts: frozenset[tuple[str, int | None]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        networks: list[tuple[IPv4Network | IPv6Network, int | None]] = []
        hosts: set[tuple[str, int | None]] = set()
        for entry in self.entries:
            host, port = self._split(entry)
            try:
                networks.append((ipaddress.ip_network(host), port))
            except ValueError as exc:
                name = host.removeprefix("*.")
                if not HOST.match(name) or NUMERIC_LABEL.match(name.rpartition(".")[2]):
                    raise ValueError(f"{self.setting}: '{entry}' is not a host, an address or a network.") from exc
                hosts.add((host.lower(), port))
        object.__setattr__(self, "_networks", tuple(networks))
        object.__setattr__(self, "_hosts", frozenset(hosts))

    def __bool__(self) -> bool:
        return bool(self.entries)

    @property
    def has_networks(self) -> bool:
        return bool(self._networks)

    def names(self, host: str, port: int) -> bool:
        """Return whether the host is named, or all names below one that it is below."""
        if not self._hosts:
            return False
        labels = host.split(".")
        spellings = (host, *(f"*.{'.'.join(labels[at:])}" for at in range(1, len(labels))))
        return any((each, of_port) in self._hosts for each in spellings for of_port in (None, port))

    def holds(self, address: Address, port: int) -> bool:
        """Return whether the address is named, or in a network that is."""
        plain = address.ipv4_mapped if isinstance(address, IPv6Address) and address.ipv4_mapped else address
        return any(
            of_port in (None, port) and (address in network or plain in network) for network, of_port in self._networks
        )

    def _split(self, entry: str) -> tuple[str, int | None]:
        bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", entry)
        if bracketed:
            host, port = bracketed[1], bracketed[2]
        elif entry.count(":") == 1:
            host, _, port = entry.partition(":")
        else:
            host, port = entry, None
        if port is None:
            return host, None
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{self.setting}: the port of '{entry}' is not valid.")
        return host, int(port)
