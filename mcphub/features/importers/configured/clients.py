"""One entry of a client's configuration as a draft: whatever its client calls the members. Pure.

Claude Desktop, Claude Code, Cursor, Windsurf, Cline, Roo Code and Gemini CLI write `mcpServers`; VS Code `servers`; Zed
`context_servers`; Codex `[mcp_servers.NAME]`; opencode `mcp`; Goose `extensions`; Continue a list `mcpServers`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from mcphub.features.importers.configured import folders, secrecy
from mcphub.features.importers.configured.bridges import unwrapped
from mcphub.features.importers.configured.drafts import LONGEST_TEXT, Draft, DraftRefused, Ref, Text
from mcphub.features.importers.configured.placeholders import (
    AskedValue,
    PlaceholderReader,
    is_placeholder,
    without_placeholders,
)
from tools_catalog.upstream import scripts, spec

MAX_WORDS: Final = 200
"""Of one command line; as many variables, and as many headers."""
_LOCAL: Final = frozenset({"stdio", "local", "command"})
_SSE: Final = frozenset({"sse"})
_HTTP: Final = frozenset({"http", "streamable-http", "streamablehttp", "streamable_http", "remote", "https"})
_ADDRESSES: Final = ("httpUrl", "serverUrl", "url", "uri", "endpoint")
_FETCHING: Final = frozenset({"npx", "uvx", "bunx", "pnpx", "pipx", "dnx", "deno", "uv", "pnpm", "yarn", "bun", "npm"})
_SHELLS: Final = frozenset({"ash", "bash", "cmd", "dash", "fish", "ksh", "powershell", "pwsh", "sh", "zsh"})
_INSIDE: Final = frozenset({"builtin", "platform", "frontend", "inline_python"})
"""Kinds of Goose's extensions that are no servers."""
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
_FLAG: Final = re.compile(r"--?([A-Za-z][\w-]*)(=)?")
_WITH_KEY: Final = re.compile(r"[?&]([^=&#]{1,100})=([^&#]+)")
_IN_ARGUMENTS: Final = (
    "the command line has a credential ({names}), and every user of the machine reads command lines. If the program "
    "takes it from a variable, name the variable under env and bring the server again."
)
_IN_ADDRESS: Final = (
    "the address has a credential ({names}), and addresses are shown to everybody who sees the connection. If the "
    "server takes it in a header, name the header and bring the server again."
)


def draft_of(name: str, entry: Any, asked: Mapping[str, AskedValue], folder: str = "") -> Draft:
    """Read one entry of a file in this folder, as far as that is known; raises DraftRefused if it is invalid."""
    if not isinstance(entry, dict):
        raise DraftRefused("it must be an object with a command or an address.")
    entry = _flat(entry)
    notes: list[str] = []
    if isinstance(kind := entry.get("type"), str) and kind in _INSIDE:
        raise DraftRefused(f"it is a part of the client ({kind}), and no server.")
    command, words = _command(entry, notes)
    environment = _environment(entry)
    for member in ("envFile", "env_file"):
        if file := entry.get(member):
            notes.append(
                f"{member}: {str(file)[:200]} is not read. Add its variables to the launch profile, or to the "
                "configuration under env."
            )
    for member in ("headersHelper", "apiKeyHelper"):
        if entry.get(member):
            notes.append(f"{member} is not run. Give the server a token in a header.")
    bridge = unwrapped(command, words, environment) if command else None
    if bridge is not None:
        notes.append("The bridge mcp-remote is left out: the hub connects to the address itself.")
        return _remote(name, entry, bridge.url, bridge.headers, bridge.transport, environment, asked, notes)
    url = next((entry[each] for each in _ADDRESSES if entry.get(each)), "")
    kind = _transport(entry)
    if command and (kind in _LOCAL or not url):
        return _local(name, entry, command, words, PlaceholderReader(asked, environment, folder), environment, notes)
    if not url:
        raise DraftRefused("it has neither a command nor an address.")
    if not isinstance(url, str) or not url.lower().startswith(("http://", "https://", "$", "{", "<")):
        raise DraftRefused("url: it must be an address that begins with https:// or http://.")
    is_sse = kind in _SSE or (not kind and not entry.get("httpUrl") and re.search(r"/sse/?(\?|\Z)", url) is not None)
    if entry.get("oauth") or entry.get("auth"):
        notes.append("The client signs in to it; the hub does not. Give it a token in a header, if it takes one.")
    transport = spec.SSE if is_sse else spec.STREAMABLE_HTTP
    return _remote(name, entry, url, _headers(entry), transport, environment, asked, notes)


def _transport(entry: dict[str, Any]) -> str:
    """Return the transport in lower case; empty where the entry names none."""
    kind = entry.get("type", entry.get("transport", entry.get("transportType", "")))
    kind = kind.lower() if isinstance(kind, str) else ""
    if kind and kind not in _LOCAL | _SSE | _HTTP:
        raise DraftRefused(f"type: the hub does not speak {kind[:40]!r}. It speaks stdio, sse and streamable-http.")
    return kind


