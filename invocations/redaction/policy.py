"""The recorded part of a call, under the rules of one moment and the annotations of a tool's schemas.

A tool that nothing applies to has no Redactor, and its calls are recorded as they are, unread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from typing import Any

from django.conf import settings

from invocations.redaction.hiding import Hidden, Keys, tag
from invocations.redaction.names import Nearby, Same, any_case, is_near, names_in
from invocations.redaction.places import Annotated, Headers, Marker, Path, Paths, Schemas, Undescribed, parse
from invocations.subject import RowSubject
from sessions_app.kit.secret_forms import Forms
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

ARGUMENTS, RESULT, BOTH = "arguments", "result", "both"
PATH, HEADER, FORM = "path", "header", "form"
_MOST_NEAR = 3
_NAME = re.compile(r'"([^"]{1,128})":')
_MOST_NAMES = 200
"""So many names of a body are compared before it is looked through."""


@dataclass(frozen=True, slots=True)
class RedactionRule:
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

    __slots__ = (
        "_forms",
        "_forms_of_result",
        "_in_arguments",
        "_in_result",
        "_keys",
        "_needles",
        "_same",
        "_texts",
        "_texts_of_result",
        "is_refused",
    )

    def __init__(
        self,
        rules: Iterable[RedactionRule],
        schemas: Mapping[str, Json],
        keys: Keys,
        *,
        near: Iterable[Mapping[str, Json]] = (),
        is_refused: bool = False,
    ) -> None:
        """`schemas` may hold `inputSchema` and `outputSchema`.

        `near`: definitions of tools that may have been meant. `is_refused`: texts are hidden that no schema describes.
        """
        self._keys = keys
        rules = list(rules)
        self._forms = Forms.of(rule.place for rule in rules if rule.kind == FORM and rule.part in (ARGUMENTS, BOTH))
        self._forms_of_result = Forms.of(
            rule.place for rule in rules if rule.kind == FORM and rule.part in (RESULT, BOTH)
        )
        headers = Headers(rule.place for rule in rules if rule.kind == HEADER)
        described = names_in(schemas.get("inputSchema"))
        self._same = Nearby(described)
        self._in_arguments, self._texts, needles = _markers(rules, ARGUMENTS, self._same)
        for each in (schemas, *near):
            annotated = Annotated.of(each.get("inputSchema"), headers.names, self._same)
            if annotated is not None:
                self._in_arguments.append(annotated)
                needles = None
        self.is_refused = is_refused
        if is_refused:
            self._in_arguments.append(Undescribed(described))
            needles = None
        self._needles = needles
        self._in_result, self._texts_of_result, _ = _markers(rules, RESULT, any_case)
        structured = Annotated.of(schemas.get("outputSchema"), headers.names, any_case)
        if structured is not None:
            self._in_result.append(_Structured(structured))

    def __bool__(self) -> bool:
        return bool(self._in_arguments or self._in_result or self._forms or self._forms_of_result)

    def spares(self, value: Json, text: str) -> bool:
        """Return whether the arguments are recorded unchanged, judged by `text`, their canonical JSON."""
        if self._in_arguments:
            marked = self._needles is None or not isinstance(value, dict) or _may_hold(text, self._needles, self._same)
            if marked:
                return False
        return self._forms is None or not self._forms.may_be_in(text)

    def spares_outcome(self, text: str) -> bool:
        """Return whether a result or an error is recorded unchanged, for a call with unchanged arguments."""
        return not self._in_result and (self._forms_of_result is None or not self._forms_of_result.may_be_in(text))

    def arguments(self, value: Json, text: str, hidden: Hidden) -> str:
        """Return the canonical JSON to record; `text` is that of `value`."""
        if self._in_arguments and not isinstance(value, dict):
            return json.canonical({"not_an_object": hidden.take_out(value, [_Whole()])})
        marked = bool(self._in_arguments) and (self._needles is None or _may_hold(text, self._needles, self._same))
        formed = self._forms is not None and self._forms.may_be_in(text)
        if not marked and not formed:
            return text
        fresh = value
        if marked:
            fresh = hidden.take_out(fresh, self._in_arguments)
            if self._texts:
                fresh = hidden.look_into_texts(fresh, self._texts)
        if formed and self._forms is not None:
            fresh = hidden.take_forms(fresh, self._forms)
        if fresh is value:
            return text
        fresh = hidden.scrub(fresh)
        return json.canonical(_an_object(fresh) if isinstance(value, dict) else {"not_an_object": fresh})

    def result(self, text: str, hidden: Hidden) -> str:
        """Return the canonical JSON to record of a result, also without values that the arguments hid."""
        formed = self._forms_of_result is not None and self._forms_of_result.may_be_in(text)
        if not self._in_result and not hidden and not formed:
            return text
        value = json.loads(text.encode(), max_depth=1024)
        fresh = hidden.take_out(value, self._in_result)
        if self._texts_of_result:
            fresh = hidden.look_into_texts(fresh, self._texts_of_result)
        if formed and self._forms_of_result is not None:
            fresh = hidden.take_forms(fresh, self._forms_of_result)
        fresh = hidden.scrub(fresh)
        return text if fresh is value else json.canonical(_an_object(fresh))

    def error(self, error: dict[str, Json], hidden: Hidden) -> dict[str, Json]:
        """Return a failure's recorded form: without values that the arguments hid, and without known formats."""
        fresh = hidden.take_forms(error, self._forms_of_result) if self._forms_of_result else error
        return dict(hidden.scrub(fresh))

    def words(self, value: Json, hidden: Hidden) -> Json:
        """Return a text or JSON that belongs to no tool, without values marked at any depth."""
        fresh = value
        if self._texts:
            fresh = hidden.look_into_texts(hidden.take_out(fresh, self._texts), self._texts)
        if self._forms:
            fresh = hidden.take_forms(fresh, self._forms)
        return hidden.scrub(fresh)

    def hidden(self) -> Hidden:
        return Hidden(self._keys)

    def tag(self, value: Json) -> str:
        return tag(value, self._keys)


