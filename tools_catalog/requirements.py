"""A tool's requirements on its service: `{"kind": "bitbucket-datacenter", "version": ">=8.0, <10"}`. Pure."""

from __future__ import annotations

import operator
import re

from sessions_app.protocol.json import Json
from tools_catalog.backends.http.configuration import Service

_BOUND = re.compile(r"\s*(>=|<=|==|>|<)\s*([0-9]+(?:\.[0-9]+)*)\s*")
_COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}


def check(requirements: Json) -> None:
    """Raise ValueError for an invalid requirement."""
    if not isinstance(requirements, dict) or not requirements.keys() <= {"kind", "version"}:
        raise ValueError("A requirement is an object with kind and version.")
    if not all(isinstance(value, str) for value in requirements.values()):
        raise ValueError("kind and version are texts.")
    for bound in _bounds(requirements):
        if not _BOUND.fullmatch(bound):
            raise ValueError(f"version: {bound.strip()!r} is no bound. Write >=8.0, or several: >=8.0, <10.")


def why_not(requirements: Json, service: Service | None) -> str:
    """Return why a tool with these requirements is not served, or nothing."""
    if not requirements:
        return ""
    if service is None:
        return "It requires a service, and names none."
    kind = requirements.get("kind")
    if kind and kind != service.kind:
        return f"It requires a service of the type {kind}, and {service.slug} is {service.kind or 'of no type'}."
    for bound in _bounds(requirements):
        if not service.version:
            return f"It requires version {requirements['version']}, and that of {service.slug} is not said."
        found = _BOUND.fullmatch(bound)
        if found is None or not _COMPARE[found[1]](*_aligned(service.version, found[2])):
            return f"It requires version {requirements['version']}, and {service.slug} has {service.version}."
    return ""


def _bounds(requirements: Json) -> list[str]:
    text = requirements.get("version", "")
    return text.split(",") if text else []


def _aligned(one: str, other: str) -> tuple[list[int], list[int]]:
    """Return two versions as lists of one length: 8 is 8.0."""
    both = [[int(part) for part in version.split(".")] for version in (one, other)]
    length = max(map(len, both))
    first, second = ([*parts, *[0] * (length - len(parts))] for parts in both)
    return first, second
