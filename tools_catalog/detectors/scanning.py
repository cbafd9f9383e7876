"""Searches JSON for the findings of detectors, and removes them on request. Pure; linear in the bytes.

A value is first looked at as one text, in one pass; where that may hold something, its texts are looked at one by one.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sessions_app.kit.secret_forms import FORMS
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json
from tools_catalog.detectors import hidden, personal, phrases
from tools_catalog.detectors.folding import folded, prepare
from tools_catalog.detectors.linear import AnyOf, either, in_characters

SECRETS = tuple(name for name in FORMS if name != "payment_card")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "secrets": SECRETS,
    "personal": personal.KINDS,
    "hidden": hidden.KINDS,
    "injection": phrases.KINDS,
    "size": ("bytes", "depth"),
}
"""The groups and single kinds that a guardrail may name. The names are kept in rows: do not change them."""
KINDS = tuple(kind for kinds in GROUPS.values() for kind in kinds)

_GATES = {
    "address_password": r"://[^\s/:@?#\"'<>\\]{0,128}:[^\s/@\"'<>\\]{1,256}@",
    "address_secret": r"[?&#;][\w.%-]{1,64}=",
}
_FILES = frozenset({"data", "blob"})
"""Members with a file in Base64 as text, where a type stands beside it and the text is Base64."""
_NAMED_FILE = re.compile(r'"(?:data|blob)\\*"\s*:')
_DEEPEST = 256
_MOST_NESTED = 4
"""Of JSON texts within JSON texts."""
_ESCAPES = (("\\n", " \n"), ("\\r", " \r"), ("\\t", " \t"), ('\\"', ' "'))

Hit = tuple[str, int, int]


@dataclass(slots=True)
class Scan:
    """The findings in a value."""

    kinds: Counter[str] = field(default_factory=Counter)
    places: list[str] = field(default_factory=list)
    """Paths to the first texts in which something is. Not for the record: names of members may themselves be
    findings.
    """
    value: Json = None
    """The value without the findings, on request; else the value itself."""
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
        """Return whether a value can contain no finding, decided in one pass."""
        return not self._sizes(value, text) and not self._may_hold(text)

    def scan(self, value: Json, text: str, *, masks: bool = False, until: float = float("inf")) -> Scan:
        """Look through a value; `text` is its canonical JSON. Raises TimeoutError after `until`, a monotonic moment."""
        found = Scan(self._sizes(value, text), value=value, until=until)
        if self._may_hold(text):
            found.value = self._walked(value, found, "$", "", masks=masks)
        return found

    def _sizes(self, value: Json, text: str) -> Counter[str]:
        kinds: Counter[str] = Counter()
        if self._max_bytes is not None and _is_longer(text, self._max_bytes):
            kinds["bytes"] = 1
        if self._max_depth is not None and is_deeper(value, text, self._max_depth):
            kinds["depth"] = 1
        return kinds

    def _may_hold(self, text: str) -> bool:
        """Return whether JSON text may hold something, also in a file in it."""
        if not self._hidden and not self._read:
            return False
        return self.may_be_in(text) or ("mimeType" in text and _NAMED_FILE.search(text) is not None)

    def may_be_in(self, text: str) -> bool:
        """Return whether JSON text may contain a finding, decided without decoding it."""
        if not self._hidden and not self._read:
            return False
        if "\\" in text:
            if any(escape in text for escape in ("\\u", "\\/", "\\b", "\\f")):
                return True  # any character may be written so, or a control character
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
        """Return the findings in a text: kind, beginning, end, none within another. `about`: the name of its place."""
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
            if text[:1] in '{["' and ("\\" in text or "mimeType" in text) and nested < _MOST_NESTED:
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

        def files(text: str, where: str, name: str) -> Json:
            """Look at the text as it stands, and at the encoded bytes: the type beside it may say anything."""
            content = _decoded(text)
            if content is None:
                return texts(text, where, name)
            if kind := self._secret_in(text.encode(), found, where):  # which may be Base64 as well
                return base64.b64encode(mask_of(kind).encode()).decode("ascii") if masks else text
            inner = self._in_file(content, found, where, name, masks=masks, nested=nested)
            return text if inner is content else base64.b64encode(inner).decode("ascii")

        return _mapped(value, texts, numbers, files, path, about)

    def _in_file(self, content: bytes, found: Scan, where: str, about: str, *, masks: bool, nested: int) -> bytes:
        """Return the content of a file without the findings. In one that is not text, only secrets are detected."""
        if time.monotonic() > found.until:
            raise TimeoutError
        text = _as_text(content)
        if text is not None:
            if not self.may_be_in(text):
                return content
            value: Json = (_as_json(text) if text[:1] in '{["' and nested < _MOST_NESTED else None) or text
            fresh = self._walked(value, found, f"{where}→file", about, masks=masks, nested=nested + 1)
            if fresh is value:
                return content
            return (fresh if isinstance(fresh, str) else json.canonical(fresh)).encode()
        kind = self._secret_in(content, found, f"{where}→file")
        return mask_of(kind).encode() if kind and masks else content

    def _secret_in(self, content: bytes, found: Scan, where: str) -> str:
        """Note the secrets in bytes that are no text, and return the kind of one; empty where there is none."""
        kinds = [kind for kind in self._gate.names_in(content) if kind in FORMS]
        plain = content.decode("latin-1") if kinds else ""
        hits = [kind for kind in kinds for _hit in FORMS[kind].spans(plain)]
        if hits:
            found.kinds.update(hits)
            found.places.append(where[:200])
        return hits[0] if hits else ""

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
    """Return a scanner; to make one takes up to a quarter of a second, so it is kept."""
    return Scanner(kinds, max_bytes=max_bytes, max_depth=max_depth)


def mask_of(kind: str) -> str:
    """Return the replacement of a finding; an invisible one is simply removed."""
    return "" if kind in hidden.KINDS else f"[masked:{kind}]"


def named(words: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds that words name, groups or kinds; raise ValueError for a word that names none."""
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
    """Return whether a value is nested deeper than `most` levels; for most, `text`, its JSON, rules it out at once."""
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
    """Return, for each kind, a pattern that every text with it matches."""
    for kind in sorted(kinds & frozenset(SECRETS)):
        yield kind, _GATES.get(kind) or either(FORMS[kind].needles)
    for kind in sorted(kinds & frozenset(personal.KINDS)):
        yield from ((kind, pattern) for pattern in personal.PATTERNS[kind])
    yield from ((kind, pattern) for kind, pattern in phrases.PATTERNS if kind in kinds)


