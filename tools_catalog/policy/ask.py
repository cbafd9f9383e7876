"""The demand of a rule, or of a tool itself, before a call may run: an approval."""

from __future__ import annotations

from dataclasses import dataclass, replace

CALLER, ANOTHER = "caller", "another"
"""The permitted decider: the calling person, or somebody else with the permission."""
QUESTION = "mcphub_approval"
"""The key of the question that asks the calling person begins so; the approval's own part of its id follows."""


@dataclass(frozen=True, slots=True)
class Ask:
    rule: str = ""
    """The name of the rule that asks; empty where the tool's own definition does."""
    version: int = 0
    """That rule's version; the tool's, where no rule asks."""
    words: str = ""
    """The rule's message to callers and deciders."""
    decider: str = ANOTHER
    group: str = ""
    """The required group of the decider; empty for anybody with the permission."""
    needed: int = 1
    """Number of required approvals: 1 or 2."""
    since: float = 0.0
    """When the rule was registered, in seconds since the epoch: one of the same name that was deleted is another."""
    seconds: int = 24 * 3600
    """How long the question stands."""

    def beside(self, own: Ask | None) -> Ask:
        """Return a rule's request where the tool's own setting asks too: it demands no less than the setting."""
        return self if own is None else replace(self, decider=ANOTHER)
