"""Tries rules on calls that are described, not made: on the test bench, on recorded calls, in reviews of a file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from mcphub.features.call_rules.rule import (
    ALLOW,
    ASK,
    DENY,
    Facts,
    Policy,
    Rule,
    RuleFinding,
    Ruling,
    arguments_for,
    combined,
    finding,
    tool_context,
)
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

MAX_CASE_CHARACTERS = 100_000
"""Of a call's arguments as JSON. Trying holds the interpreter's lock."""
EXPECTED = (DENY, ASK, ALLOW, "none")

_CASE: Mapping[str, type] = {
    "name": str,
    "tool": dict,
    "principal": dict,
    "arguments": dict,
    "client": dict,
    "time": str,
    "recent": dict,
    "expect": str,
    "rule": str,
}
_TOOL: Mapping[str, type] = {
    "name": str,
    "connection": str,
    "annotations": dict,
    "tags": list,
    "toolsets": list,
    "version": str,
    "read_only": bool,
}
_PRINCIPAL: Mapping[str, type] = {"id": str, "label": str, "groups": list, "claims": dict}


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedCall:
    """A call that is described."""

    tool: Any
    """A Tool, or an object with the members that conditions read."""
    principal: Mapping[str, Json] = field(default_factory=dict)
    """As conditions see it."""
    facts: Facts = field(default_factory=Facts)
    toolsets: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tried:
    """Each rule's verdict on a described call, and the combined one."""

    findings: list[tuple[Rule, RuleFinding | None]]
    """With None for a rule that does not concern the call, or is not valid at its time."""
    ruling: Ruling


@dataclass(frozen=True, slots=True)
class Case:
    """A call in a file, and its expected verdict."""

    name: str
    call: DescribedCall
    expect: str
    rule: str = ""


def tried(rules: Iterable[Rule], call: DescribedCall) -> Tried:
    ordered = Policy(rules).rules
    found: list[tuple[Rule, RuleFinding | None]] = []
    for rule in ordered:
        concerned = rule.concerns(call.tool, call.toolsets) and rule.is_valid(call.facts.now)
        found.append((rule, finding_of(rule, call) if concerned else None))
    return Tried(found, combined(each for _, each in found if each is not None))


def finding_of(rule: Rule, call: DescribedCall) -> RuleFinding:
    """Return one rule's verdict on a described call. A costly condition is not evaluated: it counts as failed."""
    if rule.condition is not None and rule.condition.may_hold(len(json.canonical(dict(call.facts.arguments)))):
        return RuleFinding(rule, False, "it may take long for these arguments; a hub decides it in another process")
    context: dict[str, object] = {
        "principal": dict(call.principal),
        "tool": tool_context(call.tool),
        "client": {"name": "", "version": "", "transport": "", "address": "", **call.facts.client},
        "time": datetime.fromtimestamp(call.facts.now, UTC),
        "recent": call.facts.recent or {"calls": 0, "errors": 0},
        "args": arguments_for(rule, call.facts.arguments),
    }
    return finding(rule, context)


def read_call(entry: Json, known: Mapping[str, Any] | None = None) -> DescribedCall:
    """Return the call described by a JSON object; raise ValueError if it is invalid. `known`: tools by name."""
    _check(entry, _CASE, "a call")
    described = entry.get("tool", {})
    _check(described, _TOOL, "tool")
    name = described.get("name", "")
    if not name:
        raise ValueError("tool.name: it is missing.")
    tool = (known or {}).get(name) if described.keys() == {"name"} else None
    principal = {"id": "", "label": "", "groups": [], "claims": {}}
    _check(entry.get("principal", {}), _PRINCIPAL, "principal")
    principal |= entry.get("principal", {})
    arguments = entry.get("arguments", {})
    if len(json.canonical(arguments)) > MAX_CASE_CHARACTERS:
        raise ValueError(f"arguments: they are longer than {MAX_CASE_CHARACTERS} characters of JSON.")
    recent = {"calls": 0, "errors": 0, **entry.get("recent", {})}
    toolsets = {str(slug): frozenset({name}) for slug in described.get("toolsets", [])}
    return DescribedCall(
        tool=tool if tool is not None else _tool(described),
        principal=principal,
        facts=Facts(arguments, entry.get("client", {}), _moment(entry.get("time")), recent),
        toolsets=toolsets,
    )


def read_cases(entries: Json) -> tuple[list[Case], list[str]]:
    """Return the cases of a file, and the problems of others."""
    cases: list[Case] = []
    problems: list[str] = []
    if not isinstance(entries, list):
        return [], ["cases: it must be a list."]
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        label = name if isinstance(name, str) and name else f"cases[{index}]"
        try:
            call = read_call(entry)
            expect = entry.get("expect")
            if expect not in EXPECTED:
                raise ValueError(f"expect: it must be one of {', '.join(EXPECTED)}.")
            cases.append(Case(label, call, expect, entry.get("rule", "")))
        except ValueError as error:
            problems.append(f"{label}: {error}")
    return cases, problems


def _tool(described: Mapping[str, Json]) -> SimpleNamespace:
    return SimpleNamespace(
        name=described["name"],
        connection=described.get("connection") or None,
        definition={"annotations": described.get("annotations", {}), "_meta": {"tags": described.get("tags", [])}},
        version=described.get("version", "1"),
        read_only=described.get("read_only", False),
        former=(),
    )


def _check(entry: Json, members: Mapping[str, type], what: str) -> None:
    if not isinstance(entry, dict):
        raise ValueError(f"{what}: it must be an object.")
    for name, value in entry.items():
        if name not in members:
            raise ValueError(f"{name}: {what} has no such member. Members: {', '.join(members)}.")
        if not isinstance(value, members[name]):
            raise ValueError(f"{name}: it must be {_WORDS[members[name]]}.")


_WORDS = {str: "a text", dict: "an object", list: "a list", bool: "true or false"}


def _moment(text: str | None) -> float:
    if not text:
        return time.time()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("time: it must be a moment, such as 2026-12-31T18:00:00Z.") from None
    return found.timestamp()


def shown(found: Sequence[tuple[Rule, RuleFinding | None]]) -> list[dict[str, Json]]:
    """Return verdicts as JSON."""
    return [
        {
            "rule": rule.name,
            "version": rule.version,
            "effect": rule.effect,
            "watching": rule.watching,
            "concerns": each is not None,
            "holds": None if each is None or each.failed else each.holds,
            "failed": each.failed if each is not None else "",
            "microseconds": round(each.nanoseconds / 1000, 1) if each is not None else None,
        }
        for rule, each in found
    ]
