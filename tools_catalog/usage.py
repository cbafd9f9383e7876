"""How much tools are called: asked by the catalogue's pages, answered by the floor that records the calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

PERMISSION = "invocations.view_mcptoolinvocation"
"""Who lacks it hears nothing of calls."""
DAYS = 7
"""Who called a tool in so many days is told before it is disabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """Of one tool: its last call, and how many there were in the last 24 hours."""

    last_called: datetime | None = None
    calls: int = 0
    errors: int = 0
    link: str = ""
    """To the list of these calls."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How often one value was among calls; `label` says to people what it is."""

    value: str
    label: str
    calls: int

    def __str__(self) -> str:
        return f"{self.label} ({self.value})" if self.label else self.value


@dataclass(frozen=True, slots=True)
class Callers:
    """What calls were counted by, the most first. `is_whole`: nothing was left unread or out."""

    counted: Sequence[Counted] = ()
    is_whole: bool = True


recent: Callable[[Sequence[str]], Mapping[str, Recent]] = lambda names: {}  # noqa: E731 - replaced from above
callers: Callable[[Sequence[str]], Mapping[str, Callers]] = lambda names: {}  # noqa: E731 - replaced from above
totals: Callable[[], Mapping[str, int]] = lambda: {}  # noqa: E731 - replaced from above
"""Calls of each tool in the last days, as far as they are counted: the same in every process."""
