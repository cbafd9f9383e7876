"""Names that agents take: 1 to 64 of A-Z a-z 0-9 _ -, and how one is made of an upstream's own name. Pure."""

from __future__ import annotations

import hashlib
import re

LONGEST_NAME = 64
"""Of a function at the doors of OpenAI, Anthropic and Google alike."""
_DIGEST = 8
_NOT_TAKEN = re.compile(r"[^A-Za-z0-9_-]")
_NOT_TAKEN_WITH_DOTS = re.compile(r"[^A-Za-z0-9_.-]")


def prefixed(prefix: str, name: str) -> str:
    """Give the name that an upstream's tool or prompt has here. The same two give the same name always.

    A full stop is replaced as other characters are, unless the operator wrote one into the prefix, or wants none. Where
    the whole is too long, a digest of it stands at its end.
    """
    whole = f"{prefix}{name}"
    plain = (_NOT_TAKEN if prefix and "." not in prefix else _NOT_TAKEN_WITH_DOTS).sub("_", whole)
    if len(plain) <= LONGEST_NAME:
        return plain
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{plain[: LONGEST_NAME - _DIGEST - 1]}_{digest}"
