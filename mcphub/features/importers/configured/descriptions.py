"""A registry's description of a server (`server.json`) as a draft: its address if it has one, else the command of its
package.

Pure. The revisions of 2025-07 write members with underscores, the later ones in camel case; both are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcphub.features.importers.configured import secrecy
from mcphub.features.importers.configured.drafts import LONGEST_TEXT, Blank, Draft, DraftRefused, Ref, Text
from sessions_app.protocol.json import Json
from tools_catalog.upstream import spec

_RUNNERS: Final = {"npm": "npx", "pypi": "uvx", "oci": "docker", "nuget": "dnx"}
_VARIABLE: Final = re.compile(r"\{([A-Za-z_][\w.-]{0,100})\}")
_CAPITAL: Final = re.compile(r"_([a-z])")
_MOST: Final = 100
_SSE, _HTTP = "sse", "streamable-http"


def is_one(document: dict[str, Json]) -> bool:
    """Return whether this is a server of a registry, a registry's answer about one, or a list of them."""
    if isinstance(document.get("server"), dict) and "name" in document["server"]:
        return True
    if isinstance(listed := document.get("servers"), list):  # a client's list has their commands
        return not any(isinstance(each, dict) and {"command", "url"} & each.keys() for each in listed)
    return isinstance(document.get("name"), str) and (
        isinstance(document.get("packages"), list) or isinstance(document.get("remotes"), list)
    )


def entries(document: dict[str, Json]) -> list[Any]:
    """Return the servers of a document that `is_one`."""
    listed = document.get("servers")
    found = listed if isinstance(listed, list) else [document]
    return [
        each["server"] if isinstance(each, dict) and isinstance(each.get("server"), dict) else each for each in found
    ]


def name_of(entry: Json) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) and name else "server"


def draft_of(entry: Json) -> Draft:
    """Read one server; raises DraftRefused."""
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise DraftRefused("it must be an object with a name, and with remotes or packages.")
    server: dict[str, Any] = _camel(entry)
    remotes = [each for each in _list(server.get("remotes")) if isinstance(each, dict)]
    packages = [each for each in _list(server.get("packages")) if isinstance(each, dict)]
    reader = _DescriptionReader()
    notes = []
    if server.get("status") in ("deprecated", "deleted"):
        notes.append(f"The registry says that it is {server['status']}.")
    title = _text(server.get("title")) or _text(server.get("description"))
    # Streamable HTTP before HTTP+SSE, an address before a program.
    remotes.sort(key=lambda each: _kind(each) != _HTTP)
    for remote in remotes:
        if _kind(remote) in (_HTTP, _SSE) and _text(remote.get("url")):
            if packages:
                notes.append("It can be run as a program as well; the address was taken.")
            return _of_remote(server, remote, reader, title, notes)
    refused = "it has neither an address nor a package that the hub can run."
    for package in packages:
        try:
            return _of_package(server, package, reader, title, notes)
        except DraftRefused as error:
            refused = str(error)
            reader = _DescriptionReader()
    raise DraftRefused(refused)


def _of_remote(
    server: dict[str, Json], remote: dict[str, Json], reader: _DescriptionReader, title: str, notes: list[str]
) -> Draft:
    url = reader.text(_text(remote.get("url")), remote.get("variables"))
    headers = [each for each in _list(remote.get("headers")) if isinstance(each, dict) and _text(each.get("name"))]
    own = [each["name"] for each in headers if each["name"].lower() in spec.OWN_HEADERS]
    written = tuple((each["name"], reader.of(each)) for each in headers if each["name"] not in own)
    hidden = reader.hidden([url])
    return Draft(
        name=server["name"],
        title=title[:200],
        transport=spec.SSE if _kind(remote) == _SSE else spec.STREAMABLE_HTTP,
        url=url,
        headers=written,
        blanks=reader.blanks,
        notes=tuple(notes),
        problem=f"the address has a credential ({', '.join(hidden)}), and addresses are shown to everybody who sees "
        "the connection."
        if hidden
        else "",
    )


def _of_package(
    server: dict[str, Json], package: dict[str, Json], reader: _DescriptionReader, title: str, notes: list[str]
) -> Draft:
    kind = _text(package.get("registryType") or package.get("registryName"))
    identifier = _text(package.get("identifier") or package.get("name"))
    transport = package.get("transport")
    if isinstance(transport, dict) and _text(transport.get("type")) not in ("", "stdio"):
        raise DraftRefused("its package serves HTTP. Run it beside the hub and add a connection to its address.")
    if kind not in _RUNNERS or not identifier or identifier.startswith("-"):
        raise DraftRefused(f"the hub cannot run packages of the kind {kind[:40] or 'none'}.")
    version = _text(package.get("version"))
    runner = _text(package.get("runtimeHint")) or _RUNNERS[kind]
    words: list[Text] = [("-y",)] if runner == "npx" else []
    variables = [each for each in _list(package.get("environmentVariables")) if isinstance(each, dict)]
    variables = [each for each in variables if _text(each.get("name"))]
    if runner == "docker":
        words += [("run",), ("-i",), ("--rm",)]
        words += [word for each in variables for word in (("-e",), (str(each["name"]),))]
        notes = [*notes, "A confined child does not reach the socket of the container engine. Run it beside the hub."]
    words += [word for each in _list(package.get("runtimeArguments")) for word in reader.words(each)]
    words.append((_named(kind, identifier, version),))
    words += [word for each in _list(package.get("packageArguments")) for word in reader.words(each)]
    hidden = reader.hidden(words)
    environment = tuple((each["name"], reader.of(each)) for each in variables)
    problem = ""
    if hidden:
        problem = f"the command line has a credential ({', '.join(hidden)}), and every user of the machine reads it."
    return Draft(
        name=server["name"],
        title=title[:200],
        command=(runner,),
        arguments=tuple(words),
        environment=environment,
        fetches=True,
        blanks=reader.blanks,
        notes=tuple(notes),
        problem=problem,
    )


