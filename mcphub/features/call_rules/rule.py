"""The call rules at one moment, and their verdicts: pure but for the given clock.

Of the rules that concern a tool and are in force, a deny that holds decides first, then an ask, then an allow. Where
allows concern a tool and none holds, the call is denied. A condition that cannot be decided denies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from mcphub.features.call_rules.expressions import Expression, RuleFailed
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.call.noted import NOTHING_NOTED, Noted
from tools_catalog.catalog.additions import Principal, ToolCheck
from tools_catalog.policy.ask import Ask
from tools_catalog.policy.scope import RuledTool, concerns, tags_of

Effect = Literal["deny", "ask", "allow"]
DENY: Effect = "deny"
ASK: Effect = "ask"
ALLOW: Effect = "allow"
EFFECTS: tuple[Effect, ...] = (DENY, ASK, ALLOW)

DENIED = "A rule of this hub denies the call."
NOT_ALLOWED = "No rule of this hub allows the call."
KEPT_DECISIONS = 10_000
"""Of a process: decisions by rules that read the principal and the tool alone."""
MAX_SAID = 200
_MOST_WATCHED = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    key: int
    name: str
    version: int
    effect: Effect
    applies_to: str = "all"
    target: str = ""
    condition: Expression | None = None
    """None: it holds always."""
    broken: str = ""
    """Why its condition cannot be evaluated; such a rule denies."""
    words: str = ""
    priority: int = 0
    watching: bool = False
    valid_from: float | None = None
    valid_until: float | None = None
    """Seconds since the epoch."""
    ask: Ask | None = None
    workspace: int | None = None
    """Its tools alone are concerned; None: everybody's too."""

    def is_valid(self, now: float) -> bool:
        return (self.valid_from is None or self.valid_from <= now) and (
            self.valid_until is None or now < self.valid_until
        )

    @property
    def is_kept(self) -> bool:
        """Whether it reads the principal and the tool alone."""
        return self.condition is None or self.condition.is_kept

    def concerns(self, tool: RuledTool, toolsets: Mapping[str, frozenset[str]]) -> bool:
        is_near = self.workspace is None or self.workspace == tool.owner
        return is_near and concerns(self.applies_to, self.target, tool, toolsets)


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """One rule's verdict on one call."""

    rule: Rule
    holds: bool
    failed: str = ""
    nanoseconds: int = 0

    @property
    def effect(self) -> Effect | None:
        """The effect of the rule alone; None: nothing."""
        if self.failed:
            return DENY
        return self.rule.effect if self.holds else None


@dataclass(frozen=True, slots=True)
class Ruling:
    """The combined verdict of the rules, as recorded."""

    effect: Effect | None = None
    rule: str | None = None
    version: int | None = None
    said: str | None = None
    """`deny`, `ask` or `allow`; after a colon why, where the condition could not be decided or no allow held."""
    watched: str | None = None
    """The would-be effects of log-only rules, `name@version effect` each, separated by commas."""
    words: str = ""
    ask: Ask | None = None

    @property
    def noted(self) -> Noted:
        """Return its note in the record of a call."""
        if self.rule is None and self.watched is None:
            return NOTHING_NOTED
        return Noted(
            policy_rule=self.rule, policy_version=self.version, policy_said=self.said, policy_watched=self.watched
        )


NO_RULING = Ruling()


@dataclass(frozen=True, slots=True)
class Facts:
    """The context of conditions for one call besides principal and tool."""

    arguments: Mapping[str, Json] = field(default_factory=dict)
    client: Mapping[str, Json] = field(default_factory=dict)
    now: float = field(default_factory=time.time)
    recent: Mapping[str, int] | None = None


Decide = Callable[[Rule, dict[str, object]], bool]


class ToolPolicy(ToolCheck):
    """The rules that concern one tool, in the order in which they are looked at."""

    __slots__ = ("_principals", "dynamic", "has_ends", "kept", "reads_args", "reads_recent", "rules")

    def __init__(self, rules: Sequence[Rule], principals: Principals) -> None:
        self.rules = tuple(rules)
        self.kept = tuple(rule for rule in rules if rule.is_kept)
        self.dynamic = tuple(rule for rule in rules if not rule.is_kept)
        conditions = [rule.condition for rule in self.dynamic if rule.condition is not None]
        self.reads_args = any("args" in each.variables for each in conditions)
        self.reads_recent = any("recent" in each.variables for each in conditions)
        self.has_ends = any(rule.valid_from or rule.valid_until for rule in rules)
        self._principals = principals

    def findings(self, tool: RuledTool, caller: Principal, now: float) -> tuple[RuleFinding, ...]:
        """Return the verdicts of rules that read only principal and tool; cached."""
        key = (self, caller.principal, caller.groups, caller.claims)
        found = self._principals.decided.get(key)
        if found is None:
            context: dict[str, object] = {"principal": self._principals.context(caller), "tool": tool_context(tool)}
            found = tuple(finding(rule, context) for rule in self.kept)
            self._principals.keep(key, found)
        if self.has_ends:
            return tuple(each for each in found if each.rule.is_valid(now))
        return found

    def hides(self, tool: RuledTool, caller: Principal) -> Noted | None:
        now = time.time()
        findings = self.findings(tool, caller, now)
        is_open = any(rule.effect == ALLOW and rule.is_valid(now) and not rule.watching for rule in self.dynamic)
        ruling = combined(findings, is_open=is_open)
        return ruling.noted if ruling.effect == DENY else None

    def pending(self, now: float) -> list[Rule]:
        """Return the rules that must be asked about this very call."""
        return [rule for rule in self.dynamic if rule.is_valid(now)]

    def context(self, tool: RuledTool, caller: Principal, facts: Facts) -> dict[str, object]:
        made: dict[str, object] = {
            "principal": self._principals.context(caller),
            "tool": tool_context(tool),
            "client": facts.client,
            "time": datetime.fromtimestamp(facts.now, UTC),
        }
        if facts.recent is not None:
            made["recent"] = facts.recent
        return made


