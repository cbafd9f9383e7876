"""How much tools are called: asked by the catalogue's pages, answered by the floor that records the calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sessions_app.workspaces import scope

PERMISSION = "invocations.view_mcptoolinvocation"
"""Without it a person sees no figures of calls."""


def may_see(user: Any) -> bool:
    """Return whether a person may see figures: they cover the whole hub, so nobody within a workspace may."""
    return bool(user.has_perm(PERMISSION)) and scope.current() is None


DAYS = 7
"""Recent callers of a tool, within this many days, are shown before it is disabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """Of one tool, or of all tools of a connection: its last call, and how its calls of the last 24 hours went."""

    last_called: datetime | None = None
    calls: int = 0
    errors: int = 0
    p95_ms: int | None = None
    """Of the last day in whole quarters of a day: of 24 hours at least, of 30 at most. None: not called."""
    link: str = ""
    """To the list of these calls."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The frequency of one value among calls; `label` is its name for people."""

    value: str
    label: str
    calls: int

    def __str__(self) -> str:
        return f"{self.label} ({self.value})" if self.label else self.value


@dataclass(frozen=True, slots=True)
class Callers:
    """The counts of calls by caller, the highest first. `is_whole`: nothing was left unread or out."""

    counted: Sequence[Counted] = ()
    is_whole: bool = True


recent: Callable[[Sequence[str]], Mapping[str, Recent]] = lambda names: {}  # noqa: E731 - replaced from above
grouped: Callable[[Mapping[int, Sequence[str]]], Mapping[int, Recent]] = lambda groups: {}  # noqa: E731 - replaced
"""Of groups of tools, such as those of a connection: the figures of each group, without its link."""
ranking: Callable[[str], Mapping[str, tuple[float, ...]]] = lambda figure: {}  # noqa: E731 - replaced from above
"""Return the sort keys of every tool: `calls`, `errors`, `latency` or `last_called`; tools without any are omitted."""
callers: Callable[[Sequence[str]], Mapping[str, Callers]] = lambda names: {}  # noqa: E731 - replaced from above
totals: Callable[[], Mapping[str, int]] = lambda: {}  # noqa: E731 - replaced from above
"""Calls of each tool in the last days, as far as they are counted: the same in every process."""
