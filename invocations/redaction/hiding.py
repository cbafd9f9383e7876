"""Removes marked values from a body, and removed values from other texts.

A removed value leaves a tag, `redacted:<key id>:<32 hexadecimal digits>`: a keyed hash (HMAC-SHA-256), so that equal
values stay findable and nobody without the key can test guesses.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from invocations.redaction.places import Marker, Paths
from sessions_app.kit.secret_forms import Forms, is_card
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json

_PURPOSE = b"mcphub redaction tag"
_PROBE = 16
"""Length of a longer secret's prefix that is searched for: messages shorten quotes."""
_SHORT = 4
"""A shorter secret is looked for as a whole word: inside words it would be everywhere."""
_MOST_SECRETS = 2000
"""Spellings that are looked for, some twenty of each value."""
_ENCODED = 6
"""Bytes from which on a value is looked for in Base64 and as digits too: shorter ones would be found by chance."""
_LONGEST_ENCODED = 300
_MOST_SOUGHT = 1 << 18
"""Characters of all values together that are handed on to be looked for elsewhere."""
_MOST_NESTED = 4
"""Of JSON texts within JSON texts."""
_MOST_PLACES = 50
_DEEPEST = 256

Keys = Sequence[tuple[str, bytes]]


class Tag(str):
    """Stands where something was; never taken out again."""

    __slots__ = ()


def tag(value: Json, keys: Keys) -> Tag:
    """Return the tag of a value, made with the first key."""
    return Tag(tags(value, keys[:1])[0])


