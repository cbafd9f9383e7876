"""What a rule, or a tool itself, wants before a call may run: a person's yes."""

from __future__ import annotations

from dataclasses import dataclass

CALLER, ANOTHER = "caller", "another"
"""Who may decide: the person who calls, or somebody else with the right to decide."""


@dataclass(frozen=True, slots=True)
class Ask:
    rule: str = ""
    """The name of the rule that asks; empty where the tool's own definition does."""
    version: int = 0
    """That rule's version; the tool's, where no rule asks."""
    words: str = ""
    """What the rule says to those who call and decide."""
    decider: str = ANOTHER
    group: str = ""
    """The group that who decides must be in; empty for anybody with the right to decide."""
    needed: int = 1
    """How many persons must say yes: 1 or 2."""
    since: float = 0.0
    """When the rule was registered, in seconds since the epoch: one of the same name that was deleted is another."""
    seconds: int = 24 * 3600
    """How long the question stands."""
