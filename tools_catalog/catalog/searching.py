"""Full-text search over tools: an index made once, ranked by BM25F. Pure.

Each field of a tool has its weight and the mean of its lengths. A word of the query also finds, for less, words that
mean the same, words of the same subject and words that begin with it. A tool with the requested action precedes one
with another action. Names and titles that are the query, or begin with it, go before everything.

A query of several sentences is scored whole and by sentence, and a tool keeps its best sentence: a request for three
things finds three tools.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sessions_app.protocol.json import Json
from tools_catalog.catalog.words import (
    ASKING,
    MAKE,
    READ,
    SUBJECT,
    concepts,
    deeds,
    is_filler,
    is_small,
    is_thing,
    plain,
    sentences,
    split,
    stem,
    without_stop_words,
    words,
)

_K1 = 1.6


@dataclass(frozen=True, slots=True)
class _Field:
    """How much a field counts, and how far its length does."""

    weight: float
    b: float


_FIELDS = {
    "name": _Field(3.0, 0.4),
    "title": _Field(3.0, 0.4),
    "description": _Field(1.5, 0.3),
    "arguments": _Field(0.3, 0.8),
    "examples": _Field(1.5, 0.3),
    "forms": _Field(3.0, 0.4),
}
"""BM25F (Zaragoza et al. 2004)."""
EXAMPLES = "mcphub/examples"
"""Member of a tool's `_meta`: questions that it answers, in the words of people. They count as its description does."""
_LONGEST_QUERY = 2000
_SYNONYM_SHARE = 0.55
_FOREIGN_SHARE = 0.9
"""Of a word that no tool has, as one of another language."""
_SUBJECT_SHARE = 0.4
"""Of a word that has only its subject in common with a tool's."""
_FEW, _COMMON = 200, 0.3
"""A word shared by more tools, and by such a large part of them, is ignored to save time: a verb counts through the
action.
"""
_FIRST_VERB, _LATER_VERB = 0.8, 0.6
_FILLER_SHARE = 0.4
_FORM = "'"
_FORM_SHARE = 0.08
"""Words in the form of the query count more, as plurals do for a list."""
_COVERAGE = 0.5
_PREFIX_SHARE = 0.4
_SHORTEST_PREFIX = 3
_MOST_PREFIXED = 50
"""Words of the vocabulary that one word of the query may begin."""
_MOST_WORDS = 96
"""Words of a query that are looked at."""
_MOST_SENTENCES = 8
_SAME_DEED, _OTHER_DEED = 1.15, 0.8
"""Nearer to one than what suits short questions best: a verb that no tool has must not cost the tool that is meant."""
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
        self._vocabulary = sorted(word for word in self._postings if word[0] not in "='~")
        self._deeds = [_deeds_of(each["title"] or each["name"]) for each in texts]
        spelt = ((tuple(each[field]), tool) for tool, each in enumerate(texts) for field in ("name", "title"))
        self._spelt = sorted(one for one in spelt if one[0])

    def is_of(self, definitions: Mapping[str, Mapping[str, Json]]) -> bool:
        """Return whether it was made of these definitions, most of which are the very objects."""
        mine = self._definitions
        return mine.keys() == definitions.keys() and all(
            mine[name] is definitions[name] or mine[name] == definitions[name] for name in mine
        )

    def rank(self, query: str, calls: Mapping[str, int] = _NONE) -> list[str]:
        """Return the names that the query finds, the best first; of those that score alike the most called ones.

        `calls`: how often tools are called, by name.
        """
        query = plain(query[:_LONGEST_QUERY])
        scores = self._scores(query)
        if not scores:
            return []
        best = max(scores.values())
        spelling = self._spelling(tuple(stem(word) for word in split(query)[:_MOST_WORDS]))

        def order(tool: int) -> float:
            share = scores[tool] / best
            called = min(calls.get(self._names[tool], 0), _MOST_CALLS) if calls else 0
            return -(round((share + spelling.get(tool, 0)) / _STEP) * 2.0 * _MOST_CALLS + called + share)

        return [self._names[tool] for tool in sorted(sorted(scores), key=order)]

    def unmatched(self, query: str, among: Container[str]) -> list[str]:
        """Return the words of a query that find none of some tools, each once, as they were written."""
        asked = dict.fromkeys(without_stop_words(plain(query[:_LONGEST_QUERY]))[:_MOST_WORDS])
        return [word for word in asked if not self._finds(word, among)]

    def _finds(self, word: str, among: Container[str]) -> bool:
        """Return whether a word finds one of some tools, be it so common a word that it is ignored."""
        root = stem(word)
        holders = (self._found_by(root, frozenset()), *(self._postings.get(each, _NOTHING) for each in concepts(root)))
        return any(self._names[tool] in among for found in holders for tool in found)

    def _scores(self, query: str) -> dict[int, float]:
        """Return how well each tool fits the whole query and, where there are several, its best sentence."""
        found: dict[tuple[str, frozenset[str]], Mapping[int, float]] = {}
        scores = self._scored(without_stop_words(query)[:_MOST_WORDS], query, found)
        parts = [part for part in sentences(query) if _meant(part)][:_MOST_SENTENCES]
        if len(parts) > 1:
            best: dict[int, float] = {}
            for part in parts:
                _raise(best, self._scored(_meant(part)[:_MOST_WORDS], part, found), 1.0)
            for tool, score in best.items():
                scores[tool] = scores.get(tool, 0.0) + score
        return scores

    def _scored(
        self, said: Sequence[str], text: str, known_words: dict[tuple[str, frozenset[str]], Mapping[int, float]]
    ) -> dict[int, float]:
        """Return how well each tool fits words and action. `known_words` keeps what each word finds."""
        scores: dict[int, float] = {}
        matched: dict[int, int] = {}
        wanted = _asked_deeds(split(text)[:_MOST_WORDS])
        known: set[str] = set()
        verbs = 0
        for word in dict.fromkeys(stem(each) for each in said):
            is_verb = bool(deeds(word))
            share = 1.0 if not is_verb else _FIRST_VERB if verbs == 0 else _LATER_VERB
            share *= _FILLER_SHARE if is_filler(word) else 1.0
            verbs += is_verb
            of_word = concepts(word)
            key = word, frozenset(known.intersection(of_word))
            if (found := known_words.get(key)) is None:
                found = known_words[key] = self._found_by(*key)
            for tool, score in found.items():
                scores[tool] = scores.get(tool, 0.0) + share * score
            if not is_verb:
                for tool in found:
                    matched[tool] = matched.get(tool, 0) + 1
            known.update(of_word)
        for form in dict.fromkeys(said):
            for tool, score in self._postings.get(_FORM + form, _NOTHING).items():
                scores[tool] = scores.get(tool, 0.0) + _FORM_SHARE * score
        things = max(matched.values(), default=0)
        factors = [1 - _COVERAGE + _COVERAGE * count / things for count in range(things + 1)] if things else [1.0]
        for tool, score in scores.items():
            deed = self._deeds[tool]
            fit = 1.0 if not (wanted and deed) else _OTHER_DEED if wanted.isdisjoint(deed) else _SAME_DEED
            scores[tool] = score * fit * factors[matched.get(tool, 0)]
        return scores

    def _found_by(self, word: str, known: frozenset[str]) -> Mapping[int, float]:
        """Return the tools that one word finds, each with the most that it counts there.

        `known`: its concepts that words before it have, which count once.
        """
        found = dict(self._postings.get(word, _NOTHING))
        share = _SYNONYM_SHARE if found else _FOREIGN_SHARE
        for concept in concepts(word):
            holders = self._postings.get(concept, _NOTHING)
            if len(holders) > max(_FEW, len(self._names) * _COMMON):
                continue
            if concept[0] == SUBJECT:
                _raise(found, holders, _SUBJECT_SHARE)
            elif concept not in known:
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
        """Return the tools whose name or title is the query (2), or begins with its words (1)."""
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
    """Return the weight of each word and concept at each tool that has it."""
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


def _meant(text: str) -> list[str]:
    """Return the meaningful words of a part; none where all are small."""
    found = without_stop_words(text)
    return [word for word in found if not is_small(word)]


def _deeds_of(title: Iterable[str]) -> frozenset[str]:
    """Return a tool's action: the first verb in its title."""
    return frozenset(next((found for word in title if (found := deeds(word))), ()))


def _asked_deeds(spoken: list[str]) -> frozenset[str]:
    """Return the requested action: the first verb of the query, or reading for a question."""
    if spoken and spoken[0] in ASKING:
        return frozenset({READ})
    if len(spoken) > 1 and not deeds(stem(spoken[0])) and is_thing(stem(spoken[0])) and is_small(spoken[1]):
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
    meta = definition.get("_meta")
    examples = meta.get(EXAMPLES) if isinstance(meta, dict) else None
    said = " ".join(each for each in examples if isinstance(each, str)) if isinstance(examples, list) else ""
    return {
        "examples": [stem(word) for word in _meant(said)],
        "name": words(name),
        "title": words(str(definition.get("title", ""))),
        "description": words(str(definition.get("description", ""))),
        "arguments": arguments,
        "forms": [_FORM + word for word in split(f"{name} {definition.get('title', '')}")],
    }
