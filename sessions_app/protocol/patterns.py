"""Patterns of ECMA-262 in the part of the language that the hub's engine and those of clients read alike. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from sessions_app.protocol import schemas

_LONGEST = 10_000
_MARKED = re.compile(r"/(\^.*\$)/([gimsuy]{0,6})\Z", re.DOTALL)
"""`/^…$/u`, a pattern in source code form; JSON Schema has only the part in between, and no `i`."""
_QUANTIFIER = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_PAIR = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_CODE = re.compile(r"\\u(?:\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{4}))")
_PROPERTY = re.compile(r"\\[pP]\{[^}]*\}")
_SET_ESCAPES = frozenset("dDwWsS")
_ANCHORS = {"A": "^", "Z": "$", "z": "$"}
"""How Python, Perl and Java write both ends of a text."""


@lru_cache(maxsize=4096)
def readable(pattern: str) -> str | None:
    """Return the pattern in a form that every engine reads, or None if there is none.

    One that the engine reads stays as it is, but for the marks of source code around it.
    """
    marked = _MARKED.match(pattern)
    if len(pattern) > _LONGEST or (marked and "i" in marked[2]):
        return None
    plain = marked[1] if marked else pattern
    for each in (plain, _translated(plain)):
        if each is not None and _is_read(each):
            return each
    return None


def _is_read(pattern: str) -> bool:
    try:
        schemas.check({"pattern": pattern})
    except schemas.SchemaRejected:
        return False
    return True


def _translated(pattern: str) -> str | None:
    """Expand syntax of some engines only; None for syntax without an effect on validation."""
    pattern = _PAIR.sub(lambda pair: _character(_joined(pair[1], pair[2])), pattern)
    if any(0xD800 <= int(code[1] or code[2], 16) <= 0xDFFF for code in _CODE.finditer(pattern)):
        return None
    made: list[str] = []
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            code = _CODE.match(pattern, at)
            if code is not None:
                made.append(_character(int(code[1] or code[2], 16)))
                at = code.end()
                continue
            named = _PROPERTY.match(pattern, at)
            made.append(named[0] if named else _escape(pattern[at + 1 : at + 2], in_set=False))
            at = named.end() if named else at + 2
        elif sign == "[":
            end = _end_of_set(pattern, at)
            if end is None or (written := _set(pattern[at + 1 : end])) is None:
                return None
            made.append(written)
            at = end + 1
        elif sign == "{" and (quantifier := _QUANTIFIER.match(pattern, at)) and made:
            made.append(quantifier[0])
            at = quantifier.end()
        else:
            made.append(f"\\{sign}" if sign in "{}]" else sign)
            at += 1
    return "".join(made)


def _joined(high: str, low: str) -> int:
    return 0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00)


def _character(code: int) -> str:
    return re.sub(r"([\\^$.|?*+()\[\]{}/-])", r"\\\1", chr(code)) if code <= 0x10FFFF else "\ufffd"


def _escape(sign: str, *, in_set: bool) -> str:
    if sign in _ANCHORS and not in_set:
        return _ANCHORS[sign]
    if sign == "0":
        return r"\x00"
    if sign == "h":
        return r" \t" if in_set else r"[ \t]"
    if sign == "e":
        return r"\x1b"
    # An escape that says nothing is one of the sign itself.
    is_said = sign.isalnum() or sign in r"^$\.*+?()[]{}|/-"
    return f"\\{sign}" if is_said else sign


def _end_of_set(pattern: str, start: int) -> int | None:
    at = start + 1
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "]":
            return at
        at += 1
    return None


def _set(inner: str) -> str | None:
    """Write a set of characters; None for the empty one, which nothing matches."""
    negation = "^" if inner.startswith("^") else ""
    inner = inner.removeprefix("^")
    if not inner:
        return r"[\s\S]" if negation else None
    parts: list[str] = []
    at = 0
    while at < len(inner):
        code = _CODE.match(inner, at)
        if code is not None:
            parts.append(_character(int(code[1] or code[2], 16)))
            at = code.end()
        elif inner[at] == "\\":
            named = _PROPERTY.match(inner, at)
            parts.append(named[0] if named else _escape(inner[at + 1 : at + 2], in_set=True))
            at = named.end() if named else at + 2
        else:
            parts.append(inner[at])
            at += 1
    return f"[{negation}{''.join(_part(parts, index) for index in range(len(parts)))}]"


def _part(parts: list[str], index: int) -> str:
    """Write one part of a set: a `-` that leads from no single character to another stands for itself."""
    part = parts[index]
    if part != "-":
        return f"\\{part}" if part in "[&~" else part
    around = parts[max(0, index - 1) : index] + parts[index + 1 : index + 2]
    is_range = len(around) == 2 and not any(_is_several(each) for each in around)
    is_second = index >= 2 and parts[index - 2] == "-"
    return "-" if is_range and not is_second else r"\-"


def _is_several(part: str) -> bool:
    return len(part) > 1 and part[0] == "\\" and (part[1] in _SET_ESCAPES or part[1] in "pP")
