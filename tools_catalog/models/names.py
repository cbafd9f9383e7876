"""Names that agents take: 1 to 64 of A-Z a-z 0-9 _ -, and how one is made of an upstream's own name. Pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata

LONGEST_NAME = 64
"""Of a function at the doors of OpenAI, Anthropic and Google alike."""
_DIGEST = 8
_NOT_TAKEN = re.compile(r"[^A-Za-z0-9_-]")
_NOT_TAKEN_WITH_DOTS = re.compile(r"[^A-Za-z0-9_.-]")


def prefixed(prefix: str, name: str) -> str:
    """Return the name that an upstream's tool or prompt has here. The same two give the same name always.

    A full stop is replaced as other characters are, unless the operator wrote one into the prefix, or wants none.
    Accents are left out. Where the whole is too long, or letters of another script are replaced, a digest of it stands
    at its end, so that two names stay two.
    """
    taken_out = _NOT_TAKEN if prefix and "." not in prefix else _NOT_TAKEN_WITH_DOTS
    latin = "".join(each for each in unicodedata.normalize("NFKD", name) if not unicodedata.combining(each))
    is_foreign = any(each.isalnum() and not each.isascii() for each in latin)
    whole = f"{prefix}{name}"
    plain = taken_out.sub("_", f"{prefix}{latin}")
    if is_foreign:  # names of other scripts differ in letters that all become the same
        plain = f"{prefix}{re.sub('_+', '_', taken_out.sub('_', latin)).strip('_') or 'tool'}"
        plain = taken_out.sub("_", plain)
    if len(plain) <= LONGEST_NAME and not is_foreign:
        return plain
    return _digested(plain, whole)


def told_apart(prefix: str, name: str) -> str:
    """Return `prefixed` with a digest of the upstream's name, where another tool of the upstream has the plain name:
    `a b` and `a/b` are both `a_b`.
    """
    return _digested(prefixed(prefix, name), f"{prefix}{name}")


def _digested(plain: str, whole: str) -> str:
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{plain[: LONGEST_NAME - _DIGEST - 1]}_{digest}"