def _named(kind: str, identifier: str, version: str) -> str:
    if not version or version == "latest":
        return identifier
    if kind == "oci":
        return identifier if ":" in identifier.rpartition("/")[2] else f"{identifier}:{version}"
    return f"{identifier}{'==' if kind == 'pypi' else '@'}{version}"


class _DescriptionReader:
    """Reads inputs, and keeps the blanks that they have."""

    def __init__(self) -> None:
        self._blanks: dict[str, Blank] = {}

    @property
    def blanks(self) -> tuple[Blank, ...]:
        return tuple(self._blanks.values())

    def hidden(self, texts: list[Text]) -> list[str]:
        named = {part.blank for text in texts for part in text if isinstance(part, Ref)}
        return [blank.name for blank in self.blanks if blank.is_secret and blank.name in named]

    def of(self, given: dict[str, Json]) -> Text:
        """Read a header or a variable: a fixed text with variables, or a value that somebody fills in."""
        value, name = _text(given.get("value")), _text(given.get("name"))
        if value:
            return self.text(value, given.get("variables"), is_hidden=secrecy.is_named_so(name))
        return (self._add(name, given),)

    def words(self, given: Json) -> Iterator[Text]:
        """Read an argument: a flag with its value as two words, or a word by itself."""
        if not isinstance(given, dict):
            return
        flag = _text(given.get("name")) if given.get("type") == "named" else ""
        hint = _text(given.get("valueHint")) or flag.lstrip("-") or "argument"
        value = _text(given.get("value"))
        needs_none = flag and not value and not _is_asked(given)
        if flag:
            yield (flag,)
        if needs_none:
            return
        if value:
            yield self.text(value, given.get("variables"))
        else:
            yield (self._add(hint, given),)

    def text(self, text: str, variables: object, *, is_hidden: bool = False) -> Text:
        known: Mapping[str, Any] = variables if isinstance(variables, dict) else {}
        parts: list[str | Ref] = []
        end = 0
        for match in _VARIABLE.finditer(text):
            # An identifier that is no variable stays as it is written.
            if match[1] not in known or not isinstance(known[match[1]], dict):
                continue
            parts.append(text[end : match.start()])
            parts.append(self._add(match[1], known[match[1]], is_hidden=is_hidden))
            end = match.end()
        parts.append(text[end:])
        found = tuple(part for part in parts if part != "") or ("",)
        if is_hidden and not any(isinstance(part, Ref) for part in found):
            scheme = secrecy.scheme_of(text)
            named = self._add("credential", {"isSecret": True, "isRequired": True, "description": f"For: {text[:100]}"})
            return (scheme, named) if scheme else (named,)
        return found

    def _add(self, name: str, given: dict[str, Json], *, is_hidden: bool = False) -> Ref:
        if len(self._blanks) >= _MOST:
            raise DraftRefused(f"it asks for more than {_MOST} values.")
        choices = tuple(_text(each) for each in _list(given.get("choices"))[:_MOST])
        hidden = given.get("isSecret") is True or is_hidden or secrecy.is_named_so(name)
        usual = _text(given.get("value")) or ("" if hidden else _text(given.get("default")))
        blank = Blank(
            name=name[:200],
            words=_text(given.get("description"))[:300],
            is_secret=hidden,
            is_required=given.get("isRequired") is True,
            value=usual,
            choices=choices,
        )
        self._blanks.setdefault(blank.name, blank)
        return Ref(blank.name)


def _is_asked(given: dict[str, Json]) -> bool:
    return any(member in given for member in ("valueHint", "default", "isRequired", "format", "choices", "placeholder"))


def _kind(remote: dict[str, Json]) -> str:
    kind = _text(remote.get("type") or remote.get("transportType"))
    return _HTTP if kind in ("streamable", "streamable-http", "http") else kind


def _list(given: Json) -> list[Any]:
    return given[:_MOST] if isinstance(given, list) else []


def _text(given: Json) -> str:
    if not isinstance(given, str):
        return ""
    if len(given) > LONGEST_TEXT or "\x00" in given:
        raise DraftRefused(f"a text of it has more than {LONGEST_TEXT} characters, or a NUL.")
    return given


def _camel(value: Json, depth: int = 0) -> Any:
    """Return names in camel case, as later revisions write them; names of variables stay."""
    if isinstance(value, dict) and depth < 8:
        return {
            _CAPITAL.sub(lambda found: found[1].upper(), str(name)): inner
            if name in ("variables", "_meta")
            else _camel(inner, depth + 1)
            for name, inner in value.items()
        }
    return [_camel(inner, depth + 1) for inner in value] if isinstance(value, list) and depth < 8 else value
