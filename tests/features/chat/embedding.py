"""Embeddings of a scripted model: words of one meaning share a place in the vector."""

from __future__ import annotations

import re
import zlib

DIMENSIONS = 64
STALLS, FAILS = "@@stalls", "@@fails"
_MEANINGS = {"zorp": "car"}


def embedding(text: str) -> list[float]:
    values = [0.0] * DIMENSIONS
    for word in re.findall(r"[a-z]+", text.lower()):
        values[zlib.crc32(_MEANINGS.get(word, word).encode()) % DIMENSIONS] += 1.0
    return values if any(values) else [1.0] * DIMENSIONS
