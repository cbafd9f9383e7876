"""What clients write in the place of a value: `${input:token}`, `${env:TOKEN}`, `${TOKEN:-usual}`, `<your token>`.

Pure. A `Reader` reads the texts of one server and gathers its blanks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tools_catalog.importers.configured import secrecy
from tools_catalog.importers.configured.drafts import Blank, Ref, Text

_PLACEHOLDER: Final = re.compile(r"\$\{([^{}\n]{1,200})\}|\{env:([A-Za-z_]\w{0,100})\}")
_WHOLE: Final = re.compile(r"\$([A-Za-z_]\w{0,100})\Z")
_USUAL: Final = re.compile(r"([A-Za-z_]\w*):?-(.*)\Z", re.DOTALL)
_FIXED: Final = {"pathSeparator": "/", "/": "/"}
_FOLDERS: Final = {
    "workspaceFolder": "The folder that the client works in.",
    "workspaceFolderBasename": "The name of the folder that the client works in.",
    "workspaceRoot": "The folder that the client works in.",
    "userHome": "The home of the client's user.",
    "HOME": "The home of the client's user.",
    "cwd": "The folder that the client was started in.",
    "CLAUDE_PROJECT_DIR": "The folder that the client works in.",
    "CLAUDE_PLUGIN_ROOT": "The folder of the plugin.",
    "__dirname": "The folder of the extension.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedValue:
    """A value that a client asks its user for, as VS Code's `inputs` declare it."""

    words: str = ""
    is_secret: bool = False
    usual: str = ""
    choices: tuple[str, ...] = ()


class PlaceholderReader:
    """Reads texts, and keeps the blanks that they have."""

    def __init__(self, asked: Mapping[str, AskedValue], known: Mapping[str, str]) -> None:
        """`known` are the variables that the server's own entry sets, for texts that refer to them."""
        self._asked = asked
        self._known = known
        self._blanks: dict[str, Blank] = {}

    @property
    def blanks(self) -> tuple[Blank, ...]:
        return tuple(self._blanks.values())

    def value(self, name: str, text: str) -> Text:
        """Read the value of a variable or header; a whole credential becomes a blank that is called as it."""
        is_hidden = secrecy.is_named_so(name) or secrecy.looks_so(text) or secrecy.is_opaque(text)
        parts = self._split(text, is_hidden)
        if any(isinstance(part, Ref) for part in parts):
            return parts
        if not is_hidden and not secrecy.is_to_fill_in(text):
            return parts
        scheme = secrecy.scheme_of(text) if is_hidden else ""
        rest = text[len(scheme) :]
        found = "" if secrecy.is_to_fill_in(rest) else rest
        blank = self._add(Blank(name=name, is_secret=is_hidden, value=found, is_required=bool(text)))
        return (scheme, blank) if scheme else (blank,)

    def word(self, text: str, name: str, *, is_hidden: bool = False) -> Text:
        """Read a word of a command line, an address or a folder; `name` is what a person calls it."""
        parts = self._split(text, is_hidden)
        if any(isinstance(part, Ref) for part in parts):
            return parts
        if is_hidden or secrecy.looks_so(text):
            return (self._add(Blank(name=name, is_secret=True, value="" if secrecy.is_to_fill_in(text) else text)),)
        if secrecy.is_to_fill_in(text):
            return (self._add(Blank(name=name, words=f"The file says: {text[:200]}")),)
        return parts

    def blank(self, name: str, *, words: str = "", is_secret: bool = False, value: str = "") -> Ref:
        """Have a value filled in that the file only names."""
        return self._add(Blank(name=name, words=words, is_secret=is_secret, value=value))

    def _split(self, text: str, is_hidden: bool) -> Text:
        whole = _WHOLE.match(text)
        if whole:
            return (self._variable(whole[1], "", is_hidden),)
        parts: list[str | Ref] = []
        end = 0
        for match in _PLACEHOLDER.finditer(text):
            parts.append(text[end : match.start()])
            parts.append(self._read(match[1] or f"env:{match[2]}", is_hidden))
            end = match.end()
        parts.append(text[end:])
        return tuple(part for part in parts if part != "") or ("",)

    def _read(self, inside: str, is_hidden: bool) -> str | Ref:
        kind, colon, rest = inside.partition(":")
        if inside in _FIXED:
            return _FIXED[inside]
        if colon and kind in ("input", "promptString"):
            asked = self._asked.get(rest, AskedValue())
            return self._add(
                Blank(
                    name=rest,
                    words=asked.words,
                    is_secret=asked.is_secret or is_hidden or secrecy.is_named_so(rest),
                    value=asked.usual,
                    choices=asked.choices,
                )
            )
        if colon and kind == "env":
            inside = rest
        usual = _USUAL.match(inside)
        name, otherwise = (usual[1], usual[2]) if usual else (inside, "")
        if name in _FOLDERS and not otherwise:
            return self._add(Blank(name=name, words=_FOLDERS[name]))
        return self._variable(name, otherwise, is_hidden)

    def _variable(self, name: str, otherwise: str, is_hidden: bool) -> Ref:
        value = self._known.get(name, "")
        if "$" in value or secrecy.is_to_fill_in(value):
            value = ""
        is_secret = is_hidden or secrecy.is_named_so(name) or secrecy.looks_so(value)
        words = "A variable of the client's environment."
        return self._add(Blank(name=name, words=words, is_secret=is_secret, value=value or otherwise))

    def _add(self, blank: Blank) -> Ref:
        """Keep a blank. Two of one name are one if they say the same, or one says nothing."""
        name, number = blank.name[:200], 1
        while (there := self._blanks.get(name)) is not None and there.value and blank.value != there.value:
            if not blank.value:
                break
            number += 1
            name = f"{blank.name[:190]}-{number}"
        if there is not None:
            self._blanks[name] = replace(
                there,
                is_secret=there.is_secret or blank.is_secret,
                is_required=there.is_required or blank.is_required,
                value=there.value or blank.value,
                words=there.words or blank.words,
            )
        else:
            self._blanks[name] = replace(blank, name=name)
        return Ref(name)
