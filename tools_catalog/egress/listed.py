"""The hosts that operators list in the console, as this process knows them now. Pure: whoever reads the rows puts them
here.

One list for the whole process. Clients that live for days ask it at each request, so that an edit is in force without
a restart; `generation` shows them that connections were opened under another list.
"""

from __future__ import annotations

from collections.abc import Iterable

from tools_catalog.egress.hosts_and_networks import HostList

_SOURCE = "Allowed hosts"

current = HostList(_SOURCE)
generation = 0


def replace(entries: Iterable[str]) -> None:
    """Put another list in force. Raises ValueError for an entry that is no host, address or network."""
    global current, generation
    made = HostList(_SOURCE, tuple(entries))
    if made.entries != current.entries:
        current = made
        generation += 1


def check(entry: str) -> None:
    """Raise ValueError for a text that is no entry."""
    HostList(_SOURCE, (entry,))
