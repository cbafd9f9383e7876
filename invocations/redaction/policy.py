"""What of a call is recorded, under the rules of one moment and the annotations of a tool's schemas.

A tool that nothing applies to has no Redactor, and its calls are recorded as they are, unread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from invocations.redaction.hiding import Hidden, Keys, tag
from invocations.redaction.places import Annotated, Headers, Marker, Path, Paths, parse
from sessions_app.protocol import json

ARGUMENTS, RESULT, BOTH = "arguments", "result", "both"
PATH, HEADER = "path", "header"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of McpRedactionRule."""

    tool: str
    """A name, perhaps with `*`; empty: every tool."""
    part: str
    kind: str
    place: str

    def is_for(self, tool: str) -> bool:
        return not self.tool or fnmatchcase(tool, self.tool)


class Redactor:
    """For the calls of one tool."""

    __slots__ = ("_in_arguments", "_in_result", "_keys", "_needles", "_texts", "_texts_of_result")

    def __init__(self, rules: Iterable[Rule], schemas: Mapping[str, Any], keys: Keys) -> None:
        """`schemas` may hold `inputSchema` and `outputSchema`."""
        self._keys = keys
        rules = list(rules)
        headers = Headers(rule.place for rule in rules if rule.kind == HEADER)
        self._in_arguments, self._texts, needles = _markers(rules, ARGUMENTS, headers)
        annotated = Annotated.of(schemas.get("inputSchema"), headers.names)
        if annotated is not None:
            self._in_arguments.append(annotated)
            needles = None
        self._needles = needles
        self._in_result, self._texts_of_result, _ = _markers(rules, RESULT, headers)
        structured = Annotated.of(schemas.get("outputSchema"), headers.names)
        if structured is not None:
            self._in_result.append(_Structured(structured))

    def __bool__(self) -> bool:
        return bool(self._in_arguments or self._in_result)

    def arguments(self, value: Any, text: str, hidden: Hidden) -> str:
        """Give the canonical JSON to record; `text` is that of `value`."""
        if not self._in_arguments:
            return text
        if not isinstance(value, dict):
            return json.canonical({"not_an_object": hidden.take_out(value, [_Whole()])})
        if self._needles is not None and not _may_hold(text, self._needles):
            return text
        fresh = hidden.take_out(value, self._in_arguments)
        if self._texts:
            fresh = hidden.look_into_texts(fresh, self._texts)
        if fresh is value:
            return text
        return json.canonical(hidden.scrub(_an_object(fresh)))

    def result(self, text: str, hidden: Hidden) -> str:
        """Give the canonical JSON to record of a result, from which what the arguments hid goes too."""
        if not self._in_result and not hidden:
            return text
        value = json.loads(text.encode(), max_depth=1024)
        fresh = hidden.take_out(value, self._in_result)
        if self._texts_of_result:
            fresh = hidden.look_into_texts(fresh, self._texts_of_result)
        fresh = hidden.scrub(fresh)
        return text if fresh is value else json.canonical(_an_object(fresh))

    def hidden(self) -> Hidden:
        return Hidden(self._keys)

    def tag(self, value: Any) -> str:
        return tag(value, self._keys)


class Policy:
    """All rules at one moment. Immutable, but for what it remembers of tools."""

    def __init__(self, rules: Iterable[Rule] = (), keys: Keys = ()) -> None:
        self.rules = tuple(rules)
        self._keys = keys
        self._known: dict[str, tuple[Any, Redactor | None]] = {}
        self._unknown = Redactor(self.rules, {}, keys)

    def of(self, name: str, definition: Mapping[str, Any]) -> Redactor | None:
        """Give the redactor of a tool, whose definition is one object as long as it does not change."""
        known = self._known.get(name)
        if known is None or known[0] is not definition:
            redactor = Redactor([rule for rule in self.rules if rule.is_for(name)], definition, self._keys)
            known = self._known[name] = (definition, redactor if redactor else None)
        return known[1]

    def of_unknown(self) -> Redactor | None:
        """For calls of no tool that there is: perhaps one was misspelt, so every rule counts."""
        return self._unknown if self._unknown else None


class _Structured:
    """What an output schema marks, under `structuredContent`."""

    start: Any = "result"

    def __init__(self, inner: Annotated) -> None:
        self._inner = inner

    def hides(self, state: Any, value: Any) -> bool:
        return state != "result" and self._inner.hides(state, value)

    def below(self, state: Any, parent: Any, key: str | int) -> Any:
        if state == "result":
            return self._inner.start if key == "structuredContent" else ()
        return self._inner.below(state, parent, key)


class _Whole:
    start: Any = True

    def hides(self, state: Any, value: Any) -> bool:
        return True

    def below(self, state: Any, parent: Any, key: str | int) -> Any:
        return ()


def _markers(rules: list[Rule], part: str, headers: Headers) -> tuple[list[Marker], list[Marker], list[str] | None]:
    """Give what marks the part, what marks texts in it, and what a text must hold for anything to be marked."""
    paths: list[Path] = [parse(rule.place) for rule in rules if rule.kind == PATH and rule.part in (part, BOTH)]
    named = Headers(rule.place for rule in rules if rule.kind == HEADER and rule.part in (part, BOTH))
    every = Paths(paths)
    found: list[Marker] = [every] if paths else []
    deep = every.deep()
    texts: list[Marker] = [deep] if deep.start else []
    needles = every.needles
    if named.names:
        found.append(named)
        texts.append(named)
        needles = None if needles is None else [*needles, *sorted(named.names)]
    return found, texts, needles


def _may_hold(text: str, needles: list[str]) -> bool:
    if "\\" in text:
        return True  # a name may be written with escapes, here or in JSON within a text
    folded = text.casefold()
    return any(needle.casefold() in folded for needle in needles)


def _an_object(value: Any) -> Any:
    """The columns hold objects."""
    return value if isinstance(value, dict) else {"redacted": value}
