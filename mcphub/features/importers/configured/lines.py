"""Pasted text that is not a configuration: an address, a command, or the line that adds a server to a client.

Pure. Each becomes the entry that a client's configuration would have, and is read as that.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from typing import Any, Final
from urllib.parse import urlsplit

from mcphub.features.importers.configured import jsonc
from mcphub.features.importers.documents import DocumentRefused

_LONGEST: Final = 20_000
"""Characters of a line that is looked at; a longer text is a file."""
_LAUNCHERS: Final = frozenset(
    (
        *("bun", "bunx", "deno", "docker", "dotnet", "go", "java", "node", "npx", "php", "pipx", "pnpm", "podman"),
        *("python", "python3", "ruby", "uv", "uvx", "yarn"),
    )
)
_BEFORE_PACKAGE: Final = frozenset(["dlx", "exec", "run", "tool", "x"])
_CLIENTS: Final = frozenset(["claude", "codex", "gemini"])
_VARIABLE: Final = re.compile(r"([A-Z_][A-Z0-9_]{0,100})=(.*)", re.DOTALL)
"""As environments have them; TOML's members are written small."""
_TOML: Final = re.compile(r"(?![A-Z_][A-Z0-9_]*=)[\w.\"-]+ *=[ {\[\"']")
_ADDRESS: Final = re.compile(r"https?://\S+", re.IGNORECASE)
_MCP: Final = re.compile(r"(?:^|[-_./@])mcp(?:$|[-_.])")
_PATH: Final = re.compile(r"/|~/|\.{1,2}/|[\w-]+/[\w./-]+\Z")
"""A program by its path: absolute, of the home, or relative. A dot before the slash is of a registry's names."""
_SAYS_NOTHING: Final = frozenset(["api", "app", "com", "dev", "mcp", "net", "org", "server", "www"])
_OF_PACKAGE: Final = re.compile(r"^(?:mcp-server-|server-|mcp-)|(?:-mcp-server|-mcp)$")
_OPTIONS: Final = {
    "-t": "transport",
    "--transport": "transport",
    "-e": "env",
    "--env": "env",
    "-H": "header",
    "--header": "header",
    "--url": "url",
}
"""Options of the clients' own commands that concern the server. `-s`, `--scope` name a place of the client."""


def entry_of(text: str) -> tuple[str, dict[str, Any]] | None:
    """Return name and entry of the server that a line means; None where it is no such line.

    Raises DocumentRefused for a line with unclosed quotes, or without a required name.
    """
    if len(text) > _LONGEST:
        return None
    line = re.sub(r"\\\s*\n\s*", " ", text.strip()).removeprefix("$ ").strip()
    if not line or "\n" in line or line[0] in "{[\"'#" or _TOML.match(line):
        return None
    if _ADDRESS.fullmatch(line):
        return name_of_address(line), {"url": line}
    first = line.split(maxsplit=1)[0]
    is_variable = _VARIABLE.fullmatch(first) is not None and " " in line
    program = "" if "://" in first else first.rpartition("/")[2]
    is_path = _PATH.match(first) is not None
    if not (is_variable or is_path or program in _LAUNCHERS | _CLIENTS | {"code"} or _MCP.search(program)):
        return None
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise DocumentRefused(f"It reads as a command, but cannot be split into words: {error}.") from error
    if program in _CLIENTS:
        return _added_by(words)
    if program == "code":
        return _added_to_vs_code(words)
    return _started_by(words)


def _started_by(words: list[str]) -> tuple[str, dict[str, Any]] | None:
    variables = {}
    while words and (found := _VARIABLE.fullmatch(words[0])):
        variables[found[1]] = found[2]
        words = words[1:]
    if not words:
        return None
    entry: dict[str, Any] = {"command": words[0], "args": words[1:]}
    if variables:
        entry["env"] = variables
    return name_of_command(words), entry


