"""Visibility of an upstream's offers, where its lists depend on the user: as the accounts of people read them last.

People without an account there see everything approved but copies, and their first call asks for an account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tools_catalog.upstream.link import Approval


class Shown(NamedTuple):
    """One definition as it was shown to somebody."""

    digest: str
    schema_digest: str


Sights = Mapping[str, Mapping[tuple[str, str], Shown]]
"""Of one connection: principal -> kind and name there -> the definition shown. People with equal lists share the
inner one.
"""


@dataclass(frozen=True, slots=True)
class Sight:
    """The visibility of one entry of the catalogue."""

    sights: Sights
    kind: str
    name: str
    approval: Approval
    is_copy: bool = False
    """The hub serves it without the upstream, so those with no account there do not see it."""

    def hides(self, principal: str) -> bool:
        """Return whether the upstream shows it to this person not at all, or not as it was approved."""
        seen = self.sights.get(principal)
        if seen is None:
            return self.is_copy
        found = seen.get((self.kind, self.name))
        return found is None or not self.approval.covers(found)