class RedactionPolicy:
    """All rules at one moment. Immutable, apart from its cache of tools."""

    def __init__(self, rules: Iterable[RedactionRule] = (), keys: Keys = ()) -> None:
        self.rules = tuple(rules)
        self.longest: int = settings.MCPHUB_AUDIT_BODY_CHARACTERS
        """Characters of a body; longer ones are cut short."""
        self._keys = keys
        self._known: dict[str, tuple[Any, Redactor | None]] = {}

    @cached_property
    def words(self) -> Json:
        """For texts of people and models: the rules for every tool, whichever part of a call they cover."""
        return Redactor((replace(rule, part=BOTH) for rule in self.rules if not rule.tool), {}, self._keys)

    def hidden(self) -> Hidden:
        return Hidden(self._keys)

    def of(self, name: str, definition: Mapping[str, Json]) -> Redactor | None:
        """Return the redactor of a tool, whose definition is one object until it changes."""
        known = self._known.get(name)
        if known is None or known[0] is not definition:
            redactor = Redactor([rule for rule in self.rules if rule.is_for(name)], definition, self._keys)
            known = self._known[name] = (definition, redactor if redactor else None)
        return known[1]

    def of_read(self, subject: RowSubject, *, is_refused: bool = False, keeps_text: bool = False) -> Redactor | None:
        """For a resource, a prompt or a completion; rules for tools of a name apply where it has that name.

        `is_refused`, `keeps_text`: as `of_refused` has them. For targets outside the catalogue, every rule counts.
        """
        rules = [rule for rule in self.rules if not subject.is_known or rule.is_for(subject.target)]
        schemas = {"inputSchema": subject.schema}
        if is_refused or not subject.is_known:
            redactor = Redactor(rules, schemas, self._keys, is_refused=not keeps_text)
            return redactor if redactor else None
        name = f"{subject.method} {subject.target}"  # no tool's, which has no blank
        known = self._known.get(name)
        if known is None or known[0] is not subject.definition:
            redactor = Redactor(rules, schemas, self._keys)
            known = self._known[name] = (subject.definition, redactor if redactor else None)
        return known[1]

    def tag(self, value: Json) -> str:
        """Return the keyed digest of a value that is not kept."""
        return tag(value, self._keys)

    def of_refused(
        self, name: str, definitions: Mapping[str, Mapping[str, Json]], *, keeps_text: bool = False
    ) -> Redactor | None:
        """For a call whose arguments were not checked against a schema, or did not match it.

        `definitions`: of the tools that there are, by name. If `name` is unknown, every rule counts, and the marks of
        tools with similar names. Unless `keeps_text`, of texts that no schema describes only digests are kept.
        """
        definition = definitions.get(name)
        is_strict = not keeps_text
        if definition is not None:
            rules = [rule for rule in self.rules if rule.is_for(name)]
            redactor = Redactor(rules, definition, self._keys, is_refused=is_strict)
        else:
            near = islice((each for other, each in definitions.items() if is_near(other, name)), _MOST_NEAR)
            redactor = Redactor(self.rules, {}, self._keys, near=near, is_refused=is_strict)
        return redactor if redactor else None


class _Structured:
    """The marks of an output schema, under `structuredContent`."""

    start: Any = "result"

    def __init__(self, inner: Annotated) -> None:
        self._inner = inner

    def hides(self, state: Schemas | str, value: Json) -> bool:
        return not isinstance(state, str) and self._inner.hides(state, value)

    def below(self, state: Schemas | str, parent: object, key: str | int) -> Schemas:
        if isinstance(state, str):
            return self._inner.start if key == "structuredContent" else ()
        return self._inner.below(state, parent, key)


class _Whole:
    start: Any = True

    def hides(self, state: object, value: Json) -> bool:
        return True

    def below(self, state: object, parent: object, key: str | int) -> tuple[()]:
        return ()


def _markers(rules: list[RedactionRule], part: str, same: Same) -> tuple[list[Marker], list[Marker], list[str] | None]:
    """Return the markers of the part, those of texts in it, and the texts required for any mark."""
    paths: list[Path] = [parse(rule.place) for rule in rules if rule.kind == PATH and rule.part in (part, BOTH)]
    named = Headers((rule.place for rule in rules if rule.kind == HEADER and rule.part in (part, BOTH)), same)
    every = Paths(paths, same)
    found: list[Marker] = [every] if paths else []
    deep = every.deep()
    texts: list[Marker] = [deep] if deep.start else []
    needles = every.needles
    if named.names:
        found.append(named)
        texts.append(named)
        needles = None if needles is None else [*needles, *sorted(named.names)]
    return found, texts, needles


def _may_hold(text: str, needles: list[str], same: Same) -> bool:
    if "\\" in text:
        return True  # a name may be written with escapes, here or in JSON within a text
    folded = text.casefold()
    if any(needle.casefold() in folded for needle in needles):
        return True
    names = set(_NAME.findall(text))
    return len(names) > _MOST_NAMES or any(same(needle, name) for needle in needles for name in names)


def _an_object(value: Json) -> dict[str, Json]:
    """The columns hold objects."""
    return value if isinstance(value, dict) else {"redacted": value}
