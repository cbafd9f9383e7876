"""Detection of credentials in a configuration: by the name of their place, and by their own format. Pure."""

from __future__ import annotations

import re
from typing import Final

from tools_catalog.literals import literal_in
from tools_catalog.upstream.spec import names_credential

_CASES: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BREAKS: Final = re.compile(r"[\W_]+")
_WORDS: Final = frozenset({"pat", "pwd", "pass", "auth", "bearer", "jwt", "signature", "passphrase", "dsn"})
_LAST: Final = frozenset({"key", "keys", "apikey"})
"""A name that ends so: API_KEY and SUBSCRIPTION_KEY, and not KEY_COUNT."""
_OPEN: Final = frozenset({"public", "primary", "foreign", "sort", "partition", "cache"})
"""Keys that are none of a lock."""
_SCHEMES: Final = re.compile(r"(?i)(bearer|basic|token|apikey|key)\s+(?=\S)")
_MORE_SHAPES: Final = re.compile(
    r"""(?x)(?<![\w-])(?:
    hf_[A-Za-z0-9]{20,} | npm_[A-Za-z0-9]{20,} | pypi-[\w-]{16,} | dop_v1_[a-f0-9]{20,} | ntn_\w{20,} | lin_api_\w{16,}
    | SG\.[\w-]{10,}\.[\w-]{10,} | figd_[\w-]{16,} | tvly-[\w-]{10,} | r8_\w{20,} | shp(?:at|ss)_\w{16,}
    | pat[A-Za-z0-9]{14}\.[a-f0-9]{40,} | mcph_\w{8,}
    )"""
)
"""Of services that MCP servers stand before, beside those that are sought everywhere."""
_WITH_PASSWORD: Final = re.compile(r"\w[\w+.-]{0,20}://[^/\s:@]*:[^/\s@]+@")
_OPAQUE: Final = re.compile(r"[A-Za-z0-9_+/=-]{24,}\Z")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_TO_FILL_IN: Final = re.compile(
    r"""(?ix) \s* (?: <[^<>]*> | \[[^\[\]]*\] | your[-_\ ].* | .*[-_\ ]here | my[-_](?:api[-_])?(?:key|token|secret)
    | x{3,}.* | \*{3,} | \.{3,} | …+ | change[-_]?me | replace.* | insert.* | todo
    | (?-i: \{[A-Z][A-Z0-9_]+\} | __[A-Z][A-Z0-9_]*__ ) ) \s* \Z"""
)
_EXAMPLE_PATH: Final = re.compile(
    r"(?i)(?:/absolute)?/path/to/|/Users/(?:username|you|yourname)\b|/home/(?:username|user|you)/|C:\\\\?path"
)


def is_named_so(name: str) -> bool:
    """Return whether a variable, header or flag of this name holds a credential."""
    if names_credential(name) or literal_in(name, "-") is not None:
        return True
    words = [word.lower() for word in _BREAKS.split(_CASES.sub(" ", name)) if word]
    if not words or not _OPEN.isdisjoint(words):
        return False
    return not _WORDS.isdisjoint(words) or words[-1] in _LAST


def looks_so(value: str) -> bool:
    """Return whether a text has the form of a credential that is known, or carries a password as addresses can."""
    return (
        literal_in("", value) is not None
        or _MORE_SHAPES.search(value) is not None
        or _WITH_PASSWORD.search(value) is not None
    )


def is_opaque(value: str) -> bool:
    """Return whether a text is long and without meaning, as generated credentials are. Paths and words are not."""
    if not _OPAQUE.match(value) or _UUID.match(value) or value.count("/") > 1:
        return False
    kinds = (re.search(r"[0-9]", value), re.search(r"[a-z]", value), re.search(r"[A-Z]", value))
    return kinds[0] is not None and (all(kinds) or re.fullmatch(r"[0-9a-f]{32,}", value) is not None)


def is_to_fill_in(value: str) -> bool:
    """Return whether a text stands for one that somebody has to write: `<token>`, `YOUR_API_KEY`, `/path/to/folder`."""
    return _TO_FILL_IN.match(value) is not None or _EXAMPLE_PATH.search(value) is not None


def scheme_of(value: str) -> str:
    """Return the prefix of the credential itself, such as `Bearer ` in a header; empty without one."""
    found = _SCHEMES.match(value)
    return found[0] if found else ""
