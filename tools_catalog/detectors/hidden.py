"""Hidden characters in a text: zero-width and bidirectional signs, tags, control characters. Pure, linear."""

from __future__ import annotations

import re
from collections.abc import Iterator

Found = Iterator[tuple[str, int, int]]

KINDS = ("zero_width", "bidi", "tags", "variation", "control")

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
_ZERO_WIDTH = "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200d\u2060-\u2064\u3164\ufeff\uffa0"
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"
_CONTROL_1 = "\u0080-\u0084\u0086-\u009f\ufff9-\ufffb"
_TAGS = "\U000e0000-\U000e007f"
_VARIATION = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_ANY = re.compile(
    f"(?P<zero_width>[{_ZERO_WIDTH}]+)|(?P<bidi>[{_BIDI}]+)|(?P<tags>[{_TAGS}]+)|(?P<variation>[{_VARIATION}]+)|"
    f"(?P<control>[{_CONTROL_1}]+)"
)
PATTERNS = {
    "zero_width": f"[{_ZERO_WIDTH}]",
    "bidi": f"[{_BIDI}]",
    "tags": f"[{_TAGS}]",
    "variation": f"[{_VARIATION}]",
    "control": f"[{_CONTROL_1}]|[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]",
}
"""By kind, a pattern that every text with it matches."""
_JOINERS = frozenset("\u200c\u200d")
_FLAG, _FLAG_ENDS = "\U0001f3f4", "\U000e007f"
_MARKS = frozenset("\u200e\u200f\u061c")


def found(text: str, kinds: frozenset[str]) -> Found:
    """Return the hidden characters, except legitimate ones of scripts and emoji: joiners between their letters, one
    variation selector, the tags of a flag, single direction marks beside letters of right-to-left scripts.
    """
    if "control" in kinds:
        yield from (("control", *each.span()) for each in _CONTROL.finditer(text))
    if text.isascii():
        return
    for each in _ANY.finditer(text):
        kind = str(each.lastgroup)
        if kind in kinds and not _is_needed(kind, each[0], text, each.start(), each.end()):
            yield kind, *each.span()


def _is_needed(kind: str, what: str, text: str, begin: int, end: int) -> bool:
    before, after = text[begin - 1 : begin] if begin else "", text[end : end + 1]
    if kind == "zero_width":
        if what == "\ufeff" and begin == 0:
            return True  # a byte order mark
        if what == "\u00ad":
            return before.isalpha() and after.isalpha()  # where a word may be broken
        return len(what) == 1 and what in _JOINERS and not before.isascii() and not after.isascii() and before != ""
    if kind == "variation":
        return len(what) == 1 and before != "" and (not before.isascii() or before in "#*0123456789")
    if kind == "tags":
        return before == _FLAG and what.endswith(_FLAG_ENDS) and len(what) <= 7
    if kind == "bidi":
        return (
            len(what) == 1
            and what in _MARKS
            and (_is_rtl(before) or _is_rtl(after) or _is_rtl(text[begin - 2 : begin - 1]))
        )
    return False


def _is_rtl(letter: str) -> bool:
    return "\u0590" <= letter <= "\u08ff" or "\ufb1d" <= letter <= "\ufdff" or "\ufe70" <= letter <= "\ufefc"
