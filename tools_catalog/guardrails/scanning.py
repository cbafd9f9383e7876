"""Looks through JSON for what detectors find, and takes it out where that is wanted. Pure; linear in the bytes.

A value is first looked at as one text, in one pass; where that may hold something, its texts are looked at one by one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sessions_app.kit.secret_forms import FORMS
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json
from tools_catalog.guardrails import hidden, personal, phrases
from tools_catalog.guardrails.folding import folded, prepare
from tools_catalog.guardrails.linear import AnyOf, either, in_characters

SECRETS = tuple(name for name in FORMS if name != "payment_card")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "secrets": SECRETS,
    "personal": personal.KINDS,
    "hidden": hidden.KINDS,
    "injection": phrases.KINDS,
    "size": ("bytes", "depth"),
}
"""What a guardrail may name, a group or a single kind. The names are kept in rows: do not change them."""
KINDS = tuple(kind for kinds in GROUPS.values() for kind in kinds)

_GATES = {
    "address_password": r"://[^\s/:@?#\"'<>\\]{0,128}:[^\s/@\"'<>\\]{1,256}@",
    "address_secret": r"[?&#;][\w.%-]{1,64}=",
}
_OPAQUE = frozenset({"data", "blob"})
"""Members whose text is a file in Base64."""
_DEEPEST = 256
_MOST_NESTED = 4
"""Of JSON texts within JSON texts."""
_ESCAPES = (("\\n", " \n"), ("\\r", " \r"), ("\\t", " \t"), ('\\"', ' "'))

Hit = tuple[str, int, int]


@dataclass(slots=True)
class Scan:
    """What was found in a value."""

    kinds: Counter[str] = field(default_factory=Counter)
    places: list[str] = field(default_factory=list)
    """Paths to the first texts in which something is. Not for the record: names of members may be what was found."""
    value: Json = None
    """The value without what was found, where that was wanted; else the value itself."""
    until: float = float("inf")
    """When, on the monotonic clock, looking is given up."""

    def __bool__(self) -> bool:
        return bool(self.kinds)


class Scanner:
    """Looks for some kinds. Compiled once, used for every call."""

    def __init__(self, kinds: Iterable[str], *, max_bytes: int | None = None, max_depth: int | None = None) -> None:
        self.kinds = frozenset(kinds)
        self._max_bytes = max_bytes if "bytes" in self.kinds else None
        self._max_depth = max_depth if "depth" in self.kinds else None
        self._hidden = self.kinds & frozenset(hidden.KINDS)
        self._read = self.kinds - frozenset(hidden.KINDS) - frozenset(GROUPS["size"])
        self._gate_of_hidden = AnyOf((kind, hidden.PATTERNS[kind]) for kind in sorted(self._hidden))
        self._gate = AnyOf(_gates(self._read))
        if self._read:
            prepare()
        for kind in self._read:
            personal.prepare(kind)
            phrases.prepare(kind)

    def is_clean(self, value: Json, text: str) -> bool:
        """Whether nothing can be in a value; told in one pass."""
        return not self._sizes(value, text) and not self.may_be_in(text)

    def scan(self, value: Json, text: str, *, masks: bool = False, until: float = float("inf")) -> Scan:
        """Look through a value; `text` is its canonical JSON. Raises TimeoutError after `until`, a monotonic moment."""
        found = Scan(self._sizes(value, text), value=value, until=until)
        if self.may_be_in(text):
            found.value = self._walked(value, found, "$", "", masks=masks)
        return found

    def _sizes(self, value: Json, text: str) -> Counter[str]:
        kinds: Counter[str] = Counter()
        if self._max_bytes is not None and _is_longer(text, self._max_bytes):
            kinds["bytes"] = 1
        if self._max_depth is not None and is_deeper(value, text, self._max_depth):
            kinds["depth"] = 1
        return kinds

    def may_be_in(self, text: str) -> bool:
        """Whether JSON text may hold something, told without decoding it."""
        if not self._hidden and not self._read:
            return False
        if "\\" in text:
            if "\\u" in text or "\\/" in text:
                return True  # any character may be written so
            for written, meant in _ESCAPES:
                text = text.replace(written, meant)
        raw = text.encode("utf-8", "replace")
        if self._hidden and not text.isascii() and self._gate_of_hidden.names_in(raw):
            return True
        if not self._read:
            return False
        plain = text if text.isascii() else folded(text).text
        return bool(self._gate.names_in(raw if plain is text else plain.encode("utf-8", "replace")))

    def spans(self, text: str, about: str = "") -> list[Hit]:
        """Give what is in a text: kind, beginning, end, none within another. `about`: what its place is called."""
        found: list[Hit] = list(hidden.found(text, self._hidden)) if self._hidden else []
        if self._read:
            head = f"{about}: " if about else ""
            read = folded(head + text)
            raw = read.text.encode("utf-8", "replace")
            places = [span for kind in self._gate.names_in(raw) for span in _found(kind, read.text, raw)]
            for kind, begin, end in in_characters(read.text, raw, places):
                first, last = read.span(begin, end)
                if last > len(head):
                    found.append((kind, max(0, first - len(head)), last - len(head)))
        return _apart(found)

    def _walked(self, value: Json, found: Scan, path: str, about: str, *, masks: bool, nested: int = 0) -> Json:
        def texts(text: str, where: str, name: str) -> Json:
            if text[:1] in '{["' and "\\" in text and nested < _MOST_NESTED:
                inner = _as_json(text)
                if isinstance(inner, dict | list):
                    fresh = self._walked(inner, found, f"{where}→$", name, masks=masks, nested=nested + 1)
                    return text if fresh is inner else json.canonical(fresh)
            return self._cleaned(text, found, where, name, masks=masks)

        def numbers(number: int, where: str, name: str) -> Json:
            text = str(number)
            return (
                number if len(text) < 9 else _same(text, self._cleaned(text, found, where, name, masks=masks), number)
            )

        return _mapped(value, texts, numbers, path, about)

    def _cleaned(self, text: str, found: Scan, where: str, about: str, *, masks: bool) -> str:
        if time.monotonic() > found.until:
            raise TimeoutError
        spans = self.spans(text, about)
        if not spans:
            return text
        found.kinds.update(kind for kind, _begin, _end in spans)
        if len(found.places) < 20:
            found.places.append(where[:200])
        if not masks:
            return text
        parts, at = [], 0
        for kind, begin, end in spans:
            parts += [text[at:begin], mask_of(kind)]
            at = end
        return "".join([*parts, text[at:]])


@lru_cache(maxsize=256)
def scanner_of(kinds: tuple[str, ...], max_bytes: int | None, max_depth: int | None) -> Scanner:
    """Give a scanner; to make one takes up to a quarter of a second, so it is kept."""
    return Scanner(kinds, max_bytes=max_bytes, max_depth=max_depth)


def mask_of(kind: str) -> str:
    """Give what stands where something was found; what was not seen leaves nothing."""
    return "" if kind in hidden.KINDS else f"[masked:{kind}]"


def named(words: Iterable[str]) -> tuple[str, ...]:
    """Give the kinds that words name, groups or kinds; raise ValueError for a word that names none."""
    kinds: dict[str, None] = {}
    for word in words:
        if word in GROUPS:
            kinds |= dict.fromkeys(GROUPS[word])
        elif word in KINDS:
            kinds[word] = None
        else:
            raise ValueError(
                f"{word}: there is no such detector. Groups: {', '.join(GROUPS)}; kinds: {', '.join(KINDS)}."
            )
    return tuple(kinds)


def is_deeper(value: Json, text: str, most: int) -> bool:
    """Whether a value is nested deeper than `most` levels; `text`, its JSON, tells at once for most that it is not."""
    if text.count("[") + text.count("{") <= most:
        return False
    level = [value]
    for _ in range(most):
        level = [
            child
            for container in level
            if isinstance(container, dict | list | tuple)
            for child in (container.values() if isinstance(container, dict) else container)
        ]
    return any(isinstance(each, dict | list | tuple) for each in level)


def _is_longer(text: str, most: int) -> bool:
    if len(text) > most:
        return True
    return len(text) * 4 > most and not text.isascii() and len(text.encode("utf-8", "replace")) > most


def _gates(kinds: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Give for each kind what a text has that may hold it."""
    for kind in sorted(kinds & frozenset(SECRETS)):
        yield kind, _GATES.get(kind) or either(FORMS[kind].needles)
    for kind in sorted(kinds & frozenset(personal.KINDS)):
        yield from ((kind, pattern) for pattern in personal.PATTERNS[kind])
    yield from ((kind, pattern) for kind, pattern in phrases.PATTERNS if kind in kinds)