def _added_by(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Read `claude mcp add NAME …`, and the like of Codex and Gemini CLI."""
    if words[1:2] != ["mcp"] or words[2:3] not in (["add"], ["add-json"]):
        raise DocumentRefused(f"Of {words[0]} the hub reads `{words[0]} mcp add NAME …`.")
    if words[2] == "add-json":
        return _of_json(words[3] if len(words) > 3 else "", words[4] if len(words) > 4 else "")
    said, told, command = _options(words[3:])
    if not told:
        raise DocumentRefused("It lacks the name of the server: `mcp add NAME …`.")
    name, rest = told[0], [*told[1:], *command]
    variables = {found[1]: found[2] for each in said["env"] if (found := _VARIABLE.fullmatch(each))}
    headers = {key.strip(): value.strip() for key, _, value in (each.partition(":") for each in said["header"])}
    address = said["url"][-1:] or [word for word in rest[:1] if _ADDRESS.fullmatch(word)]
    if address:
        transport = said["transport"][-1] if said["transport"] else "http"
        return name, {"url": address[0], "type": transport, "headers": headers}
    if not rest:
        raise DocumentRefused("It lacks the address or the command of the server.")
    return name, {"command": rest[0], "args": rest[1:], "env": variables}


def _options(words: list[str]) -> tuple[dict[str, list[str]], list[str], list[str]]:
    """Return the options, the words between them, and the command after `--`."""
    command: list[str] = []
    if "--" in words:
        at = words.index("--")
        words, command = words[:at], words[at + 1 :]
    said: dict[str, list[str]] = {meaning: [] for meaning in set(_OPTIONS.values())}
    told: list[str] = []
    waiting = iter(words)
    for word in waiting:
        option, _, value = word.partition("=")
        # Behind a command, options are the command's.
        is_option = word.startswith("-") and (len(told) < 2 or _ADDRESS.fullmatch(told[1]) is not None)
        if is_option and option in _OPTIONS:
            said[_OPTIONS[option]].append(value or next(waiting, ""))
        elif is_option and option in ("-s", "--scope"):
            if not value:
                next(waiting, "")
        else:
            told.append(word)
    return said, told, command


def _added_to_vs_code(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Read `code --add-mcp '{"name": …}'`."""
    if words[1:2] != ["--add-mcp"] or len(words) < 3:
        raise DocumentRefused("Of VS Code the hub reads `code --add-mcp '{…}'`.")
    return _of_json("", words[2])


def _of_json(name: str, text: str) -> tuple[str, dict[str, Any]]:
    entry = jsonc.loads(text)
    if not isinstance(entry, dict):
        raise DocumentRefused("The server must be a JSON object.")
    return name or str(entry.get("name") or "server"), entry


def name_of_address(address: str) -> str:
    """Return a name for a server by its host: `https://mcp.linear.app/sse` is `linear`."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return "server"
    try:
        ipaddress.ip_address(host)
        return "server"
    except ValueError:
        labels = [label for label in host.split(".")[:-1] if label not in _SAYS_NOTHING]
        return labels[-1] if labels else "server"


def name_of_command(words: list[str]) -> str:
    """Return a name for a server by the package or program: `npx -y @scope/server-memory@1` is `memory`."""
    plain = [word for word in words[1:] if not word.startswith("-") and word not in _BEFORE_PACKAGE]
    program = words[0].rpartition("/")[2]
    if program not in _LAUNCHERS or not plain:
        chosen = program
    elif program in ("docker", "podman"):
        chosen = next((word for word in plain if "/" in word and "=" not in word and word[0] != "/"), plain[-1])
    else:
        chosen = plain[0]
    scope, _, last = chosen.rstrip("/").rpartition("/")
    last = re.split(r"[@:]", last)[0] if scope.startswith("@") or "@" in last[1:] or ":" in last else last
    last = last.removesuffix(".py").removesuffix(".js")
    return _OF_PACKAGE.sub("", last) or last or "server"
