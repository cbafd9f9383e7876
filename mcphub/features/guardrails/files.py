"""Guardrails in a file, without a database: for reviews, before anybody loads them."""

from __future__ import annotations

from mcphub.features.guardrails.guardrail import ACTIONS, CHECKS, CLOSED, DETECTORS, DIRECTIONS, FUNCTION, OPEN, SERVICE
from sessions_app.protocol.json import Json
from tools_catalog.detectors import scanning
from tools_catalog.policy.scope import APPLIES_TO

_CHOICES = {
    "applies_to": (APPLIES_TO, "all"),
    "direction": (DIRECTIONS, "both"),
    "checked_by": (CHECKS, DETECTORS),
    "action": (ACTIONS, "inspect"),
    "on_failure": (("", CLOSED, OPEN), ""),
}
_TEXTS = ("name", "target", "detectors", "function", "service", "path", "words", *_CHOICES)
_NUMBERS = ("max_bytes", "max_depth", "seconds", "position")
_MEMBERS = (*_TEXTS, *_NUMBERS, "enabled", "watching")


def read(document: Json) -> tuple[int, list[str]]:
    """Return the number of guardrails in a bundle, and their problems, a sentence each."""
    entries = document.get("guardrails") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        return 0, ["guardrails: the file must be an object with a list of this name."]
    problems: list[str] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        label = name if isinstance(name, str) and name else f"guardrails[{index}]"
        try:
            _check(entry)
            if label in seen:
                raise ValueError("name: the file has this guardrail twice.")
            seen.add(label)
        except ValueError as error:
            problems.append(f"{label}: {error}")
    return len(entries), problems


def _check(entry: Json) -> None:
    if not isinstance(entry, dict):
        raise ValueError("it must be an object.")
    if unknown := sorted(entry.keys() - set(_MEMBERS)):
        raise ValueError(f"{unknown[0]}: a guardrail has no such member. Members: {', '.join(_MEMBERS)}.")
    for name in _TEXTS:
        if not isinstance(entry.get(name, ""), str):
            raise ValueError(f"{name}: it must be a text.")
    for name in _NUMBERS:
        value = entry.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"{name}: it must be a number.")
    if not entry.get("name"):
        raise ValueError("name: it is missing.")
    for name, (known, usual) in _CHOICES.items():
        if entry.get(name, usual) not in known:
            raise ValueError(f"{name}: it must be one of {', '.join(filter(None, known))}.")
    if (entry.get("applies_to", "all") == "all") == bool(entry.get("target", "").strip()):
        raise ValueError("target: what applies to all tools names none, and anything else says which.")
    _check_what_looks(entry)


def _check_what_looks(entry: dict[str, Json]) -> None:
    by = entry.get("checked_by", DETECTORS)
    if by != DETECTORS and not entry.get("on_failure"):
        raise ValueError("on_failure: say closed or open; there is no default.")
    if by == FUNCTION and not entry.get("function"):
        raise ValueError("function: it is missing.")
    if by == SERVICE and not entry.get("service"):
        raise ValueError("service: it is missing.")
    if by == DETECTORS:
        try:
            kinds = scanning.named(entry.get("detectors", "").replace(",", " ").split())
        except ValueError as error:
            raise ValueError(f"detectors: {error}") from error
        if not kinds:
            raise ValueError("detectors: name at least one.")
        if {"bytes", "depth"} & set(kinds) and entry.get("max_bytes") is None and entry.get("max_depth") is None:
            raise ValueError("max_bytes: say how many bytes, or how many levels by max_depth.")