def _environment(entry: dict[str, Any]) -> dict[str, str]:
    environment = _texts(entry, "env", "environment", "envs")
    for member in ("env_vars", "env_keys"):
        if entry.get(member):
            environment |= {each: f"${{{each}}}" for each in _names(entry[member], member)}
    return environment


def _headers(entry: dict[str, Any]) -> dict[str, str]:
    headers = _texts(entry, "headers", "http_headers", "requestInit", "requestOptions")
    headers |= {header: f"${{{each}}}" for header, each in _texts(entry, "env_http_headers").items()}
    if isinstance(variable := entry.get("bearer_token_env_var"), str) and variable:
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    if isinstance(token := entry.get("bearer_token"), str) and token:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _flat(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with an object as `command`, as in older Zed, or with a `transport` object, in flat form."""
    inner = entry.get("command", entry.get("cmd"))
    if isinstance(inner, str | list):
        entry = {**entry, "command": inner}
    if isinstance(inner, dict):
        entry = {**entry, **inner, "command": inner.get("path", inner.get("command", ""))}
    inner = entry.get("transport")
    return {**entry, **inner} if isinstance(inner, dict) else entry


def _command(entry: dict[str, Any], notes: list[str]) -> tuple[str, list[str]]:
    command, words = entry.get("command") or "", entry.get("args", entry.get("arguments")) or []
    if words is None:
        words = []
    if isinstance(command, list):
        _check_list(command, "command")
        command, words = (command[0] if command else ""), [*command[1:], *(words if isinstance(words, list) else [])]
    if not isinstance(command, str):
        raise DraftRefused("command: it must be the name of a program, or its path.")
    _check_list(words, "args")
    words = [_text(word, "args") for word in words]
    bare = without_placeholders(command)
    if " " in bare.strip() and not words and not command.startswith(("/", "~", ".", '"')) and ":" not in command[:3]:
        try:
            command, *words = shlex.split(command)
        except ValueError as error:
            raise DraftRefused(
                f"command: it cannot be split into words: {error}. Write the words under args."
            ) from error
        notes.append("The command was split into words, because no shell reads it.")
    if command.lower() in ("cmd", "cmd.exe") and [word.lower() for word in words[:1]] == ["/c"] and words[1:]:
        command, words = words[1], words[2:]
        notes.append("cmd /c is left out: there is no such shell here.")
    if "\x00" in command or command.startswith("-") or len(command) > 500:
        raise DraftRefused("command: name a program in at most 500 characters.")
    return command, words


def _local(
    name: str,
    entry: dict[str, Any],
    command: str,
    words: list[str],
    reader: PlaceholderReader,
    environment: dict[str, str],
    notes: list[str],
) -> Draft:
    folder = entry.get("cwd") or entry.get("workingDirectory") or ""
    directory = reader.start_in(folder) if isinstance(folder, str) else ()
    program = command.replace("\\", "/").rpartition("/")[2].removesuffix(".exe").removesuffix(".cmd")
    if program in scripts.INTERPRETERS and not re.match(r"[A-Za-z]:|[/~$%{.-]", script := scripts.script_of(words)):
        words = [f"./{word}" if word == script else word for word in words]
    is_script = program in _SHELLS
    arguments = [_argument(reader, words, number, is_script) for number in range(len(words))]
    exposed = _hidden(reader, arguments)
    variables = tuple((key, reader.value(key, text, has_paths=True)) for key, text in environment.items())
    is_relative = "/" in command and re.match(r"[A-Za-z]:|[/~$%{.]", command) is None
    runs = reader.word(f"./{command}" if is_relative else command, "program", has_paths=True)
    if program in _CONTAINERS:
        notes.append(
            "A confined child does not reach the socket of the container engine. Run the container beside the hub and "
            "connect to its address, or have a superuser mark the launch profile as unconfined."
        )
    if re.match(r"[A-Za-z]:[\\/]", command):
        notes.append("The path of the program is of the client's machine. Correct it in the launch profile.")
    if environment.get("PATH"):
        notes.append("It sets PATH, which the hub's machine may have otherwise.")
    problem = _IN_ARGUMENTS.format(names=", ".join(exposed)) if exposed else ""
    return Draft(
        name=name,
        title=_title(entry),
        command=runs,
        arguments=tuple(arguments),
        environment=variables,
        directory=directory,
        readable=_modules(program, runs, arguments),
        fetches=program in _FETCHING or program in _CONTAINERS,
        enabled=_is_enabled(entry),
        blanks=reader.blanks,
        notes=tuple(notes),
        problem=problem,
    )


def _remote(
    name: str,
    entry: dict[str, Any],
    url: str,
    headers: Mapping[str, str],
    transport: str,
    environment: Mapping[str, str],
    asked: Mapping[str, AskedValue],
    notes: list[str],
) -> Draft:
    reader = PlaceholderReader(asked, environment)
    address = reader.word(url, "address")
    exposed = _hidden(reader, [address])
    for key, value in _WITH_KEY.findall(url):
        if secrecy.is_named_so(key) or secrecy.looks_so(value):
            exposed.append(key)
    exposed = list(dict.fromkeys(exposed))
    own = [header for header in headers if header.lower() in spec.OWN_HEADERS]
    if own:
        notes.append(f"The hub writes these headers itself: {', '.join(own)}.")
    written = {header: text for header, text in headers.items() if header not in own}
    return Draft(
        name=name,
        title=_title(entry),
        transport=transport,
        url=address,
        headers=tuple((header, reader.value(header, text)) for header, text in written.items()),
        enabled=_is_enabled(entry),
        blanks=reader.blanks,
        notes=tuple(notes),
        problem=_IN_ADDRESS.format(names=", ".join(exposed)) if exposed else "",
    )


def _modules(program: str, runs: Text, arguments: list[Text]) -> tuple[Text, ...]:
    """Return the folders of the modules that a script loads: the program itself, or one that an interpreter runs."""
    words = arguments if program in scripts.INTERPRETERS else [runs] if program.endswith(scripts.ENDS) else []
    return tuple((path,) for path in folders.beside(_plain(words)))


def _plain(texts: list[Text]) -> list[str]:
    """Return the words without blanks."""
    return ["".join(map(str, text)) for text in texts if all(isinstance(part, str) for part in text)]


def _argument(reader: PlaceholderReader, words: list[str], number: int, is_script: bool) -> Text:
    """Read a word of the command line. One that follows `--token`, or has it before `=`, is a credential."""
    word = words[number]
    flag = _FLAG.match(word)
    if flag and flag[2]:
        name = flag[1]
        rest = word[flag.end() :]
        value = reader.word(rest, name, is_hidden=_is_credential_flag(name, rest), has_paths=True)
        return (word[: flag.end()], *value)
    before = _FLAG.fullmatch(words[number - 1]) if number else None
    name = before[1] if before and not before[2] else f"argument {number + 1}"
    is_hidden = before is not None and not before[2] and not flag and _is_credential_flag(name, word)
    return reader.word(word, name, is_hidden=is_hidden, has_paths=True, is_script=is_script)


def _is_credential_flag(name: str, value: str) -> bool:
    # `--env-file /x/token` names a file, `--key-column id` a column.
    return secrecy.is_named_so(name) and len(name) > 1 and not value.startswith(("/", "./", "-"))


def _hidden(reader: PlaceholderReader, texts: list[Text]) -> list[str]:
    named = {part.blank for text in texts for part in text if isinstance(part, Ref)}
    return [blank.name for blank in reader.blanks if blank.is_secret and blank.name in named]


def _texts(entry: dict[str, Any], *members: str) -> dict[str, str]:
    """Return names and texts out of the first of these members that is there."""
    for member in members:
        given = entry.get(member)
        if member in ("requestInit", "requestOptions"):
            given = given.get("headers") if isinstance(given, dict) else None
        if given in (None, {}, []):
            continue
        if not isinstance(given, dict):
            raise DraftRefused(f"{member}: it must be an object of names and texts.")
        if len(given) > MAX_WORDS:
            raise DraftRefused(f"{member}: there are {len(given)}; the hub takes {MAX_WORDS}.")
        if unread := next((name for name in map(str, given) if is_placeholder(name)), ""):
            raise DraftRefused(f"{member}: the name {unread[:100]!r} is a placeholder. Write the name itself.")
        return {str(name): _text(value, f"{member}.{name}") for name, value in given.items() if value is not None}
    return {}


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise DraftRefused(f"{where[:200]}: it must be a text.")
    text = str(value)
    if len(text) > LONGEST_TEXT or "\x00" in text:
        raise DraftRefused(f"{where[:200]}: it must be a text of at most {LONGEST_TEXT} characters, without NUL.")
    return text


def _names(given: Any, where: str) -> list[str]:
    """Return the names of variables, written as texts or as objects with a name."""
    found = [each.get("name") if isinstance(each, dict) else each for each in given] if isinstance(given, list) else [1]
    if not all(isinstance(each, str) and each for each in found) or len(found) > MAX_WORDS:
        raise DraftRefused(f"{where}: it must be a list of names of variables, at most {MAX_WORDS}.")
    return [str(each) for each in found]


def _check_list(words: Any, where: str) -> None:
    if not isinstance(words, list) or not all(isinstance(word, str | int | float) for word in words):
        raise DraftRefused(f"{where}: it must be a list of texts, one for each word.")
    if len(words) > MAX_WORDS or any(len(str(word)) > LONGEST_TEXT or "\x00" in str(word) for word in words):
        raise DraftRefused(f"{where}: at most {MAX_WORDS} words of at most {LONGEST_TEXT} characters, without NUL.")


def _title(entry: dict[str, Any]) -> str:
    title = entry.get("title") or entry.get("displayName")
    return title[:200] if isinstance(title, str) else ""


def _is_enabled(entry: dict[str, Any]) -> bool:
    return entry.get("disabled") is not True and entry.get("enabled") is not False
