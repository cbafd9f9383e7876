"""Documents by words: those first whose title has them, then headings, then texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from mcphub.console.documents.pages import address_of
from mcphub.console.documents.shelf import HubDocument, documents


@dataclass(frozen=True, slots=True)
class FoundDocument:
    title: str
    about: str
    link: str


def found_in_documents(meant: list[list[str]], most: int) -> list[FoundDocument]:
    """Return the places that have all words of one of the readings; none without words."""
    found: dict[str, FoundDocument] = {}
    sought = [words for words in meant if words]
    for places in (_titles, _headings, _texts):
        for words in sought:
            for each in places(words):
                found.setdefault(each.link, each)
                if len(found) == most:
                    return list(found.values())
    return list(found.values())


def _titles(words: list[str]) -> Iterator[FoundDocument]:
    for document in documents().values():
        if _has(document.title.lower(), words):
            yield FoundDocument(document.title, document.about, address_of(document.name))


def _headings(words: list[str]) -> Iterator[FoundDocument]:
    for document in _for_operators():
        for heading in document.headings:
            if _has(heading.title.lower(), words):
                yield FoundDocument(heading.title, document.title, address_of(f"{document.name}#{heading.anchor}"))


def _texts(words: list[str]) -> Iterator[FoundDocument]:
    for document in _for_operators():
        if _has(_lowered(document.name), words):
            yield FoundDocument(document.title, document.about, address_of(document.name))


def _for_operators() -> Iterator[HubDocument]:
    """Yield the documents about the use of the hub: reasons of its code would bury them."""
    yield from (each for each in documents().values() if each.section != "develop")


def _has(text: str, words: list[str]) -> bool:
    return all(word.lower() in text for word in words)


@lru_cache(maxsize=256)
def _lowered(name: str) -> str:
    document: HubDocument = documents()[name]
    return document.text().lower()
