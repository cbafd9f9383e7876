"""Visibility of a workspace's rows: plain values, held in the snapshots of every worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

ROLES: Final = ("members", "auditors", "operators")
"""Of a workspace: each names groups."""


class MaybeMember(Protocol):
    """A caller's attributes that decide membership in a workspace."""

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
        """Return whether the caller sees its rows. One that came by a workspace, with its key or at its address, sees
        that one alone.
        """
        if caller.workspace is not None:
            return caller.workspace == self.key
        return caller.sees_everything or not self.groups.isdisjoint(caller.groups)


def owner_of(key: int | None, workspaces: Callable[[], Mapping[int, Workspace]]) -> Workspace | None:
    """Return the workspace that a row names; None where it belongs to none. One made since they were read has
    nobody.
    """
    return None if key is None else workspaces().get(key) or Workspace(key, "", frozenset())