def _found(kind: str, text: str, raw: bytes) -> Iterable[Hit]:
    """Give where one kind is, in bytes of the folded text."""
    if kind in FORMS:
        spans = FORMS[kind].spans(text)
        if len(text) == len(raw):
            return ((kind, begin, end) for begin, end in spans)
        return ((kind, len(text[:begin].encode("utf-8", "replace")), len(text[:end].encode("utf-8", "replace")))
                for begin, end in spans)  # fmt: skip
    return personal.found(raw, kind) if kind in personal.PATTERNS else phrases.found(raw, kind)


def _apart(found: list[Hit]) -> list[Hit]:
    """Give spans in order, of those that overlap the first; secrets before others, then the longest."""
    made: list[Hit] = []
    for span in sorted(found, key=lambda span: (span[1], span[0] not in FORMS, -span[2])):
        if not made or span[1] >= made[-1][2]:
            made.append(span)
    return made


def _as_json(text: str) -> Json:
    try:
        return json.loads(text.encode(), max_depth=_DEEPEST)
    except (ParseError, UnicodeEncodeError):
        return None


def _same(before: str, after: str, number: int) -> Json:
    return number if after == before else after


def _mapped(
    value: Json,
    texts: Callable[[str, str, str], Json],
    numbers: Callable[[int, str, str], Json],
    path: str,
    about: str,
    depth: int = 0,
) -> Json:
    """Give the value with each text, number and name of a member changed; itself where nothing was."""
    if isinstance(value, str):
        return texts(value, path, about)
    if isinstance(value, int) and not isinstance(value, bool):
        return numbers(value, path, about)
    if depth > _DEEPEST:
        return value  # the size and the depth of what comes in are bound before
    if isinstance(value, dict):
        fresh: dict[str, Json] = {}
        is_same = True
        for key, child in value.items():
            is_file = key in _OPAQUE and isinstance(child, str) and "mimeType" in value
            name = str(texts(key, path, ""))
            made = child if is_file else _mapped(child, texts, numbers, f"{path}.{name}", name, depth + 1)
            is_same = is_same and made is child and name == key
            while name in fresh:
                name += "·"
            fresh[name] = made
        return value if is_same else fresh
    if isinstance(value, list | tuple):
        items = [_mapped(child, texts, numbers, f"{path}[{at}]", about, depth + 1) for at, child in enumerate(value)]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value
