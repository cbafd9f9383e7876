"""The text of a configuration, whichever client wrote it, an address or a command, as drafts of connections. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcphub.features.importers import documents
from mcphub.features.importers.configured import descriptions, jsonc, lines
from mcphub.features.importers.configured.clients import draft_of
from mcphub.features.importers.configured.drafts import Draft, DraftRefused
from mcphub.features.importers.configured.placeholders import AskedValue
from mcphub.features.importers.documents import DocumentRefused
from sessions_app.protocol.json import Json

MAX_BYTES: Final = 1024 * 1024
MAX_SERVERS: Final = 100
_MEMBERS: Final = ("mcpServers", "context_servers", "mcp_servers", "servers", "mcp", "extensions")
"""Where the clients write their servers."""
_YAML: Final = re.compile(r"(?m)^(?:mcpServers|extensions|servers)[ \t]*:")
_LINE: Final = re.compile(r" ?\(at line (\d+), column (\d+)\)")
_END: Final = " (at end of document)"
_ENTRY: Final = ("command", "url", "httpUrl", "serverUrl", "cmd", "uri")
_LONGEST_NAME: Final = 200
_NOR: Final = ", nor an address, nor a command that the hub knows"


@dataclass(frozen=True, slots=True)
class ReadConfiguration:
    """The content of a text: drafts, and for invalid entries their name and the reason."""

    drafts: tuple[Draft, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _FoundDrafts:
    entries: list[tuple[str, Any]] = field(default_factory=list)
    asked: dict[str, AskedValue] = field(default_factory=dict)


def read(raw: bytes | str, *, folder: str = "") -> ReadConfiguration:
    """Read a configuration or a registry's description of servers; `folder` is the file's, where relative paths start.
    Raises DocumentRefused for a text that is neither.
    """
    text = _decoded(raw)
    document = _document(text)
    if descriptions.is_one(document):
        return _described(document)
    found = _found(document)
    if not found.entries:
        raise DocumentRefused(
            f"There are no servers in it. The hub reads objects called {', '.join(_MEMBERS)}, tables "
            "[mcp_servers.NAME] of TOML, and server.json of a registry."
        )
    _check_count(len(found.entries))
    drafts, refused = [], []
    for name, entry in found.entries:
        try:
            drafts.append(draft_of(name[:_LONGEST_NAME], entry, found.asked, folder))
        except DraftRefused as error:
            refused.append((name[:_LONGEST_NAME], str(error)))
    return ReadConfiguration(tuple(drafts), tuple(refused))


def _described(document: Json) -> ReadConfiguration:
    entries = descriptions.entries(document)
    _check_count(len(entries))
    drafts: list[Draft] = []
    refused = []
    for entry in entries:
        try:
            drafts.append(descriptions.draft_of(entry))
        except DraftRefused as error:
            refused.append((descriptions.name_of(entry)[:_LONGEST_NAME], str(error)))
    return ReadConfiguration(tuple(drafts), tuple(refused))


def _check_count(count: int) -> None:
    if count > MAX_SERVERS:
        raise DocumentRefused(f"There are {count} servers in it; the hub reads {MAX_SERVERS} at once. Split the file.")


def _decoded(raw: bytes | str) -> str:
    if len(raw) > MAX_BYTES:
        raise DocumentRefused(f"It has more than {MAX_BYTES} bytes. Give only the part that names the servers.")
    if isinstance(raw, bytes):
        try:
            raw = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DocumentRefused("It is no text in UTF-8. Save the file as UTF-8.") from error
    return raw.removeprefix("\ufeff")


def _document(text: str) -> dict[str, Json]:
    start = text.lstrip()
    if not start:
        raise DocumentRefused("It is empty. Paste an address, a command or the configuration of a client.")
    if (line := lines.entry_of(text)) is not None:
        return {"mcpServers": dict([line])}
    if start.startswith('"'):  # the member alone, as documentation often shows it
        value = jsonc.loads(f"{{{text}}}")
    elif start.startswith(("{", "//", "/*")):
        value = jsonc.loads(text)
    elif _YAML.search(text):
        value = documents.read(text.encode("utf-8", "surrogatepass"))
    else:
        value = _toml(text)
    if not isinstance(value, dict):
        raise DocumentRefused("It is no object.")
    return value


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise DocumentRefused(_told(text, error)) from error


def _told(text: str, error: Exception) -> str:
    words = str(error)
    at = _LINE.search(words)
    if at:
        place = f"Line {at[1]}, column {at[2]}"
    elif words.endswith(_END):
        place = f"Line {text.count(chr(10)) + 1}"
    else:
        return f"This is neither JSON nor TOML{_NOR}."
    return f"{place}: this is neither JSON nor TOML{_NOR}: {_LINE.sub('', words).removesuffix(_END)[:200]}."


def _found(document: dict[str, Json]) -> _FoundDrafts:
    found = _FoundDrafts()
    for name, entry in _entries(document):
        found.entries.append((name, entry))
    for holder in (document, document.get("mcp")):
        if isinstance(holder, dict):
            found.asked |= _asked(holder.get("inputs"))
    return found


def _entries(document: dict[str, Json]) -> Iterator[tuple[str, Any]]:
    seen: list[tuple[str, Any]] = []
    for holder in _holders(document):
        for name, entry in holder.items():
            # ~/.claude.json repeats a server in each project that has it.
            if len(seen) > MAX_SERVERS or (name, entry) not in seen:
                seen.append((name, entry))
                yield name, entry


def _holders(document: dict[str, Json]) -> Iterator[dict[str, Json]]:
    held = False
    for holder in (document, *_projects(document)):
        for member in _MEMBERS:
            servers = holder.get(member)
            if member in ("mcpServers", "servers") and isinstance(servers, list):  # Continue
                servers = {str(each.get("name") or "server"): each for each in servers if isinstance(each, dict)}
            if not isinstance(servers, dict) or (member == "extensions" and not _are_of_goose(servers)):
                continue
            if member == "mcp" and isinstance(servers.get("servers"), dict):  # settings.json of VS Code
                servers = servers["servers"]
            held = True
            yield servers
    if held:
        return
    if any(isinstance(document.get(member), str | list) for member in _ENTRY):  # one server, without a name
        yield {str(document.get("name") or "server"): document}
    elif document and all(_is_entry(each) for each in document.values()):
        yield document


def _projects(document: dict[str, Json]) -> Iterator[dict[str, Json]]:
    projects = document.get("projects")
    for project in projects.values() if isinstance(projects, dict) else ():
        if isinstance(project, dict):
            yield project


def _are_of_goose(extensions: dict[str, Json]) -> bool:
    """Return whether these are servers, and not what other programs call extensions."""
    return any(isinstance(each, dict) and isinstance(each.get("type"), str) for each in extensions.values())


def _is_entry(value: Json) -> bool:
    return isinstance(value, dict) and any(member in value for member in _ENTRY)


def _asked(inputs: object) -> Mapping[str, AskedValue]:
    found: dict[str, AskedValue] = {}
    for each in inputs if isinstance(inputs, list) else ():
        if isinstance(each, dict) and isinstance(each.get("id"), str):
            options = each.get("options")
            usual = each.get("default")
            found[each["id"]] = AskedValue(
                words=str(each.get("description") or "")[:300],
                is_secret=each.get("password") is True,
                usual=usual[:1000] if isinstance(usual, str) else "",
                choices=tuple(_option(option)[:200] for option in options[:100]) if isinstance(options, list) else (),
            )
    return found


def _option(option: object) -> str:
    return str(option.get("value", option.get("label", ""))) if isinstance(option, dict) else str(option)
