"""Rules in a file, without a database: for reviews, before anybody loads them."""

from __future__ import annotations

from datetime import datetime

from mcphub.features.call_rules import expressions
from mcphub.features.call_rules.rule import EFFECTS, Rule
from sessions_app.protocol.json import Json
from tools_catalog.policy.ask import ANOTHER, Ask
from tools_catalog.policy.scope import APPLIES_TO

_TEXTS = ("name", "applies_to", "target", "condition", "effect", "words", "valid_from", "valid_until")
_NUMBERS = ("priority", "ask_needed", "ask_seconds")
_MEMBERS = (*_TEXTS, *_NUMBERS, "ask_decider", "ask_group", "enabled", "watching")


def read(document: Json) -> tuple[list[Rule], list[str]]:
    """Return the enabled rules of a bundle, and the problems of others, a sentence each."""
    entries = document.get("policy_rules") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        return [], ["policy_rules: the file must be an object with a list of this name."]
    rules, problems, seen = [], [], set()
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        label = name if isinstance(name, str) and name else f"policy_rules[{index}]"
        try:
            rule = _rule(entry)
            if label in seen:
                raise ValueError("name: the file has this rule twice.")
            seen.add(label)
            if entry.get("enabled", True):
                rules.append(rule)
        except ValueError as error:
            problems.append(f"{label}: {error}")
    return rules, problems


def _rule(entry: Json) -> Rule:
    if not isinstance(entry, dict):
        raise ValueError("it must be an object.")
    if unknown := sorted(entry.keys() - set(_MEMBERS)):
        raise ValueError(f"{unknown[0]}: a rule has no such member. Members: {', '.join(_MEMBERS)}.")
    for name in _TEXTS:
        if not isinstance(entry.get(name, ""), str):
            raise ValueError(f"{name}: it must be a text.")
    for name in _NUMBERS:
        if isinstance(entry.get(name, 0), bool) or not isinstance(entry.get(name, 0), int):
            raise ValueError(f"{name}: it must be a whole number.")
    if not entry.get("name"):
        raise ValueError("name: it is missing.")
    effect, applies_to, target = entry.get("effect", "deny"), entry.get("applies_to", "all"), entry.get("target", "")
    if effect not in EFFECTS:
        raise ValueError(f"effect: it must be one of {', '.join(EFFECTS)}.")
    if applies_to not in APPLIES_TO:
        raise ValueError(f"applies_to: it must be one of {', '.join(APPLIES_TO)}.")
    if (applies_to == "all") == bool(target.strip()):
        raise ValueError("target: a rule for all tools names none, and any other says which.")
    try:
        text = entry.get("condition", "").strip()
        condition = expressions.compile(text) if text else None
    except expressions.ExpressionRejected as error:
        raise ValueError(f"condition: {error}") from error
    words = entry.get("words", "")
    return Rule(
        key=0,
        name=entry["name"],
        version=0,
        effect=effect,
        applies_to=applies_to,
        target=target,
        condition=condition,
        words=words,
        priority=entry.get("priority", 0),
        watching=bool(entry.get("watching", False)),
        valid_from=_moment("valid_from", entry),
        valid_until=_moment("valid_until", entry),
        ask=Ask(
            rule=entry["name"],
            words=words,
            decider=entry.get("ask_decider", ANOTHER),
            group=entry.get("ask_group", ""),
            needed=entry.get("ask_needed", 1),
            seconds=entry.get("ask_seconds", 24 * 3600),
        )
        if effect == "ask"
        else None,
    )


def _moment(name: str, entry: dict[str, Json]) -> float | None:
    if not entry.get(name):
        return None
    try:
        return datetime.fromisoformat(entry[name]).timestamp()
    except ValueError:
        raise ValueError(f"{name}: it must be a moment, such as 2026-12-31T18:00:00Z.") from None
