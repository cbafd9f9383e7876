"""A future connection: its address or command, and the values to fill in. Pure.

Each text is a tuple of literal parts and of `Ref`s to blanks. A blank that is a secret never becomes part of a row: the
row names the secret that is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tools_catalog.upstream import spec

LONGEST_TEXT: Final = 8192
"""Characters of one word, variable or header, and of a value that somebody fills in."""
EXISTING: Final = re.compile(r"\{secret:[A-Za-z0-9_.-]{1,64}\}")
"""A value that names an existing secret instead of containing one."""
_NOT_IN_SLUGS: Final = re.compile(r"[^a-z0-9_-]+")
_NOT_IN_SECRETS: Final = re.compile(r"[^A-Za-z0-9_.-]+")


class DraftRefused(ValueError):
    """The draft cannot become a connection; the sentence has the reason and the next step."""


@dataclass(frozen=True, slots=True)
class Ref:
    """Stands for the value of a blank."""

    blank: str


Text = tuple[str | Ref, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank:
    """One value: found in the file, or to be filled in."""

    name: str
    words: str = ""
    is_secret: bool = False
    is_required: bool = True
    value: str = ""
    """The file's value, or the default."""
    choices: tuple[str, ...] = ()

    @property
    def is_missing(self) -> bool:
        return self.is_required and not self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One server as it was found. With a `problem` it cannot be saved as it is."""

    name: str
    title: str = ""
    transport: str = spec.STDIO
    url: Text = ()
    headers: tuple[tuple[str, Text], ...] = ()
    command: Text = ()
    arguments: tuple[Text, ...] = ()
    environment: tuple[tuple[str, Text], ...] = ()
    directory: Text = ()
    readable: tuple[Text, ...] = ()
    """Paths that its program needs beside itself and the files that its words name."""
    writable: tuple[Text, ...] = ()
    fetches: bool = False
    """The program loads itself, as npx and uvx do, so it needs a network at its first start."""
    enabled: bool = True
    blanks: tuple[Blank, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def slug(self) -> str:
        return slug_of(self.name)

    @property
    def runs_program(self) -> bool:
        return self.transport == spec.STDIO

    @property
    def missing(self) -> list[Blank]:
        return [blank for blank in self.blanks if blank.is_missing]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """A secret that a filled draft sends: its name by the draft's slug, its value, and the places where it stands."""

    name: str
    value: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A complete draft: the columns of rows, with secrets by name."""

    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    secrets: tuple[Needed, ...] = ()


def slug_of(name: str) -> str:
    """Return a short name for a server: `io.github.owner/Weather` is `weather`."""
    last = name.rstrip("/").rpartition("/")[2] or name
    return _NOT_IN_SLUGS.sub("-", last.lower()).strip("-_")[:32].strip("-_") or "server"


def words_shown(draft: Draft, text: Text, mask: str = "••••") -> str:
    """Return a text for display: secrets masked, missing values named."""
    blanks = {blank.name: blank for blank in draft.blanks}
    return "".join(part if isinstance(part, str) else _shown(blanks[part.blank], mask) for part in text)


def filled(draft: Draft, values: Mapping[str, str], slug: str = "") -> Filled:
    """Fill a draft in; absent values stay as in the file. Raises DraftRefused.

    `slug` is the name that the connection will have: its secrets are called by it.
    """
    if draft.problem:
        raise DraftRefused(draft.problem)
    known = {blank.name: values.get(blank.name) or blank.value for blank in draft.blanks}
    if missing := [blank.name for blank in draft.blanks if blank.is_required and not known[blank.name]]:
        raise DraftRefused(f"{', '.join(missing)}: fill this in.")
    for blank in draft.blanks:
        if len(known[blank.name]) > LONGEST_TEXT:
            raise DraftRefused(f"{blank.name}: a value has at most {LONGEST_TEXT} characters.")
        if blank.choices and known[blank.name] and known[blank.name] not in blank.choices:
            raise DraftRefused(f"{blank.name}: choose one of {', '.join(blank.choices)}.")
    filler = _Filler(draft, known, slug or draft.slug)
    return Filled(
        url=filler.plain(draft.url, "the address"),
        headers=filler.templates(draft.headers, "headers"),
        command=filler.plain(draft.command, "a command line"),
        arguments=tuple(filler.words(draft.arguments, "a command line")),
        environment=filler.templates(draft.environment, "environment"),
        directory=filler.plain(draft.directory, "the folder"),
        readable=tuple(filler.words(draft.readable, "a path")),
        writable=tuple(filler.words(draft.writable, "a path")),
        secrets=tuple(filler.secrets()),
    )


class _Filler:
    def __init__(self, draft: Draft, known: Mapping[str, str], slug: str) -> None:
        self._known = known
        self._slug = slug
        self._hidden = {blank.name for blank in draft.blanks if blank.is_secret}
        self._places: dict[str, list[str]] = {}

    def plain(self, text: Text, where: str) -> str:
        for part in text:
            if isinstance(part, Ref) and part.blank in self._hidden:
                raise DraftRefused(
                    f"{part.blank} is a secret, and {where} is read by many. The hub keeps no secret there."
                )
        return "".join(part if isinstance(part, str) else self._known[part.blank] for part in text)

    def words(self, texts: tuple[Text, ...], where: str) -> Iterator[str]:
        for text in texts:
            word = self.plain(text, where)
            if word or not any(isinstance(part, Ref) for part in text):  # an option that nobody filled in goes
                yield word

    def templates(self, texts: tuple[tuple[str, Text], ...], where: str) -> dict[str, str]:
        found = {}
        for name, text in texts:
            refs = [part.blank for part in text if isinstance(part, Ref)]
            if refs and not any(self._known[blank] for blank in refs):
                continue  # nobody filled it in, and it need not be
            found[name] = "".join(self._written(part, f"{where}.{name}") for part in text)
        return found

    def secrets(self) -> Iterator[Needed]:
        for blank, places in self._places.items():
            yield Needed(name=self._secret(blank), value=self._known[blank], places=tuple(dict.fromkeys(places)))

    def _written(self, part: str | Ref, place: str) -> str:
        if isinstance(part, str):
            return _escaped(part)
        if part.blank not in self._hidden:
            return _escaped(self._known[part.blank])
        if not self._known[part.blank]:
            return ""
        if EXISTING.fullmatch(self._known[part.blank]):
            return self._known[part.blank]
        self._places.setdefault(part.blank, []).append(place)
        return f"{{secret:{self._secret(part.blank)}}}"

    def _secret(self, blank: str) -> str:
        return f"{self._slug}.{_NOT_IN_SECRETS.sub('_', blank)}"[:64]


def _escaped(text: str) -> str:
    """Write literal text as a template reads it."""
    return text.replace("{", "{{").replace("}", "}}")


def _shown(blank: Blank, mask: str) -> str:
    if not blank.value:
        return f"⟨{blank.name}⟩"
    return mask if blank.is_secret else blank.value
