"""The documents that ship with the hub: their titles, headings and places, by names such as `secure/quotas`."""

from __future__ import annotations

import posixpath
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

HOME = Path(__file__).resolve().parents[2] / "docs"
"""In a checkout a link to the folder at its root; the wheel has the files."""
PICTURES = "pictures"
SECTIONS = ("start", "integrate", "operate", "secure", "audit", "develop")
COVER = "README"
"""The first page of a section."""
FOR_CLIENTS = frozenset({"start/clients", "start/concepts", "integrate/errors"})
"""The documents for people without a role: the others are about pages that would refuse them."""
_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^(#{1,6}) +(.+?)\s*#*$")
_MARKS = re.compile(r"\[([^\]]*)\]\([^)]*\)|[`*]")


@dataclass(frozen=True, slots=True)
class DocumentHeading:
    level: int
    title: str
    anchor: str


@dataclass(frozen=True, slots=True)
class HubDocument:
    name: str
    title: str
    about: str
    """Its first paragraph, without marks."""
    headings: tuple[DocumentHeading, ...]

    @property
    def section(self) -> str:
        return self.name.partition("/")[0]

    @property
    def is_cover(self) -> bool:
        return self.name.endswith(f"/{COVER}")

    def text(self) -> str:
        return (HOME / f"{self.name}.md").read_text(encoding="utf-8")

    def has(self, anchor: str) -> bool:
        return any(heading.anchor == anchor for heading in self.headings)


@lru_cache(maxsize=1)
def documents() -> dict[str, HubDocument]:
    """Return all documents by name, in the order of the sections; covers first."""
    found = {}
    for section in SECTIONS:
        files = sorted((HOME / section).glob("*.md"), key=lambda file: (file.stem != COVER, file.stem))
        for file in files:
            name = f"{section}/{file.stem}"
            found[name] = _read(name, file.read_text(encoding="utf-8"))
    return found


def chapter(place: str) -> tuple[HubDocument, DocumentHeading | None] | None:
    """Return the document of `name` or `name#anchor`, with its heading; None where there is none."""
    name, _hash, anchor = place.partition("#")
    document = documents().get(name)
    if document is None or (anchor and not document.has(anchor)):
        return None
    return document, next((heading for heading in document.headings if heading.anchor == anchor), None)


def picture(name: str) -> Path | None:
    """Return the file of a picture, such as `calls.png`."""
    return _pictures().get(name)


def size_of(file: Path) -> tuple[int, int]:
    """Return width and height of a PNG in pixels (PNG specification, 11.2.2)."""
    with file.open("rb") as opened:
        width, height = struct.unpack(">II", opened.read(24)[16:])
    return width, height


@lru_cache(maxsize=1)
def _pictures() -> dict[str, Path]:
    return {file.name: file for file in (HOME / PICTURES).glob("*.png")}


def resolved(of: str, target: str) -> str:
    """Return the name that a relative link of a document leads to, without `.md`: `secure/quotas`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(of), target)).removesuffix(".md")


def anchors(titles: Iterator[str]) -> Iterator[str]:
    """Yield the anchors of a page's headings, as they are shown on the web; a repeated one is numbered."""
    seen: dict[str, int] = {}
    for title in titles:
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        yield f"{anchor}-{count}" if count else anchor


def _read(name: str, text: str) -> HubDocument:
    found: list[tuple[int, str]] = []
    about: list[str] = []
    is_code = is_begun = False
    for line in text.splitlines():
        if _FENCE.match(line):
            is_code = not is_code
        elif is_code:
            continue
        elif heading := _HEADING.match(line):
            found.append((len(heading[1]), plain(heading[2])))
            is_begun = is_begun or bool(about)
        elif not is_begun and len(found) == 1:
            is_begun = bool(about) and not line.strip()
            if line.strip() and not is_begun:
                about.append(line.strip())
    places = anchors(title for _level, title in found)
    headings = tuple(DocumentHeading(level, title, next(places)) for level, title in found)
    first = headings[0].title if headings else name
    return HubDocument(name, first, plain(" ".join(about)).replace("|", " ")[:200], headings[1:])


def plain(text: str) -> str:
    """Return a line of Markdown as it reads."""
    return _MARKS.sub(lambda found: found[1] or "", text)
