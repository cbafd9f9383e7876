"""The guardrails at one moment, compiled with the snapshot: each tool knows those that concern it. Pure."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.call.base import NOTHING, Absent
from tools_catalog.catalog.additions import ToolCheck
from tools_catalog.detectors.scanning import Scanner
from tools_catalog.policy.scope import RuledTool, concerns

Direction = Literal["arguments", "result"]
ARGUMENTS: Direction = "arguments"
RESULT: Direction = "result"
DIRECTIONS = (ARGUMENTS, RESULT, "both")
INSPECT, MASK, REFUSE = "inspect", "mask", "refuse"
ACTIONS = (INSPECT, MASK, REFUSE)
DETECTORS, FUNCTION, SERVICE = "detectors", "function", "service"
CHECKS = (DETECTORS, FUNCTION, SERVICE)
CLOSED, OPEN = "closed", "open"
DETECTORS_SECONDS = 5.0
"""So long the hub's own detectors may look at a large value."""
MOST_KINDS = 20
MAX_KIND = 40
CALL = "tools/call"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedCall:
    """The facts about a call for custom guardrails, beside the value."""

    direction: Direction
    tool: str
    """The name of the tool; of a resource its URI, of a prompt its name."""
    method: str = CALL
    connection: str = ""
    principal: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class GuardrailFinding:
    """A finding of a custom guardrail."""

    kinds: Mapping[str, int] = field(default_factory=dict)
    """Number of findings by kind: words of a-z, 0-9 and _. Empty: nothing."""
    value: Json | Absent = NOTHING
    """The value without it, for a guardrail that masks."""

    def check(self) -> None:
        """Raise ValueError for an invalid finding."""
        if not isinstance(self.kinds, Mapping) or len(self.kinds) > MOST_KINDS:
            raise ValueError(f"it names no kinds, or more than {MOST_KINDS}")
        for kind, count in self.kinds.items():
            is_word = (
                isinstance(kind, str) and kind.replace("_", "").isalnum() and kind.isascii() and kind == kind.lower()
            )
            if (
                not is_word
                or len(kind) > MAX_KIND
                or isinstance(count, bool)
                or not isinstance(count, int)
                or count < 1
            ):
                raise ValueError("a kind is a word of a-z, 0-9 and _, with how often it was found")


class OwnCheck(Protocol):
    """A function or a service that looks at values."""

    async def look(self, name: str, version: int, value: Json, call: GuardedCall, seconds: float) -> GuardrailFinding:
        """Raise CheckFailed where it gives no finding in time."""
        ...


class CheckFailed(Exception):
    """A guardrail reached no verdict. The message is the reason in a few words, without values."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guardrail:
    """One row, compiled."""

    name: str
    version: int
    applies_to: str = "all"
    target: str = ""
    direction: str = "both"
    action: str = INSPECT
    scanner: Scanner | None = None
    own: OwnCheck | None = None
    broken: str = ""
    """The reason if it is unusable; it fails then, according to `fails_open`."""
    seconds: float = DETECTORS_SECONDS
    fails_open: bool = False
    words: str = ""
    position: int = 0
    watching: bool = False

    def looks_at(self, direction: Direction) -> bool:
        return self.direction in (direction, "both")


@dataclass(frozen=True, slots=True)
class ToolGuardrails(ToolCheck):
    """Those that concern one tool, in their order."""

    arguments: tuple[Guardrail, ...]
    result: tuple[Guardrail, ...]

    def of(self, direction: Direction) -> tuple[Guardrail, ...]:
        return self.arguments if direction == ARGUMENTS else self.result

    def shown(self, arguments: Json, seconds: float) -> Json:
        """Return arguments as a record shows them of a call that is not made, or not yet.

        Without values that detectors mask or refuse; the original without findings; {} if inspection exceeds `seconds`.
        """
        until = time.monotonic() + seconds
        for each in self.arguments:
            if each.action != INSPECT and each.scanner is not None and not each.watching:
                try:
                    arguments = each.scanner.scan(arguments, json.canonical(arguments), masks=True, until=until).value
                except TimeoutError:
                    return {}
        return arguments


class Guardrails:
    """All at one moment."""

    def __init__(self, guardrails: Iterable[Guardrail] = ()) -> None:
        self.guardrails = tuple(sorted(guardrails, key=lambda each: (each.position, each.name)))
        self._of_connection: dict[str | None, ToolGuardrails | None] = {}

    def __bool__(self) -> bool:
        return bool(self.guardrails)

    @property
    def names_toolsets(self) -> bool:
        return any(each.applies_to == "toolset" for each in self.guardrails)

    def of_any(self, views: Iterable[RuledTool], toolsets: Mapping[str, frozenset[str]]) -> ToolGuardrails | None:
        """Return those that concern one of these views of a tool; None where none does."""
        seen = tuple(views)
        return _of(
            [
                each
                for each in self.guardrails
                if any(concerns(each.applies_to, each.target, view, toolsets) for view in seen)
            ]
        )

    def of_read(self, connection: str | None) -> ToolGuardrails | None:
        """Return those for reads: of all tools, and of the source connection."""
        if connection not in self._of_connection:
            self._of_connection[connection] = _of(
                [
                    each
                    for each in self.guardrails
                    if each.applies_to == "all"
                    or (each.applies_to == "connection" and _matches(connection or "", each.target))
                ]
            )
        return self._of_connection[connection]


def _matches(name: str, target: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in target.split())


def _of(chosen: list[Guardrail]) -> ToolGuardrails | None:
    if not chosen:
        return None
    return ToolGuardrails(
        tuple(each for each in chosen if each.looks_at(ARGUMENTS)),
        tuple(each for each in chosen if each.looks_at(RESULT)),
    )


sys.modules.setdefault("tools_catalog.guardrails.guardrail", sys.modules[__name__])  # its name in 1.0.0
