"""Clients' placeholders: `${input:token}`, `${env:TOKEN}`, `{file:~/.key}`, `{{TOKEN}}`, `$TOKEN`, `<token>`, `./x`.

Pure. A `PlaceholderReader` reads the texts of one server and gathers its blanks. A value that only the client has, and
a path that starts from a folder of its machine, becomes a blank; a placeholder that the hub cannot read is refused.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from mcphub.features.importers.configured import secrecy
from mcphub.features.importers.configured.drafts import Blank, DraftRefused, Ref, Text

_PLACEHOLDER: Final = re.compile(
    r"""(?x)
      \$?\{\{\s*(?P<store>(?:secrets|inputs|env)\.[\w.-]{1,200})\s*\}\}
    | \$?\{\{\s*(?P<doubled>[A-Za-z_][\w.-]{0,100})\s*\}\}
    | \$\{(?P<named>[^{}\n]{1,300})\}
    | \{env:(?P<variable>[A-Za-z_]\w{0,100})\}
    | \{file:(?P<file>[^{}\n]{1,300})\}"""
)
_OF_SHELLS: Final = re.compile(
    r"""(?x)
      \$\((?P<program>[^()\n]{1,300})\)
    | (?:(?<=[\s:=/,;@"'])|\A)\$(?P<plain>[A-Z_][A-Z0-9_]{0,100})(?![A-Za-z0-9_])
    | %(?P<windows>[A-Za-z_][A-Za-z0-9_]{2,100})%(?![0-9A-Fa-f]{2})"""
)
"""Forms of shells, which clients fill in as well. A script for a shell keeps them."""
_WHOLE: Final = re.compile(r"\$([A-Za-z_]\w{0,100})\Z")
_GAP: Final = re.compile(r"<([A-Za-z][\w .-]{1,60})>|(?<=[=/])(YOUR[-_][A-Z0-9_-]{1,60})(?![^&/?#])")
_STORED: Final = re.compile(r"(?:op|se|vault|keychain|secret)://[^\s]+\Z")
"""References of password stores, which a program of the client replaces."""
_USUAL: Final = re.compile(r"([A-Za-z_]\w*):?-(.*)\Z", re.DOTALL)
_DEMANDED: Final = re.compile(r"([A-Za-z_]\w*):?\?(.*)\Z", re.DOTALL)
_RELATIVE: Final = re.compile(r"\.{1,2}(?:[/\\].*)?\Z", re.DOTALL)
_HOME: Final = re.compile(r"~(?:[/\\]|\Z)")
_FIXED: Final = {"pathSeparator": "/", "/": "/"}
_OF_FILE: Final = "The file that is open in the client."
_WORKS_IN: Final = "The folder that the client works in."
_HOME_OF: Final = "The home of the client's user."
_FOLDERS: Final = {
    "workspaceFolder": _WORKS_IN,
    "workspaceFolderBasename": "The name of the folder that the client works in.",
    "fileWorkspaceFolder": _WORKS_IN,
    "workspaceRoot": _WORKS_IN,
    "userHome": _HOME_OF,
    "HOME": _HOME_OF,
    "USERPROFILE": _HOME_OF,
    "HOMEPATH": _HOME_OF,
    "APPDATA": "The folder of programs' data of the client's user.",
    "LOCALAPPDATA": "The folder of programs' data of the client's user.",
    "DESKTOP": "The desktop folder of the client's user.",
    "DOCUMENTS": "The documents of the client's user.",
    "DOWNLOADS": "The downloads of the client's user.",
    "cwd": "The folder that the client was started in.",
    "PWD": "The folder that the client was started in.",
    "pwd": "The folder that the client was started in.",
    "file": _OF_FILE,
    "fileDirname": "The folder of the file that is open in the client.",
    "fileBasename": _OF_FILE,
    "relativeFile": _OF_FILE,
    "selectedText": "The text that is selected in the client.",
    "execPath": "The program of the client.",
    "CLAUDE_PROJECT_DIR": _WORKS_IN,
    "CLAUDE_PLUGIN_ROOT": "The folder of the plugin.",
    "extensionPath": "The folder of the extension.",
    "__dirname": "The folder of the extension.",
}
_KINDS: Final = {
    "workspaceFolder": "The folder {name} that the client works in.",
    "command": "The result of the client's command {name}.",
    "config": "The client's setting {name}.",
    "user_config": "The setting {name} of the extension.",
    "extensionInstallFolder": "The folder of the client's extension {name}.",
    "inputs": "The client asks for {name}.",
}
_HIDDEN_KINDS: Final = frozenset({"secret", "secrets", "keychain", "keyring", "password", "op"})


def is_placeholder(text: str) -> bool:
    """Return whether a text has something in it that a client fills in."""
    return "${" in text or _PLACEHOLDER.search(text) is not None


def without_placeholders(text: str) -> str:
    """Return the text between placeholders."""
    return _OF_SHELLS.sub("", _PLACEHOLDER.sub("", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedValue:
    """A value that a client asks its user for, as VS Code's `inputs` declare it."""

    words: str = ""
    is_secret: bool = False
    usual: str = ""
    choices: tuple[str, ...] = ()


class PlaceholderReader:
    """Reads texts, and keeps the blanks that they have."""

    def __init__(self, asked: Mapping[str, AskedValue], known: Mapping[str, str], folder: str = "") -> None:
        """`known` are the variables that the server's own entry sets, for texts that refer to them; `folder` is where
        relative paths start, empty where nobody knows it.
        """
        self._asked = asked
        self._known = known
        self._folder: Text = (folder,) if folder else ()
        self._blanks: dict[str, Blank] = {}

    @property
    def blanks(self) -> tuple[Blank, ...]:
        return tuple(self._blanks.values())

    def start_in(self, folder: str) -> Text:
        """Read the folder that the server starts in; relative paths that are read later start there."""
        if folder and not folder.startswith(("/", "~", "$", "{", "%")) and not re.match(r"[A-Za-z]:", folder):
            folder = f"./{folder}"
        self._folder = self.word(folder, "folder", has_paths=True) if folder else self._folder
        return self._folder if folder else ()

    def value(self, name: str, text: str, *, has_paths: bool = False) -> Text:
        """Read the value of a variable or header; a whole credential becomes a blank that is called as it."""
        is_hidden = secrecy.is_named_so(name) or secrecy.looks_so(text) or secrecy.is_opaque(text)
        if _STORED.match(text):
            return (
                self._add(
                    Blank(name=name, words=f"The value in the client's password store: {text[:200]}", is_secret=True)
                ),
            )
        parts = self._split(text, is_hidden, has_paths=has_paths)
        if any(isinstance(part, Ref) for part in parts):
            return parts
        if not is_hidden and not secrecy.is_to_fill_in(text):
            return self._with_gaps(parts)
        scheme = secrecy.scheme_of(text) if is_hidden else ""
        rest = text[len(scheme) :]
        is_gap = secrecy.is_to_fill_in(rest)
        has_gap = not is_gap and _GAP.search(rest) is not None
        words = f"The file says: {text[:200]}" if has_gap else ""
        found = "" if is_gap or has_gap else rest
        blank = self._add(Blank(name=name, words=words, is_secret=is_hidden, value=found, is_required=bool(text)))
        return (scheme, blank) if scheme else (blank,)

    def word(
        self, text: str, name: str, *, is_hidden: bool = False, has_paths: bool = False, is_script: bool = False
    ) -> Text:
        """Read a word of a command line, an address or a folder; `name` is its name for people. In the script of a
        shell only clients' own placeholders are read: the shell fills in the others.
        """
        parts = self._split(text, is_hidden, has_paths=has_paths and not is_script, is_script=is_script)
        if any(isinstance(part, Ref) for part in parts):
            return parts
        if is_hidden or secrecy.looks_so(text):
            value = "" if secrecy.is_to_fill_in(text) or _GAP.search(text) else text
            return (self._add(Blank(name=name, is_secret=True, value=value)),)
        if secrecy.is_to_fill_in(text):
            return (self._add(Blank(name=name, words=f"The file says: {text[:200]}")),)
        return parts if is_script else self._with_gaps(parts)

    def blank(self, name: str, *, words: str = "", is_secret: bool = False, value: str = "") -> Ref:
        """Have a value filled in that the file only names."""
        return self._add(Blank(name=name, words=words, is_secret=is_secret, value=value))

    def _split(self, text: str, is_hidden: bool, *, has_paths: bool, is_script: bool = False) -> Text:
        whole = None if is_script else _WHOLE.match(text)
        if whole:
            return (self._named(whole[1], is_hidden),)
        before: Text = ()
        if has_paths:
            before, text = self._beginning(text)
        parts: list[str | Ref] = [*before]
        end = 0
        for match in _PLACEHOLDER.finditer(text):
            between = text[end : match.start()]
            parts += [between] if is_script else self._of_shells(between, is_hidden)
            parts.append(self._found(match, is_hidden))
            end = match.end()
        parts += [text[end:]] if is_script else self._of_shells(text[end:], is_hidden)
        if not is_script and (unread := next((part for part in parts if isinstance(part, str) and "${" in part), "")):
            unread = unread[unread.index("${") :][:60]
            raise DraftRefused(f"the hub does not read the placeholder {unread!r}. Write one ${{NAME}}, or the value.")
        return tuple(part for part in parts if part != "") or ("",)

    def _beginning(self, text: str) -> tuple[Text, str]:
        """Return where a path starts from, and the rest of it."""
        if _HOME.match(text):
            return (self._named("HOME", is_hidden=False),), text[1:].replace("\\", "/")
        if not _RELATIVE.match(text):
            return (), text
        path = posixpath.normpath(text.replace("\\", "/"))
        words = "The folder that relative paths start from."
        start = self._folder or (self._add(Blank(name="folder", words=words)),)
        if all(isinstance(part, str) for part in start):
            return (), posixpath.normpath(posixpath.join("".join(map(str, start)), path))
        return start, "" if path == "." else f"/{path}"

    def _of_shells(self, text: str, is_hidden: bool) -> list[str | Ref]:
        parts: list[str | Ref] = []
        end = 0
        for match in _OF_SHELLS.finditer(text):
            parts.append(text[end : match.start()])
            if program := match["program"]:
                words = f"The output of the command {program}."
                name = program if program in _FOLDERS else f"output of {program.split()[0][:60]}"
                words = _FOLDERS.get(program, words)
                parts.append(self._add(Blank(name=name, words=words, is_secret=is_hidden)))
            else:
                parts.append(self._named(match["plain"] or match["windows"], is_hidden))
            end = match.end()
        return [*parts, text[end:]]

    def _with_gaps(self, parts: Text) -> Text:
        """Have `<name>` and `YOUR_NAME` within a text filled in, as in https://<tenant>.example.com."""
        if len(parts) != 1 or not isinstance(parts[0], str):
            return parts
        text, found = parts[0], list[str | Ref]()
        end = 0
        for match in _GAP.finditer(text):
            words = f"The file says: {text[:200]}"
            name = match[1] or match[2]
            blank = Blank(name=name, words=words, is_secret=secrecy.is_named_so(name))
            found += [text[end : match.start()], self._add(blank)]
            end = match.end()
        return tuple(part for part in (*found, text[end:]) if part != "") or ("",)

    def _found(self, match: re.Match[str], is_hidden: bool) -> str | Ref:
        if match["file"]:
            return self._of_file(match["file"])
        if match["store"]:
            kind, _, rest = match["store"].partition(".")
            return self._read(f"{kind}:{rest}", is_hidden)
        if name := match["doubled"]:
            is_secret = is_hidden or secrecy.is_named_so(name)
            return self._add(Blank(name=name, words=f"The file says: {match[0]}", is_secret=is_secret))
        return self._read(match["named"] or f"env:{match['variable']}", is_hidden)

    def _of_file(self, path: str) -> Ref:
        words = f"The content of the file {path} on the client's machine."
        return self._add(Blank(name=path.rpartition("/")[2] or "file", words=words, is_secret=True))

    def _read(self, inside: str, is_hidden: bool) -> str | Ref:
        kind, colon, rest = inside.partition(":")
        if inside in _FIXED:
            return _FIXED[inside]
        if inside.startswith("user_config."):
            kind, colon, rest = inside.partition(".")
        if not colon or not rest or rest[0] in "-?+":
            return self._named(inside, is_hidden)
        if kind == "env":
            return self._named(rest, is_hidden)
        if kind == "file":
            return self._of_file(rest)
        if kind in ("input", "promptString", "pickString"):
            return self._asked_for(rest, is_hidden)
        words = _KINDS.get(kind, "The client fills in {inside}.").format(name=rest[:200], inside=f"${{{inside[:200]}}}")
        is_secret = is_hidden or kind in _HIDDEN_KINDS or secrecy.is_named_so(rest)
        return self._add(Blank(name=rest, words=words, is_secret=is_secret))

    def _asked_for(self, name: str, is_hidden: bool) -> Ref:
        asked = self._asked.get(name, AskedValue())
        return self._add(
            Blank(
                name=name,
                words=asked.words,
                is_secret=asked.is_secret or is_hidden or secrecy.is_named_so(name),
                value=asked.usual,
                choices=asked.choices,
            )
        )

    def _named(self, inside: str, is_hidden: bool) -> Ref:
        """Read a variable of the client's environment, with its default behind `:-`, or its words behind `:?`."""
        usual, demanded = _USUAL.match(inside), _DEMANDED.match(inside)
        name, otherwise = (usual[1], usual[2]) if usual else (inside, "")
        words = "A variable of the client's environment."
        if demanded:
            name, words = demanded[1], demanded[2] or words
        value = self._known.get(name, "")
        if "$" in value or secrecy.is_to_fill_in(value):
            value = ""
        if name in _FOLDERS and not otherwise and not value:
            return self._add(Blank(name=name, words=_FOLDERS[name]))
        is_secret = is_hidden or secrecy.is_named_so(name) or secrecy.looks_so(value)
        return self._add(Blank(name=name, words=words[:300], is_secret=is_secret, value=value or otherwise))

    def _add(self, blank: Blank) -> Ref:
        """Keep a blank. Two of one name are merged if they agree, or one is empty."""
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
