"""The quotas at one moment, compiled with the configuration: the charges of one call or one chat round.

Without quotas `Quotas` is false, and a call looks no further.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from mcphub.features.quotas import amounts
from mcphub.features.quotas.amounts import BYTES, CALLS, MONEY, TOKENS
from mcphub.features.quotas.rules import SUBJECT
from mcphub.features.quotas.windows import Period, QuotaWindow, window_of
from sessions_app.protocol import json
from tools_catalog.catalog.listing import Audience
from tools_catalog.catalog.selection import Tool
from tools_catalog.policy.scope import RuledTool, concerns

if TYPE_CHECKING:
    from invocations.configuration import Configuration

OF_TOOLS = frozenset((CALLS, BYTES))
OF_MODELS = frozenset((TOKENS, MONEY))
"""Units of a chat round's usage. Money is counted in millionths of the hub's currency."""
PERSON, KEY, GROUP, ALL = "person", "key", "group", "all"
PER = (PERSON, KEY, GROUP, ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRule:
    """One row, compiled."""

    key: int
    name: str
    per: str
    unit: str
    period: Period
    soft: int | None = None
    hard: int | None = None
    applies_to: str = "all"
    target: str = ""
    principal: str = ""
    """Its subject; empty: everybody."""
    credential: str = ""
    group: int | None = None
    words: str = ""
    provider: str = ""
    """Counts only rounds of this provider's models; empty: all. For units of models only."""

    def is_about(self, caller: Audience | None) -> bool:
        """Return True for a caller whose use it counts. None: the hub itself, counted by quotas of everybody alone."""
        if caller is None:
            return self.per == ALL and not (self.principal or self.credential or self.group)
        if self.principal and caller.principal != self.principal:
            return False
        if self.credential and caller.credential != self.credential:
            return False
        return self.group is None or self.group in caller.groups

    def subjects(self, caller: Audience | None) -> Iterable[str]:
        """Return the subjects that a caller's calls and rounds count for."""
        if self.per == ALL or caller is None:
            return (ALL,)
        if self.per == PERSON:
            return (caller.principal,)
        if self.per == KEY:
            return (caller.credential,)
        groups = caller.groups if self.group is None else {self.group}
        return [f"group:{number}" for number in sorted(groups)]


@dataclass(frozen=True, slots=True)
class Charge:
    """The addition of one call, or one chat round, to one sum."""

    quota: QuotaRule
    subject: str
    amount: int
    is_estimated: bool = False
    """The provider did not report the round's usage."""
    is_unpriced: bool = False
    """The model had no price, so `amount` is 0."""

    def key(self, window: QuotaWindow) -> str:
        """Return the key of its sum. Another unit or period is another sum, and so begins at nothing."""
        return f"{self.quota.key} {self.quota.unit} {self.subject} {window.begins}-{window.ends}"

    def window(self, moment: float) -> QuotaWindow:
        return window_of(self.quota.period, moment)


@dataclass(frozen=True, slots=True)
class Spent:
    """A sum as a commit left it, or as it stood where the commit refused to add to it."""

    charge: Charge
    window: QuotaWindow
    used: int

    @property
    def is_full(self) -> bool:
        hard = self.charge.quota.hard
        return hard is not None and self.used >= hard

    @property
    def is_near(self) -> bool:
        soft = self.charge.quota.soft
        return soft is not None and self.used >= soft

    def told(self) -> dict[str, object]:
        """Return the warning for a caller near the limit."""
        quota = self.charge.quota
        told: dict[str, object] = {
            "quota": quota.name,
            "unit": quota.unit,
            "used": self.used,
            "warnsAt": quota.soft,
            "resetsAt": self.window.resets_at,
        }
        if quota.unit == MONEY:
            told["currency"] = amounts.currency()
        return told if quota.hard is None else {**told, "limit": quota.hard}


class Quotas:
    """All that are switched on, at one moment. False where there is none."""

    def __init__(self, rules: Iterable[QuotaRule] = (), toolsets: Mapping[str, frozenset[str]] | None = None) -> None:
        self.rules = tuple(sorted(rules, key=lambda rule: rule.name))
        self._toolsets = toolsets or {}
        self._of_tool: WeakKeyDictionary[Tool, tuple[QuotaRule, ...]] = WeakKeyDictionary()

    def __bool__(self) -> bool:
        return bool(self.rules)

    def of_tool(self, tool: Tool) -> tuple[QuotaRule, ...]:
        found = self._of_tool.get(tool)
        if found is None:
            found = self._of_tool[tool] = self.concerning(tool)
        return found

    def concerning(self, tool: RuledTool) -> tuple[QuotaRule, ...]:
        """Return the quotas that count calls of a tool."""
        return tuple(
            rule
            for rule in self.rules
            if rule.unit in OF_TOOLS and concerns(rule.applies_to, rule.target, tool, self._toolsets)
        )

    def of_provider(self, provider: str) -> tuple[QuotaRule, ...]:
        """Return the quotas that count a provider's models."""
        return tuple(rule for rule in self.rules if rule.unit in OF_MODELS and rule.provider in ("", provider))

    def charges(self, tool: Tool, caller: Audience, arguments: str) -> list[Charge]:
        """Return the charges of a call before it runs. `arguments`: canonical JSON."""
        return charges_of(self.of_tool(tool), caller, arguments)


_NONE = Quotas()


def quotas_of(configuration: Configuration) -> Quotas:
    found: Quotas = configuration.additions.get(SUBJECT, _NONE)
    return found


def charges_of(rules: Iterable[QuotaRule], caller: Audience, arguments: str) -> list[Charge]:
    chosen = [rule for rule in rules if rule.is_about(caller)]
    size = json.size(arguments) if any(rule.unit == BYTES for rule in chosen) else 0
    return [
        Charge(rule, subject, size if rule.unit == BYTES else 1) for rule in chosen for subject in rule.subjects(caller)
    ]


def charges_of_result(charges: Sequence[Charge], result: str | None) -> list[Charge]:
    """Return the charges of a call's outcome, given those of its intent. `result`: canonical JSON."""
    counted = [charge for charge in charges if charge.quota.unit == BYTES]
    if not counted or not result:
        return []
    size = json.size(result)
    return [Charge(charge.quota, charge.subject, size) for charge in counted]


def charges_of_round(
    rules: Iterable[QuotaRule],
    caller: Audience | None,
    *,
    tokens: int = 0,
    cost: int | None = 0,
    is_estimated: bool = False,
) -> list[Charge]:
    """Return the charges of one model request. `caller`: None for the hub itself. `cost`: millionths; None where the
    model has no price.
    """
    used = {TOKENS: (tokens, False), MONEY: (cost or 0, cost is None)}
    return [
        Charge(rule, subject, used[rule.unit][0], is_estimated, used[rule.unit][1])
        for rule in rules
        if rule.is_about(caller)
        for subject in rule.subjects(caller)
    ]
