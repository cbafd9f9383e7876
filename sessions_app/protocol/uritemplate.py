"""URI templates (RFC 6570), read the other way round: which values made this URI?

The RFC defines how values become a URI; a server needs the reverse. Matching goes through the URI once, without
backtracking, so no URI is slow: a value ends at the first place where the text after it stands, the last value
where the template's end begins. Variables of `{?…}` and `{&…}` may be absent, in any order; all others must be
there and not empty. `{path*}` takes several segments, as the servers take it that have such templates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_ESCAPED = r"%[0-9A-Fa-f]{2}"
_WORD = rf"(?:[A-Za-z0-9_]|{_ESCAPED})+"
_VARIABLE = re.compile(rf"({_WORD}(?:\.{_WORD})*)(\*|:[1-9][0-9]{{0,3}})?")
_LITERAL = re.compile(r"[^\x00-\x20\x7f\"'<>\\^`{|}]*")
_UNRESERVED = rf"(?:[A-Za-z0-9._~-]|[^\x00-\x7f]|{_ESCAPED})"
_SIMPLE = re.compile(rf"{_UNRESERVED}+")
_SEGMENTS = re.compile(rf"(?:{_UNRESERVED}|/)+")
_SEVERAL = re.compile(rf"(?:{_UNRESERVED}|[/:@!$&()*+,;=]|')+")
_RESERVED = re.compile(rf"(?:[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=-]|'|[^\x00-\x7f]|{_ESCAPED})+")

_MAY_EXPLODE = frozenset({"", "+", "/"})
_BEFORE = {"": "", "+": "", "#": "#", ".": ".", "/": "/", ";": ";"}
_BETWEEN = {"": ",", "+": ",", "#": ",", ".": ".", "/": "/", ";": ";"}


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    allowed: re.Pattern[str]
    longest: int | None
    """Characters after decoding."""

    def read(self, text: str) -> str | None:
        """Return the value, decoded; None where the text is none of this variable."""
        if not self.allowed.fullmatch(text):
            return None
        return _decoded(text, self.longest)


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A parsed template; `parse` makes one."""

    text: str
    names: tuple[str, ...]
    _literals: tuple[str, ...]
    _variables: tuple[_Variable, ...]
    _query: str
    """`?` or `&` where the template ends with such an expression, or nothing."""
    _query_names: dict[str, int | None]

    @property
    def fixed_characters(self) -> int:
        """The number of literal characters in the template: of two matches, the one with more is more specific."""
        return sum(map(len, self._literals))

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values by name, percent-decoded, or None where the template does not make this URI."""
        head, pairs = uri, list[str]()
        if self._query == "?":
            head, mark, tail = uri.partition("?")
            pairs = tail.split("&") if mark else []
        elif self._query == "&":
            fixed = sum(literal.count("&") for literal in self._literals)
            pieces = uri.split("&")
            head, pairs = "&".join(pieces[: fixed + 1]), pieces[fixed + 1 :]
        values = self._match_head(head)
        return None if values is None else self._with_pairs(values, pairs)

    def _match_head(self, text: str) -> dict[str, str] | None:
        first, last = self._literals[0], self._literals[-1]
        if not self._variables:
            return {} if text == first else None
        at, end = len(first), len(text) - len(last)
        if end < at or not text.startswith(first) or not text.endswith(last):
            return None
        values = {}
        for variable, after in zip(self._variables, self._literals[1:], strict=True):
            is_last = variable is self._variables[-1]
            stop = end if is_last else text.find(after, at, end)
            value = variable.read(text[at:stop]) if stop >= 0 else None
            if value is None:
                return None
            values[variable.name] = value
            at = stop + len(after)
        return values

    def _with_pairs(self, values: dict[str, str], pairs: list[str]) -> dict[str, str] | None:
        for pair in pairs:
            name, _, text = pair.partition("=")
            if name not in self._query_names or name in values:
                return None
            value = _decoded(text, self._query_names[name]) if not text or _SIMPLE.fullmatch(text) else None
            if value is None:
                return None
            values[name] = value
        return values


def is_template(text: str) -> bool:
    """Return whether the text has expressions, and so names many resources rather than one."""
    return "{" in text


def parse(text: str) -> UriTemplate:
    """Read a template; raise ValueError with a sentence if it is invalid, or cannot be matched."""
    literals, variables, names = [""], list[_Variable](), list[str]()
    query, query_names = "", dict[str, int | None]()
    at = 0
    for found in _EXPRESSION.finditer(text):
        literal, at = text[at : found.start()], found.end()
        _check_literal(literal)
        operator, specs = _specs(found[1])
        if query and (literal or operator != "&"):
            raise ValueError(f"After {{{query}…}} only {{&…}} may stand.")
        literals[-1] += literal
        for position, (name, modifier) in enumerate(specs):
            if name in names:
                raise ValueError(f"The variable {name} stands in the template twice.")
            names.append(name)
            longest = int(modifier[1:]) if modifier.startswith(":") else None
            if operator in ("?", "&"):
                query_names[name] = longest
                continue
            literals[-1] += _BETWEEN[operator] if position else _BEFORE[operator]
            literals[-1] += f"{name}=" if operator == ";" else ""
            if variables and not literals[-1]:
                raise ValueError(f"Put text between {{{variables[-1].name}}} and {{{name}}}: it tells where one ends.")
            variables.append(_Variable(name, _allowed(operator, modifier), longest))
            literals.append("")
        query = query or (operator if operator in ("?", "&") else "")
    _check_literal(text[at:])
    if query and at < len(text):
        raise ValueError(f"After {{{query}…}} only {{&…}} may stand.")
    literals[-1] += text[at:]
    return UriTemplate(text, tuple(names), tuple(literals), tuple(variables), query, query_names)


def _specs(expression: str) -> tuple[str, list[tuple[str, str]]]:
    operator = expression[:1] if expression[:1] in "+#./;?&" else ""
    specs = []
    for spec in expression[len(operator) :].split(","):
        found = _VARIABLE.fullmatch(spec)
        if found is None:
            raise ValueError(f"{{{expression[:60]}}} is no expression of RFC 6570: write {{name}} or {{?one,two}}.")
        if found[2] == "*" and operator not in _MAY_EXPLODE:
            raise ValueError(f"{{{expression[:60]}}}: the hub knows * in {{path*}}, {{+path*}} and {{/path*}} only.")
        specs.append((found[1], found[2] or ""))
    return operator, specs


def _check_literal(text: str) -> None:
    if not _LITERAL.fullmatch(text):
        raise ValueError("Braces, blanks, quotes and the like cannot stand in a URI; write them as %20, %7B.")


def _allowed(operator: str, modifier: str) -> re.Pattern[str]:
    if operator in ("+", "#"):
        return _RESERVED
    if modifier != "*":
        return _SIMPLE
    return _SEGMENTS if operator == "/" else _SEVERAL


def _decoded(text: str, longest: int | None) -> str | None:
    try:
        value = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None
    return value if longest is None or len(value) <= longest else None
