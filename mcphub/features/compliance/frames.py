"""Frames that a deployment is held to, as `MCPHUB_COMPLIANCE` names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Frame:
    """A law or a checklist with a time for which records are kept."""

    title: str
    least_days: int
    because: str


FRAMES: Final = {
    "ai-act": Frame("the EU AI Act", 184, "Articles 19 and 26(6) ask for logs of six months at least"),
    "soc2": Frame("SOC 2", 366, "a report of type 2 covers a period of up to twelve months"),
}