def _found(kind: str, text: str, raw: bytes) -> Iterable[Hit]:
    """Return where one kind is, in bytes of the folded text."""
    if kind in FORMS:
        spans = FORMS[kind].spans(text)
        if len(text) == len(raw):
            return ((kind, begin, end) for begin, end in spans)
        return ((kind, len(text[:begin].encode("utf-8", "replace")), len(text[:end].encode("utf-8", "replace")))
                for begin, end in spans)  # fmt: skip
    return personal.found(raw, kind) if kind in personal.PATTERNS else phrases.found(raw, kind)


def _apart(found: list[Hit]) -> list[Hit]:
    """Return spans in order, of those that overlap the first; secrets before others, then the longest."""
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


def _decoded(text: str) -> bytes | None:
    """Return the bytes encoded in Base64, of either alphabet, with or without padding; None for another text."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        plain = "".join(text.split()).translate(_OTHER_ALPHABET).rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


_OTHER_ALPHABET = str.maketrans("-_", "+/")


def _as_text(content: bytes) -> str | None:
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return None


def _same(before: str, after: str, number: int) -> Json:
    return number if after == before else after


def _mapped(
    value: Json,
    texts: Callable[[str, str, str], Json],
    numbers: Callable[[int, str, str], Json],
    files: Callable[[str, str, str], Json],
    path: str,
    about: str,
    depth: int = 0,
) -> Json:
    """Return the value with each text, number and name of a member changed; itself where nothing was."""
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
            name = str(texts(key, path, ""))
            if key in _FILES and isinstance(child, str) and "mimeType" in value:
                made = files(child, f"{path}.{name}", name)
            else:
                made = _mapped(child, texts, numbers, files, f"{path}.{name}", name, depth + 1)
            is_same = is_same and made is child and name == key
            while name in fresh:
                name += "·"
            fresh[name] = made
        return value if is_same else fresh
    if isinstance(value, list | tuple):
        items = [
            _mapped(child, texts, numbers, files, f"{path}[{at}]", about, depth + 1) for at, child in enumerate(value)
        ]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value
