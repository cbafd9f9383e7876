"""Foreign text as operators may safely read it: nothing invisible, nothing that reorders, nothing that runs."""

from __future__ import annotations

import json
import re
from datetime import datetime
from decimal import Decimal

from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _t

INLINE_CHARACTERS = 65_536
"""So much of one body stands on a page; the rest is had by download."""

_DECEIVING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Controls but tab and line feed, bidirectional marks, invisible characters, tags and lone surrogates."""
_LONG = re.compile(r"\S{17,}")
_BEHIND_MARK = re.compile(r"(?<=[_./:@?&=-])(?=[^_./:@?&=-])")
_HERE = "\u200b"
"""In no text that is `visible`."""


def visible(text: object, *, one_line: bool = False) -> str:
    """Return the text with every deceiving character written as its escape. Not yet safe as HTML."""
    words = _DECEIVING.sub(_escape, str(text))
    return words.replace("\n", "\\n").replace("\t", "\\t") if one_line else words


def rounded(value: float, places: int = 1) -> str:
    """Return a number in the reader's language. `number_format` alone would cut the further places off."""
    return number_format(Decimal(f"{value:.{places}f}"), places, force_grouping=True)


def percent(part: float, whole: float) -> str:
    """Return a share in the reader's language, with one place."""
    return f"{rounded(100 * part / whole)}\N{NO-BREAK SPACE}%"


def duration(milliseconds: int) -> str:
    """Return a span of time in the reader's language."""
    if milliseconds < 10_000:
        return _t("%(milliseconds)s ms") % {"milliseconds": milliseconds}
    return _t("%(seconds)s s") % {"seconds": rounded(milliseconds / 1000)}


def span(seconds: float) -> str:
    """Return a span of time in minutes, hours or days, rounded down, in the reader's language."""
    minutes, left = divmod(int(max(0.0, seconds)), 60)
    if not minutes:
        return _t("%(seconds)s s") % {"seconds": left}
    if minutes < 60:
        return _t("%(minutes)s min") % {"minutes": minutes}
    if minutes < 2 * 24 * 60:
        return _t("%(hours)s h %(minutes)s min") % {"hours": minutes // 60, "minutes": minutes % 60}
    return _t("%(days)s d") % {"days": number_format(minutes // (24 * 60), force_grouping=True)}


def ago(moment: datetime) -> SafeString:
    """Return the age of a moment, with the exact time as a tooltip."""
    local = timezone.localtime(moment)
    words = _t("%(time)s ago") % {"time": span((timezone.now() - moment).total_seconds())}
    exact = local.strftime("%Y-%m-%d %H:%M:%S %Z")
    return format_html('<time datetime="{}" title="{}">{}</time>', local.isoformat(), exact, words)


def size(count: int) -> str:
    """Return a number of bytes in the reader's language."""
    if count < 10_000:
        return _t("%(bytes)s B") % {"bytes": count}
    return _t("%(kilobytes)s kB") % {"kilobytes": rounded(count / 1000)}


def clipped(text: object, length: int) -> str:
    """Return at most `length` characters of one line, for a cell or a title."""
    words = str(text)
    return visible(words if len(words) <= length else words[: length - 1] + "…", one_line=True)


def pretty(value: object) -> str:
    """Return a JSON value as indented text, its order kept, deceiving characters escaped."""
    return visible(json.dumps(value, indent=2, ensure_ascii=False))


def unmistakable(text: str) -> str:
    """Return JSON text with deceiving characters as the escapes of JSON, so that it still means the same."""
    return _DECEIVING.sub(lambda match: _json_escape(match[0]), text)


def json_block(value: object, label: str = "") -> SafeString:
    """Return a JSON value as an HTML block that can be scrolled with the keyboard."""
    text = pretty(value)
    cut = text[:INLINE_CHARACTERS]
    return format_html(
        '<pre class="hub-json" tabindex="0" role="region" aria-label="{}">{}{}</pre>',
        label or "JSON",
        cut,
        "\n…" if len(text) > len(cut) else "",
    )


def cell(words: str) -> SafeString:
    """Return foreign words for a narrow column, whole in the tooltip."""
    return format_html(
        '<span class="hub-cell" title="{}">{}</span>', visible(words, one_line=True), clipped(words, 120)
    )


def narrow(words: str) -> SafeString:
    """Return foreign words for a column beside many others, whole in the tooltip."""
    return format_html('<span class="hub-narrow">{}</span>', cell(words))


def breakable(words: object) -> SafeString:
    """Return foreign text with long names breakable after punctuation within them, and nowhere else."""
    text = _LONG.sub(lambda name: _BEHIND_MARK.sub(_HERE, name[0]), visible(words, one_line=True))
    return mark_safe(escape(text).replace(_HERE, "<wbr>"))  # noqa: S308 - escaped


def mono(words: str) -> SafeString:
    """Return an id or the like in fixed width."""
    return format_html('<span class="hub-mono">{}</span>', breakable(words))


def copyable(words: str, name: str) -> SafeString:
    """Return an id in fixed width with a button that copies it; `name` is unique on the page."""
    return format_html('<span id="hub-copy-{}">{}</span> {}', name, mono(words), copy_button(name))


def copy_button(name: str) -> SafeString:
    """Return the button that copies the text of the element `hub-copy-NAME`."""
    return format_html(
        '<button type="button" class="hub-link" data-copy="hub-copy-{}" aria-describedby="hub-copy-{}">{}</button>',
        name,
        name,
        _t("Copy"),
    )


def _escape(match: re.Match[str]) -> str:
    point = ord(match[0])
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