def tags(value: Json, keys: Keys) -> list[str]:
    """Return the tags of a value under any of the keys. Numbers count by value: 3 is 3.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    text = json.canonical(value).encode("utf-8", "surrogatepass")
    found = []
    for key_id, key in keys:
        found.append(f"redacted:{key_id}:{hmac.digest(_purpose(key), text, 'sha256').hex()[:32]}")
    return found


@lru_cache(maxsize=16)
def _purpose(key: bytes) -> bytes:
    return hmac.digest(key, _PURPOSE, "sha256")


class Hidden:
    """The values removed from the bodies of one call: their locations, and texts that must not appear elsewhere."""

    def __init__(self, keys: Keys) -> None:
        self.places: list[str] = []
        self._keys = keys
        self._secrets: dict[str, Tag] = {}
        self._values: list[Json] = []
        self._is_flooded = False

    def __bool__(self) -> bool:
        return bool(self._secrets) or self._is_flooded

    @property
    def size(self) -> int:
        return len(self._secrets) + self._is_flooded

    def values(self) -> list[Json]:
        """Return the values for `seek`; [None] if there are too many: then no text stays."""
        length = sum(len(value) for value in self._values if isinstance(value, str))
        return [None] if self._is_flooded or length > _MOST_SOUGHT else list(self._values)

    def seek(self, values: Iterable[Json]) -> None:
        """Search for values removed elsewhere too."""
        for value in values:
            if value is None:
                self._is_flooded = True
            else:
                self._remember(value)

    def begin(self) -> None:
        """Count the places of another body."""
        self.places = []

    # By place --------------------------------------------------------------------------------------

    def take_out(self, value: Json, markers: Sequence[Marker], path: str = "$") -> Json:
        """Return the value without the parts that the markers hide. The value itself stays as it is."""
        return self._below(value, [(marker, marker.start) for marker in markers], path)

    def _below(self, value: Json, states: list[tuple[Marker, Any]], path: str) -> Json:
        if isinstance(value, Tag):
            return value
        if any(marker.hides(state, value) for marker, state in states):
            return self._hide(value, path)
        items: Any = ()
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, list | tuple):
            items = enumerate(value)
        changed: dict[Any, Any] = {}
        for key, child in items:
            led = [(marker, marker.below(state, value, key)) for marker, state in states]
            led = [pair for pair in led if pair[1]]
            if led:
                fresh = self._below(child, led, _joined(path, key))
                if fresh is not child:
                    changed[key] = fresh
        if not changed:
            return value
        if isinstance(value, dict):
            return {key: changed.get(key, child) for key, child in value.items()}
        return [changed.get(at, child) for at, child in enumerate(value)]

    def look_into_texts(self, value: Json, markers: Sequence[Marker], path: str = "$") -> Json:
        """Return the value with the same hidden in texts that are JSON themselves."""

        return self._within_texts(value, lambda held, where: self.take_out(held, markers, where), path)

    def _within_texts(self, value: Json, change: Callable[[Json, str], Json], path: str, nested: int = 0) -> Json:
        """Return the value with each text that is a JSON document changed, and written anew where it changed."""

        def inside(text: str, where: str) -> str:
            if isinstance(text, Tag) or text.lstrip()[:1] not in ("{", "[", '"') or nested >= _MOST_NESTED:
                return text
            try:
                held = json.loads(text.encode(), max_depth=1024)
            except (ParseError, UnicodeEncodeError):
                return text
            fresh = self._within_texts(change(held, f"{where}→$"), change, f"{where}→$", nested + 1)
            return text if fresh is held else json.canonical(fresh)

        return _mapped(value, inside, path)

    # By form ---------------------------------------------------------------------------------------

    def take_forms(self, value: Json, forms: Forms, path: str = "$") -> Json:
        """Return the value without secrets of known formats, in member names and numbers too."""

        def name(text: str) -> str:
            return self._without_forms(text, forms)

        def clean(text: str, where: str) -> str:
            fresh = text if isinstance(text, Tag) else self._without_forms(text, forms)
            if fresh is not text:
                self._place(where)
            return fresh

        def number(value: int | float, where: str) -> Json:
            if forms.has_cards and isinstance(value, int) and is_card(str(value)):
                return self._hide(value, where)
            return value

        def change(value: Json, where: str) -> Json:
            return _mapped(value, clean, where, number, name)

        return change(self._within_texts(value, change, path), path)

    def _without_forms(self, text: str, forms: Forms) -> str:
        parts, at = [], 0
        for begin, end in forms.spans(text):
            secret = text[begin:end]
            if not secret.startswith("redacted:"):
                self._remember(secret)
                parts += [text[at:begin], tag(secret, self._keys)]
                at = end
        return "".join([*parts, text[at:]]) if parts else text

    def _hide(self, value: Json, path: str) -> Tag:
        self._place(path)
        stack = [value]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                stack += item.values()
                stack += [name for name in item if _tells(name)]
            elif isinstance(item, list | tuple):
                stack += item
            elif isinstance(item, str | int | float) and not isinstance(item, bool) and item != "":
                self._remember(item)
                if self._is_flooded:
                    break
        return tag(value, self._keys)

    def _remember(self, secret: str | int | float) -> None:
        """Look for a value elsewhere too."""
        if len(self._secrets) >= _MOST_SECRETS:
            self._is_flooded = True
        elif secret not in self._secrets:
            self._values.append(secret)
            mark = tag(secret, self._keys)
            for form in _forms(secret):
                self._secrets.setdefault(form, mark)

    def _place(self, path: str) -> None:
        if len(self.places) < _MOST_PLACES:
            self.places.append(path)
        elif len(self.places) == _MOST_PLACES:
            self.places.append("…")

    # By value --------------------------------------------------------------------------------------

    def scrub(self, value: Json, path: str = "$") -> Json:
        """Return the value without the texts and numbers that were taken out, wherever they show."""
        if not self:
            return value
        if self._is_flooded:  # too many to look for each: no text stays
            self._place(path)
            return _mapped(value, lambda text, _: text if isinstance(text, Tag) else tag(text, self._keys), path)
        search = _Search(self._secrets)

        def clean(text: str, where: str) -> str:
            fresh = text if isinstance(text, Tag) else search.replaced(text)
            if fresh != text:
                self._place(search.replaced(where))
            return fresh

        # Names of members are texts too, but a short secret there is a name by chance.
        long = {form: mark for form, mark in self._secrets.items() if len(form) >= _SHORT}
        names = _Search(long).replaced if long else None
        numbers = (lambda number, _: self._secrets.get(json.canonical(number), number)) if self._secrets else None
        fresh = _mapped(value, clean, path, numbers, names)
        if names is not None:
            self.places = [names(place) for place in self.places]  # a place names members, perhaps a secret one
        return fresh


def _forms(secret: str | int | float) -> set[str]:
    """How a value may be quoted: as it is, within JSON, in an address."""
    text = secret if isinstance(secret, str) else json.canonical(secret)
    clean = text.encode("utf-8", "replace").decode()
    found = {text, json.canonical(text)[1:-1], _ascii(text), quote(clean, safe=""), repr(text)[1:-1]}
    raw = clean.encode()
    if len(raw) < _ENCODED:
        return found
    raw = raw[:_LONGEST_ENCODED]
    percent = "".join(f"%{byte:02X}" for byte in raw)
    found |= {raw.hex(), raw.hex().upper(), percent, percent.lower(), quote(clean, safe="").lower(), quote_plus(clean)}
    found.add("".join(f"\\u{ord(letter):04x}" for letter in clean[:_LONGEST_ENCODED]))
    return found | _in_base64(raw)


def _in_base64(raw: bytes) -> set[str]:
    """Return the Base64 forms of the bytes, plain and for addresses, at each alignment."""
    found = set()
    for before in range(3):
        bits = 8 * (before + len(raw))
        core = b64encode(b"\0" * before + raw)[-(-8 * before // 6) : bits // 6].decode()
        found |= {core, core.replace("+", "-").replace("/", "_")}
    return {core for core in found if len(core) >= _ENCODED}


def _tells(name: str) -> bool:
    """Return whether the name of a hidden member may be a secret itself: long, of letters and digits."""
    return len(name) >= 8 and any(map(str.isdigit, name)) and any(map(str.isalpha, name))


def _ascii(text: str) -> str:
    import json as stdlib

    return stdlib.dumps(text)[1:-1]


class _Search:
    """One pass through a text for all that was taken out."""

    def __init__(self, secrets: dict[str, Tag]) -> None:
        self._by_probe: dict[str, list[str]] = {}
        self._tags = secrets
        for form in secrets:
            self._by_probe.setdefault(form[:_PROBE], []).append(form)
        probes = sorted(self._by_probe, key=len, reverse=True)
        self._pattern = re.compile(_either(probes))

    def replaced(self, text: str) -> str:
        """Put a tag in place of each secret, or of as much of its beginning as a message quotes."""
        parts, at = [], 0
        while (found := self._pattern.search(text, at)) is not None:
            begin = found.start()
            end, form = max((self._reach(text, begin, form), form) for form in self._by_probe[found[0]])
            parts += [text[at:begin], self._tags[form]]
            at = end
        return "".join([*parts, text[at:]]) if parts else text

    @staticmethod
    def _reach(text: str, begin: int, form: str) -> int:
        end = begin + len(form[:_PROBE])
        while end < len(text) and end - begin < len(form) and text[end] == form[end - begin]:
            end += 1
        return end


def _either(probes: list[str]) -> str:
    """Return a pattern for any of the texts, longest first; by their beginnings, so that most are never tried."""
    groups: dict[str, list[str]] = {}
    for probe in probes:
        groups.setdefault(probe[:2] if len(probe) >= _SHORT and not probe.isdigit() else "", []).append(probe)
    plain = [_bounded(probe) for probe in groups.pop("", [])]
    deep = [f"{re.escape(head)}(?:{'|'.join(re.escape(each[2:]) for each in of)})" for head, of in groups.items()]
    return "|".join([*deep, *plain])


def _bounded(probe: str) -> str:
    found = re.escape(probe)
    if probe.isdigit():
        return rf"(?<!\d){found}" + ("" if len(probe) == _PROBE else r"(?!\d)")
    return found if len(probe) >= _SHORT else rf"(?<!\w){found}(?!\w)"


def _mapped(
    value: Json,
    change: Callable[[str, str], Json],
    path: str,
    numbers: Callable[[int | float, str], Json] | None = None,
    names: Callable[[str], str] | None = None,
    depth: int = 0,
) -> Json:
    """Return the value with each text in it changed; itself where nothing was.

    `numbers` changes numbers, `names` the names of members. Deeply nested values are changed as their JSON.
    """
    if isinstance(value, str):
        return change(value, path)
    if numbers and isinstance(value, int | float) and not isinstance(value, bool):
        return numbers(value, path)
    if depth > _DEEPEST and isinstance(value, dict | list | tuple):
        text = json.canonical(value)
        fresh = change(text, path)
        return value if fresh == text else fresh
    if isinstance(value, dict):
        pairs = []
        for key, child in value.items():
            name = names(key) if names is not None else key
            pairs.append((name, _mapped(child, change, _joined(path, name), numbers, names, depth + 1)))
        same = all(key == old and child is value[old] for (key, child), old in zip(pairs, value, strict=True))
        return value if same else dict(pairs)
    if isinstance(value, list | tuple):
        items = [_mapped(child, change, f"{path}[{at}]", numbers, names, depth + 1) for at, child in enumerate(value)]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _joined(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    plain = key.isidentifier() and key.isascii() and len(key) <= 64
    return f"{path}.{key}" if plain else f"{path}[{json.canonical(key[:64])}]"


__all__ = ["Hidden", "Keys", "Paths", "Tag", "tag", "tags"]
