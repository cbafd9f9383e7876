"""The known servers, as shipped data: their purpose, address or command, and requirements.

`known_servers.json` lists the `needs` of each; `{NAME}` in an address, a header or a word of the command stands for
one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from mcphub.features.importers.configured.drafts import Blank, Draft, Ref, Text
from sessions_app.advice import Advice
from sessions_app.protocol import json
from tools_catalog.upstream import spec

_NEED: Final = re.compile(r"\{([A-Za-z][\w -]*)\}")
_LIST: Final = Advice(
    page="The page *Known servers* lists all.",
    command="`mcphub connection known` lists all.",
    neutral="The name must be one of the known servers.",
)
_FETCHING: Final = frozenset({"npx", "uvx", "docker"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One required value: its place is the address, header, command or variable that names it."""

    name: str
    words: str
    is_secret: bool
    is_required: bool
    usual: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownServer:
    """One server of the list that ships."""

    name: str
    title: str
    does: str
    documentation: str
    licence: str
    url: str
    transport: str
    headers: tuple[tuple[str, str], ...]
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    needs: tuple[Need, ...]
    is_offline: bool
    """Its program needs no network once it is installed."""
    note: str
    tried: str
    """When it was last tried with the hub; empty: never, it stands here by its documentation."""


@cache
def servers() -> tuple[KnownServer, ...]:
    """Return them all, by name."""
    raw = (resources.files("tools_catalog") / "known_servers.json").read_bytes()
    return tuple(sorted((_read(entry) for entry in json.loads(raw)["servers"]), key=lambda each: each.name))


def search(word: str) -> list[KnownServer]:
    """Return those with all words in name, title or description."""
    wanted = word.lower().split()
    return [
        each for each in servers() if all(part in f"{each.name} {each.title} {each.does}".lower() for part in wanted)
    ]


def find(name: str) -> KnownServer:
    """Return one; raises LookupError with similar names."""
    for each in servers():
        if each.name == name:
            return each
    near = [each.name for each in search(name)][:10]
    hint = f" There are: {', '.join(near)}." if near else f" {_LIST.words()}"
    raise LookupError(f"No known server is named {name[:60]!r}.{hint}")


def draft_of(server: KnownServer, *, by_program: bool = False) -> Draft:
    """Return the draft of a server: of its address where it has one, unless its program is wanted."""
    is_program = bool(server.command) and (by_program or not server.url)
    if by_program and not server.command:
        raise LookupError(f"{server.name} has an address only. Leave --program out.")
    used: list[str] = []

    def text(raw: str) -> Text:
        parts: list[str | Ref] = []
        end = 0
        for match in _NEED.finditer(raw):
            parts += [raw[end : match.start()], Ref(match[1])]
            used.append(match[1])
            end = match.end()
        return tuple(part for part in (*parts, raw[end:]) if part != "") or ("",)

    url: Text = ()
    headers: tuple[tuple[str, Text], ...] = ()
    arguments: tuple[Text, ...] = ()
    environment: tuple[tuple[str, Text], ...] = ()
    if is_program:
        arguments = tuple(text(word) for word in server.command[1:])
        environment = tuple((name, text(value)) for name, value in server.environment)
    else:
        url = text(server.url)
        headers = tuple((name, text(value)) for name, value in server.headers)
    return Draft(
        name=server.name,
        title=server.title,
        transport=spec.STDIO if is_program else server.transport,
        url=url,
        headers=headers,
        command=(server.command[0],) if is_program else (),
        arguments=arguments,
        environment=environment,
        readable=tuple(text(path) for path in server.readable) if is_program else (),
        writable=tuple(text(path) for path in server.writable) if is_program else (),
        fetches=is_program and (server.command[0] in _FETCHING or not server.is_offline),
        blanks=tuple(_blank(need) for need in server.needs if need.name in used),
        notes=(server.note,) if server.note else (),
    )


def _blank(need: Need) -> Blank:
    return Blank(
        name=need.name,
        words=need.words,
        is_secret=need.is_secret,
        is_required=need.is_required,
        value=need.usual,
        choices=need.choices,
    )


def _read(entry: dict[str, Any]) -> KnownServer:
    needs = tuple(
        Need(
            name=each["name"],
            words=each["words"],
            is_secret=each.get("secret", False),
            is_required=each.get("required", True),
            usual=each.get("usual", ""),
            choices=tuple(each.get("choices", ())),
        )
        for each in entry.get("needs", ())
    )
    return KnownServer(
        name=entry["name"],
        title=entry["title"],
        does=entry["does"],
        documentation=entry["documentation"],
        licence=entry["licence"],
        url=entry.get("url", ""),
        transport=entry.get("transport", spec.STREAMABLE_HTTP),
        headers=tuple(entry.get("headers", {}).items()),
        command=tuple(entry.get("command", ())),
        environment=tuple(entry.get("environment", {}).items()),
        readable=tuple(entry.get("readable", ())),
        writable=tuple(entry.get("writable", ())),
        needs=needs,
        is_offline=entry.get("offline", False),
        note=entry.get("note", ""),
        tried=entry.get("tried", ""),
    )
