"""Full-text search over tools: an index made once, ranked by BM25F. Pure.

Each field of a tool has its weight and the mean of its lengths. A word of the query also finds, for less, words that
mean the same and words that begin with it. A tool whose deed is the one that is asked for goes before one that does
something else. Names and titles that are the query, or begin with it, go before everything.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sessions_app.protocol.json import Json
from tools_catalog.catalog.words import (
    ASKING,
    MAKE,
    READ,
    concepts,
    deeds,
    is_small,
    plain,
    split,
    stem,
    without_stop_words,
    words,
)

_K1 = 1.2


@dataclass(frozen=True, slots=True)
class _Field:
    """How much a field counts, and how far its length does."""

    weight: float
    b: float


_FIELDS = {
    "name": _Field(3.0, 0.4),
    "title": _Field(3.0, 0.4),
    "description": _Field(1.5, 0.6),
    "arguments": _Field(0.3, 0.8),
    "forms": _Field(3.0, 0.4),
}
"""BM25F (Zaragoza et al. 2004)."""
_LONGEST_QUERY = 2000
_SYNONYM_SHARE = 0.55
_FOREIGN_SHARE = 0.9
"""Of a word that no tool has, as one of another language."""
_FEW, _COMMON = 200, 0.3
"""What more tools share, and so large a part of them, tells nothing and takes its time: of a verb the deed tells it."""
_FIRST_VERB, _LATER_VERB = 0.8, 0.6
_FORM = "'"
_FORM_SHARE = 0.08
"""What counts more where a word stands in the form of the query, as several things do for a list of them."""
_COVERAGE = 0.5
_PREFIX_SHARE = 0.4
_SHORTEST_PREFIX = 3
_MOST_PREFIXED = 50
"""Words of the vocabulary that one word of the query may begin."""
_MOST_WORDS = 32
"""Words of a query that are looked at."""
_SAME_DEED, _OTHER_DEED = 1.3, 0.65
_STEP = 0.02
"""Scores that differ by less than so much of the best are alike: usage decides."""
_MOST_CALLS = 1_000_000
_NONE: Mapping[str, int] = {}


class Index:
    """The tools that can be found. `definitions` are Tool objects of MCP, by name."""

    def __init__(self, definitions: Mapping[str, Mapping[str, Json]]) -> None:
        self._definitions = definitions
        self._names = sorted(definitions)
        texts = [_words_of(name, definitions[name]) for name in self._names]
        self._postings = _postings(texts)
        self._vocabulary = sorted(word for word in self._postings if word[0] not in "='")
        self._deeds = [_deeds_of(each["title"] or each["name"]) for each in texts]
        spelt = ((tuple(each[field]), tool) for tool, each in enumerate(texts) for field in ("name", "title"))
        self._spelt = sorted(one for one in spelt if one[0])

    def is_of(self, definitions: Mapping[str, Mapping[str, Json]]) -> bool:
        """Whether it was made of these very objects."""
        mine = self._definitions
        return mine.keys() == definitions.keys() and all(mine[name] is definitions[name] for name in mine)

    def rank(self, query: str, calls: Mapping[str, int] = _NONE) -> list[str]:
        """Give the names that the query finds, the best first; of those that score alike the most called ones.

        `calls`: how often tools are called, by name.
        """
        query = plain(query[:_LONGEST_QUERY])
        spoken = split(query)[:_MOST_WORDS]
        scores = self._scored(without_stop_words(query)[:_MOST_WORDS], _asked_deeds(spoken))
        best = max(scores, default=0.0)
        if not best:
            return []
        spelling = self._spelling(tuple(stem(word) for word in spoken))

        def order(tool: int) -> float:
            share = scores[tool] / best
            called = min(calls.get(self._names[tool], 0), _MOST_CALLS) if calls else 0
            return -(round((share + spelling.get(tool, 0)) / _STEP) * 2.0 * _MOST_CALLS + called + share)

        found = [tool for tool, score in enumerate(scores) if score]
        return [self._names[tool] for tool in sorted(found, key=order)]

    def _scored(self, said: list[str], wanted: frozenset[str]) -> list[float]:
        """Give how well each tool fits words, and what is to be done."""
        scores, matched = [0.0] * len(self._names), [0] * len(self._names)
        known: set[str] = set()
        verbs = 0
        for word in dict.fromkeys(stem(each) for each in said):
            is_verb = bool(deeds(word))
            share = 1.0 if not is_verb else _FIRST_VERB if verbs == 0 else _LATER_VERB
            verbs += is_verb
            for tool, score in self._found_by(word, known).items():
                scores[tool] += share * score
                if not is_verb:
                    matched[tool] += 1
            known.update(concepts(word))
        for form in dict.fromkeys(said):
            for tool, score in self._postings.get(_FORM + form, _NOTHING).items():
                scores[tool] += _FORM_SHARE * score
        things = max(matched, default=0)
        factors = [1 - _COVERAGE + _COVERAGE * count / things for count in range(things + 1)] if things else [1.0]
        for tool, score in enumerate(scores):
            if score:
                deed = self._deeds[tool]
                fit = 1.0 if not (wanted and deed) else _OTHER_DEED if wanted.isdisjoint(deed) else _SAME_DEED
                scores[tool] = score * fit * factors[matched[tool]]
        return scores

    def _found_by(self, word: str, known: set[str]) -> Mapping[int, float]:
        """Give the tools that one word finds, each with the most that it counts there.

        `known`: concepts of words before it, which count once.
        """
        found = dict(self._postings.get(word, _NOTHING))
        share = _SYNONYM_SHARE if found else _FOREIGN_SHARE
        for concept in concepts(word):
            holders = self._postings.get(concept, _NOTHING)
            if concept not in known and len(holders) <= max(_FEW, len(self._names) * _COMMON):
                _raise(found, holders, share)
        if len(word) >= _SHORTEST_PREFIX:
            begin = bisect_left(self._vocabulary, word)
            for longer in self._vocabulary[begin : begin + _MOST_PREFIXED]:
                if not longer.startswith(word):
                    break
                if longer != word:
                    _raise(found, self._postings[longer], _PREFIX_SHARE)
        return found

    def _spelling(self, whole: tuple[str, ...]) -> dict[int, int]:
        """Give the tools whose name or title is the query (2), or begins with its words (1)."""
        found: dict[int, int] = {}
        if not whole:
            return found
        for spelt, tool in self._spelt[bisect_left(self._spelt, (whole, -1)) :]:
            if spelt[: len(whole)] != whole:
                break
            if spelt == whole:
                found[tool] = 2
            elif len(whole) > 1:
                found.setdefault(tool, 1)
        return found


_NOTHING: Mapping[int, float] = {}


def _raise(found: dict[int, float], more: Mapping[int, float], share: float) -> None:
    for tool, score in more.items():
        if share * score > found.get(tool, 0.0):
            found[tool] = share * score


def _postings(texts: list[dict[str, list[str]]]) -> dict[str, dict[int, float]]:
    """Give what each word and concept counts at each tool that has it."""
    means = {field: sum(len(each[field]) for each in texts) / max(1, len(texts)) or 1.0 for field in _FIELDS}
    weights: dict[str, dict[int, float]] = defaultdict(dict)
    for tool, fields in enumerate(texts):
        for name, how in _FIELDS.items():
            norm = 1 - how.b + how.b * len(fields[name]) / means[name]
            for word, count in Counter(fields[name]).items():
                weight = how.weight * count / norm
                for term in (word, *concepts(word)):
                    holders = weights[term]
                    holders[tool] = holders.get(tool, 0.0) + weight
    for holders in weights.values():
        rarity = math.log(1 + (len(texts) - len(holders) + 0.5) / (len(holders) + 0.5))
        for tool, weight in holders.items():
            holders[tool] = rarity * weight * (_K1 + 1) / (weight + _K1)
    return dict(weights)


def _deeds_of(title: Iterable[str]) -> frozenset[str]:
    """Give what a tool does: the first of its title's words that is a verb."""
    return frozenset(next((found for word in title if (found := deeds(word))), ()))


def _asked_deeds(spoken: list[str]) -> frozenset[str]:
    """Give what is to be done: the first verb of the question, or to read where it asks."""
    if spoken and spoken[0] in ASKING:
        return frozenset({READ})
    if len(spoken) > 1 and not deeds(stem(spoken[0])) and concepts(stem(spoken[0])) and is_small(spoken[1]):
        return frozenset({MAKE})  # "comment on a line": a thing in the place of a verb
    return frozenset(next((found for word in spoken if (found := deeds(stem(word)))), ()))


def _words_of(name: str, definition: Mapping[str, Json]) -> dict[str, list[str]]:
    arguments: list[str] = []
    schema = definition.get("inputSchema")
    properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
    for argument, described in properties.items() if isinstance(properties, dict) else ():
        arguments += words(argument)
        if isinstance(described, dict) and isinstance(described.get("description"), str):
            arguments += words(described["description"])
    return {
        "name": words(name),
        "title": words(str(definition.get("title", ""))),
        "description": words(str(definition.get("description", ""))),
        "arguments": arguments,
        "forms": [_FORM + word for word in split(f"{name} {definition.get('title', '')}")],
    }
