"""Full-text search over tools: an index made once, ranked by BM25. Pure.

Names weigh most, then titles, then descriptions, then the arguments. A word of the query also finds words that
begin with it, for less.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping

from sessions_app.protocol.json import Json

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_K1, _B = 1.2, 0.75
"""The usual constants of BM25 (Robertson and Zaragoza 2009)."""
_WEIGHTS = {"name": 6.0, "title": 3.0, "description": 1.0, "arguments": 0.5}
_PREFIX_SHARE = 0.4
_SHORTEST_PREFIX = 3
_MOST_WORDS = 32
"""Words of a query that are looked at."""
_MOST_TEXT = 20_000
"""Characters of one tool's texts that are indexed."""


def words(text: str) -> list[str]:
    """Give the words of a text, folded: `listPullRequests` and `list_pull_requests` are the same three."""
    folded = unicodedata.normalize("NFKC", _CAMEL.sub(" ", text[:_MOST_TEXT])).casefold()
    return [_stem(word) for word in _WORD.findall(folded)]


def _stem(word: str) -> str:
    """Take an English plural off; models write either."""
    if len(word) > 3 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


class Index:
    """The tools that can be found. `definitions` are Tool objects of MCP, by name."""

    def __init__(self, definitions: Mapping[str, Mapping[str, Json]]) -> None:
        self._postings: dict[str, dict[str, float]] = defaultdict(dict)
        lengths: dict[str, float] = {}
        for name, definition in definitions.items():
            weights: dict[str, float] = defaultdict(float)
            for part, text in _texts(name, definition):
                for word in words(text):
                    weights[word] += _WEIGHTS[part]
            lengths[name] = sum(weights.values())
            for word, weight in weights.items():
                self._postings[word][name] = weight
        self._count = len(lengths)
        mean = sum(lengths.values()) / max(1, self._count) or 1.0
        self._norm = {name: _K1 * (1 - _B + _B * length / mean) for name, length in lengths.items()}
        self._vocabulary = sorted(self._postings)

    def rank(self, query: str) -> list[str]:
        """Give the names that the query finds, the best first; names that score alike in their order."""
        scores: dict[str, float] = defaultdict(float)
        for word in dict.fromkeys(words(query)[:_MOST_WORDS]):
            for found, share in self._like(word):
                holders = self._postings[found]
                rarity = math.log(1 + (self._count - len(holders) + 0.5) / (len(holders) + 0.5))
                for name, weight in holders.items():
                    scores[name] += share * rarity * weight * (_K1 + 1) / (weight + self._norm[name])
        return sorted(scores, key=lambda name: (-scores[name], name))

    def _like(self, word: str) -> Iterable[tuple[str, float]]:
        if word in self._postings:
            yield word, 1.0
        if len(word) < _SHORTEST_PREFIX:
            return
        for found in self._vocabulary[bisect_left(self._vocabulary, word) :]:
            if not found.startswith(word):
                return
            if found != word:
                yield found, _PREFIX_SHARE


def _texts(name: str, definition: Mapping[str, Json]) -> Iterable[tuple[str, str]]:
    yield "name", name
    yield "title", str(definition.get("title", ""))
    yield "description", str(definition.get("description", ""))
    properties = definition.get("inputSchema", {}).get("properties", {})
    for argument, schema in properties.items() if isinstance(properties, dict) else ():
        yield "arguments", argument
        if isinstance(schema, dict) and isinstance(schema.get("description"), str):
            yield "arguments", schema["description"]
