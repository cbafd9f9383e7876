"""Reads a text as a viewer does: without invisible characters, and with look-alike letters as the plain ones. Pure.

Every step keeps the number of characters or notes its removals, so that places found in the folded text lead back.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from itertools import chain

from tools_catalog.detectors.linear import AnyOf, class_of

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\U000e0001\U000e007f\U000e0100-\U000e01ef]+"
)
"""Characters without a visible form. Tag characters stay: they are read as the ASCII that they carry."""

_LOOKALIKES = dict(
    zip(
        "авсԁеԛһіјкӏморѕтуѵԝхАВСЕНІЈКМОРЅТУХԜαεικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɡʀոօսᎪᎬᏚ",
        "abcdeqhijklmopstyvwxABCEHIJKMOPSTYXWaeikvoptuxABEZHIKMNOPTYXigrnouAES",
        strict=True,
    )
)
_TO_LATIN = str.maketrans(_LOOKALIKES)
_MIXED = re.compile(f"[A-Za-z][{''.join(_LOOKALIKES)}]|[{''.join(_LOOKALIKES)}][A-Za-z]")
_WORD = re.compile(r"\w+")
_TAGS = range(0xE0020, 0xE007F)


def _plain_forms() -> dict[int, str]:
    """Return the plain forms of compatible characters: one ASCII character each (NFKC, decimal digits,
    dashes, tags).
    """
    found = {point: chr(point - 0xE0000) for point in _TAGS}
    found |= dict.fromkeys((8208, 8209, 8210, 8211, 8722), "-")
    for point in chain(range(0x80, 0x3400), range(0xA000, 0xAC00), range(0xF900, 0x20000)):
        letter = chr(point)
        if (digit := unicodedata.decimal(letter, None)) is not None:
            found[point] = str(digit)
            continue
        plain = unicodedata.normalize("NFKC", letter) if unicodedata.decomposition(letter) else letter
        if len(plain) == 1 and plain.isascii():
            found[point] = plain
    return found


@cache
def _tables() -> tuple[dict[int, str], AnyOf]:
    """Return the folding tables, and the test for a need to fold. Made once, in a tenth of a second."""
    plain = _plain_forms()
    alike = class_of(map(ord, _LOOKALIKES))
    hidden = class_of(point for point in chain(range(0x80, 0x10000), range(0xE0000, 0xE01F0)) if _is_invisible(point))
    look = AnyOf([("hidden", hidden), ("folds", class_of(plain)), ("mixed", f"[A-Za-z]{alike}|{alike}[A-Za-z]")])
    return plain, look


def _is_invisible(point: int) -> bool:
    return _INVISIBLE.match(chr(point)) is not None


def prepare() -> None:
    """Prepare folding, before a call waits for it."""
    _tables()


@dataclass(frozen=True, slots=True)
class Folded:
    text: str
    removed: tuple[int, ...] = ()
    """For the nth character that was taken out its place in the original, less n."""

    def span(self, begin: int, end: int) -> tuple[int, int]:
        """Return where in the original a part of the folded text stands."""
        if not self.removed:
            return begin, end
        first = begin + bisect_right(self.removed, begin)
        return first, (end - 1) + bisect_right(self.removed, end - 1) + 1 if end > begin else first


def folded(text: str) -> Folded:
    """Return the text as it is read. One of ASCII alone is itself."""
    if text.isascii():
        return Folded(text)
    folds, look = _tables()
    there = look.names_in(text.encode("utf-8", "replace"))
    removed: list[int] = []
    if "hidden" in there:
        for found in _INVISIBLE.finditer(text):
            removed += [place - len(removed) - at for at, place in enumerate(range(*found.span()))]
        text = _INVISIBLE.sub("", text)
    if "folds" in there:
        text = text.translate(folds)
    if removed or "mixed" in there or "folds" in there:
        text = _WORD.sub(lambda found: _latin(found[0]), text)
    return Folded(text, tuple(removed))


def _latin(word: str) -> str:
    return word.translate(_TO_LATIN) if _MIXED.search(word) is not None else word
