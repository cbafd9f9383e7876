"""Plain BM25 over the words of tools, without anything that the hub adds: the measure that its search is held to."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from tools_catalog.catalog.words import stem, without_stop_words, words

_K1, _B = 1.2, 0.75


class PlainIndex:
    """Okapi BM25 over name, title, description and arguments as one text."""

    def __init__(self, definitions: Mapping[str, Mapping[str, Any]]) -> None:
        self._names = list(definitions)
        texts = [Counter(words(_text(name, definitions[name]))) for name in self._names]
        lengths = [text.total() for text in texts]
        mean = sum(lengths) / max(1, len(lengths)) or 1.0
        holders = Counter(word for text in texts for word in text)
        self._postings: dict[str, dict[int, float]] = defaultdict(dict)
        for tool, text in enumerate(texts):
            norm = _K1 * (1 - _B + _B * lengths[tool] / mean)
            for word, count in text.items():
                rarity = math.log(1 + (len(texts) - holders[word] + 0.5) / (holders[word] + 0.5))
                self._postings[word][tool] = rarity * count * (_K1 + 1) / (count + norm)

    def rank(self, query: str) -> list[str]:
        scores: Counter[int] = Counter()
        for word in {stem(word) for word in without_stop_words(query)}:
            scores.update(self._postings.get(word, {}))  # type: ignore[arg-type]
        return [self._names[tool] for tool, _ in sorted(scores.items(), key=lambda each: (-each[1], each[0]))]


def _text(name: str, definition: Mapping[str, Any]) -> str:
    parts = [name, str(definition.get("title", "")), str(definition.get("description", ""))]
    for argument, described in definition.get("inputSchema", {}).get("properties", {}).items():
        parts += [argument, str(described.get("description", ""))]
    return "\n".join(parts)