class Principals:
    """How callers look to conditions: groups by their names. Caches verdicts about them, over all tools."""

    def __init__(self, groups: Mapping[int, str] | None = None) -> None:
        self._groups = dict(groups or {})
        self.decided: dict[object, tuple[RuleFinding, ...]] = {}

    def context(self, caller: Principal) -> dict[str, Json]:
        names = sorted(self._groups[key] for key in caller.groups if key in self._groups)
        claims = json.loads_stored(caller.claims) if caller.claims else {}
        return {"id": caller.principal, "label": caller.label, "groups": names, "claims": claims}

    def keep(self, key: object, findings: tuple[RuleFinding, ...]) -> None:
        if len(self.decided) >= KEPT_DECISIONS:
            self.decided.clear()
        self.decided[key] = findings


class Policy:
    """All rules at one moment."""

    def __init__(self, rules: Iterable[Rule] = (), groups: Mapping[int, str] | None = None) -> None:
        self.rules = tuple(sorted(rules, key=lambda rule: (-rule.priority, rule.name)))
        self.principals = Principals(groups)

    def __bool__(self) -> bool:
        return bool(self.rules)

    @property
    def names_toolsets(self) -> bool:
        return any(rule.applies_to == "toolset" for rule in self.rules)

    def of(self, tool: RuledTool, toolsets: Mapping[str, frozenset[str]]) -> ToolPolicy | None:
        """Return the rules that concern a tool; None where none does."""
        return self.of_any([tool], toolsets)

    def of_any(self, views: Iterable[RuledTool], toolsets: Mapping[str, frozenset[str]]) -> ToolPolicy | None:
        """Return the rules that concern one of these views of a tool; None where none does."""
        seen = tuple(views)
        found = [rule for rule in self.rules if any(rule.concerns(view, toolsets) for view in seen)]
        return ToolPolicy(found, self.principals) if found else None


def finding(rule: Rule, context: Mapping[str, object]) -> RuleFinding:
    """Return one rule's verdict."""
    began = time.perf_counter_ns()
    if rule.broken:
        return RuleFinding(rule, False, rule.broken)
    if rule.condition is None:
        return RuleFinding(rule, True)
    try:
        return RuleFinding(rule, rule.condition.evaluate(context), "", time.perf_counter_ns() - began)
    except RuleFailed as failed:
        return RuleFinding(rule, False, str(failed), time.perf_counter_ns() - began)


def arguments_for(rule: Rule, arguments: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the arguments that a rule reads: handing over costs more than deciding."""
    names = rule.condition.args if rule.condition is not None else frozenset()
    if names is None:
        return arguments
    return {name: arguments[name] for name in names if name in arguments}


def combined(findings: Iterable[RuleFinding], *, is_open: bool = False) -> Ruling:
    """Return the combined findings, by deny over ask over allow. `is_open`: further allows may still hold."""
    first: dict[str, RuleFinding] = {}
    unmet: RuleFinding | None = None
    watched = []
    for each in findings:
        effect = each.effect
        if each.rule.watching:
            if effect in (DENY, ASK):
                watched.append(f"{each.rule.name}@{each.rule.version} {effect}")
            continue
        if effect is not None:
            first.setdefault(effect, each)
        elif each.rule.effect == ALLOW and unmet is None:
            unmet = each
    shown = ", ".join(watched[:_MOST_WATCHED]) or None
    for effect in EFFECTS:
        found = first.get(effect)
        if found is not None:
            rule = found.rule
            said = f"{effect}: {found.failed}"[:MAX_SAID] if found.failed else effect
            words = rule.words or (DENIED if effect == DENY else "")
            return Ruling(effect, rule.name, rule.version, said, shown, words, _ask(rule) if effect == ASK else None)
        if effect == DENY and unmet is not None and ALLOW not in first and not is_open:
            rule = unmet.rule
            return Ruling(DENY, rule.name, rule.version, "deny: no allow holds", shown, rule.words or NOT_ALLOWED)
    return Ruling(watched=shown) if shown else NO_RULING


def _ask(rule: Rule) -> Ask:
    return rule.ask or Ask(rule=rule.name, version=rule.version, words=rule.words)


def tool_context(tool: RuledTool) -> dict[str, Json]:
    return {
        "name": tool.name,
        "connection": tool.connection or "",
        "annotations": tool.definition.get("annotations", {}),
        "tags": tags_of(tool.definition),
        "version": tool.version,
        "read_only": tool.read_only,
    }
