"""Takes out of a body what is marked, and out of texts what was taken out elsewhere.

What goes leaves a tag, `redacted:<key id>:<32 hexadecimal digits>`: a keyed hash (HMAC-SHA-256) of the value, so
that equal values stay findable and nobody without the key can try guesses.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from invocations.redaction.places import Marker, Paths
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError

_PURPOSE = b"mcphub redaction tag"
_PROBE = 16
"""Of a longer secret so much is looked for: messages shorten what they quote."""
_SHORT = 4
"""A shorter secret is looked for as a whole word: inside words it would be everywhere."""
_MOST_SECRETS = 1000
"""Spellings that are looked for, up to five of each value."""
_MOST_PLACES = 50
_DEEPEST = 256

Keys = Sequence[tuple[str, bytes]]


class Tag(str):
    """Stands where something was; never taken out again."""

    __slots__ = ()


def tag(value: Any, keys: Keys) -> Tag:
    """Give what stays of a value, made with the first key."""
    return Tag(tags(value, keys[:1])[0])


def tags(value: Any, keys: Keys) -> list[str]:
    """Give what any of the keys would leave of a value. Numbers count by value: 3 is 3.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    text = json.canonical(value).encode("utf-8", "surrogatepass")
    found = []
    for key_id, key in keys:
        purpose = hmac.digest(key, _PURPOSE, hashlib.sha256)
        found.append(f"redacted:{key_id}:{hmac.new(purpose, text, hashlib.sha256).hexdigest()[:32]}")
    return found


class Hidden:
    """What was taken out of the bodies of one call: which places, and which texts must not show elsewhere."""

    def __init__(self, keys: Keys) -> None:
        self.places: list[str] = []
        self._keys = keys
        self._secrets: dict[str, Tag] = {}
        self._is_flooded = False

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def begin(self) -> None:
        """Count the places of another body."""
        self.places = []

    # By place --------------------------------------------------------------------------------------

    def take_out(self, value: Any, markers: Sequence[Marker], path: str = "$") -> Any:
        """Give the value without what the markers hide. The value itself stays as it is."""
        return self._below(value, [(marker, marker.start) for marker in markers], path)

    def _below(self, value: Any, states: list[tuple[Marker, Any]], path: str) -> Any:
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

    def look_into_texts(self, value: Any, markers: Sequence[Marker], path: str = "$") -> Any:
        """Give the value with the same hidden in texts that are JSON themselves."""

        def inside(text: str, where: str) -> str:
            if text[:1] not in ("{", "[") or isinstance(text, Tag):
                return text
            try:
                held = json.loads(text.encode())
            except (ParseError, UnicodeEncodeError):
                return text
            fresh = self.take_out(held, markers, f"{where}→$")
            return text if fresh is held else json.canonical(fresh)

        return _mapped(value, inside, path)

    def _hide(self, value: Any, path: str) -> Tag:
        self._place(path)
        stack = [value]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                stack += item.values()
            elif isinstance(item, list | tuple):
                stack += item
            elif isinstance(item, str | int | float) and not isinstance(item, bool) and item != "":
                if len(self._secrets) >= _MOST_SECRETS:
                    self._is_flooded = True
                    break
                for form in _forms(item):
                    self._secrets.setdefault(form, tag(item, self._keys))
        return tag(value, self._keys)

    def _place(self, path: str) -> None:
        if len(self.places) < _MOST_PLACES:
            self.places.append(path)
        elif len(self.places) == _MOST_PLACES:
            self.places.append("…")

    # By value --------------------------------------------------------------------------------------

    def scrub(self, value: Any, path: str = "$") -> Any:
        """Give the value without the texts and numbers that were taken out, wherever they show."""
        if not self._secrets:
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
        return _mapped(value, clean, path, long, names)


def _forms(secret: str | int | float) -> set[str]:
    """How a value may be quoted: as it is, within JSON, in an address."""
    text = secret if isinstance(secret, str) else json.canonical(secret)
    clean = text.encode("utf-8", "replace").decode()
    return {text, json.canonical(text)[1:-1], _ascii(text), quote(clean, safe=""), repr(text)[1:-1]}


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
        self._pattern = re.compile("|".join(map(_bounded, probes)))

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


def _bounded(probe: str) -> str:
    found = re.escape(probe)
    if probe.isdigit():
        return rf"(?<!\d){found}" + ("" if len(probe) == _PROBE else r"(?!\d)")
    return found if len(probe) >= _SHORT else rf"(?<!\w){found}(?!\w)"


def _mapped(value: Any, change: Any, path: str, numbers: Any = None, names: Any = None, depth: int = 0) -> Any:
    """Give the value with each text in it changed; itself where nothing was.

    `numbers`: what stands for which number, by its JSON. `names` changes the names of members.
    """
    if isinstance(value, str):
        return change(value, path)
    if numbers and isinstance(value, int | float) and not isinstance(value, bool):
        return numbers.get(json.canonical(value), value)
    if depth > _DEEPEST:
        return value
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
