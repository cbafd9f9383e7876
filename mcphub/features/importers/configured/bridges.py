"""Programs that only carry a remote server to clients that start programs: the hub takes their address. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tools_catalog.upstream import spec

_STARTERS: Final = frozenset({"npx", "bunx", "pnpx", "pnpm", "yarn", "bun", "npm", "node"})
_BRIDGE: Final = re.compile(r"(?:\S*/)?mcp-remote(?:@\S+)?\Z")
_HEADER: Final = re.compile(r"([A-Za-z0-9_-]+)\s*:\s*(.*)\Z", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, slots=True)
class Bridge:
    """Where a bridge leads."""

    url: str
    transport: str = spec.STREAMABLE_HTTP
    headers: Mapping[str, str] = field(default_factory=dict)


def unwrapped(command: str, words: Sequence[str], environment: Mapping[str, str]) -> Bridge | None:
    """Return the target of mcp-remote; None for any other program, or for options beyond an address."""
    program = command.replace("\\", "/").rpartition("/")[2].removesuffix(".cmd").removesuffix(".exe")
    if program not in _STARTERS and not _BRIDGE.fullmatch(program):
        return None
    at = (
        -1 if _BRIDGE.fullmatch(program) else next((n for n, word in enumerate(words) if _BRIDGE.fullmatch(word)), None)
    )
    if at is None:
        return None
    rest = list(words[at + 1 :])
    url = next((word for word in rest if word.startswith(("http://", "https://"))), "")
    if not url:
        return None
    headers: dict[str, str] = {}
    transport = spec.STREAMABLE_HTTP
    for option, value in zip(rest, [*rest[1:], ""], strict=True):
        if option == "--header":
            found = _HEADER.match(value)
            if found is None:
                return None
            headers[found[1]] = _resolved(found[2], environment)
        elif option == "--transport" and value.startswith("sse"):
            transport = spec.SSE
    if "--transport" not in rest and re.search(r"/sse/?\Z", url):
        transport = spec.SSE
    return Bridge(url, transport, headers)


def _resolved(text: str, environment: Mapping[str, str]) -> str:
    """Insert the entry's own variables, which often hold `Bearer …`; others remain to be filled in."""
    return _VARIABLE.sub(lambda found: environment.get(found[1], found[0]), text)
