"""To whom what belongs to a workspace is shown: plain values, which the snapshots of every worker hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

ROLES: Final = ("members", "auditors", "operators")
"""Of a workspace: each names groups."""


class MaybeMember(Protocol):
    """What of a caller decides whether it belongs to a workspace."""

    @property
    def workspace(self) -> int | None: ...
    @property
    def groups(self) -> frozenset[int]: ...
    @property
    def sees_everything(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace at one moment."""

    key: int
    slug: str
    groups: frozenset[int]
    """Whoever is in one of these belongs to it, whatever the role."""

    def has(self, caller: MaybeMember) -> bool:
        """Whether the caller sees what belongs to it. One that came by a workspace, with its key or at its address,
        sees that one alone."""
        if caller.workspace is not None:
            return caller.workspace == self.key
        return caller.sees_everything or not self.groups.isdisjoint(caller.groups)


def owner_of(key: int | None, workspaces: Callable[[], Mapping[int, Workspace]]) -> Workspace | None:
    """Give the workspace that a row names; None where it belongs to none. One made since they were read has nobody."""
    return None if key is None else workspaces().get(key) or Workspace(key, "", frozenset())
