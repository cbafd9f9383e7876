"""The refusals that an ended child met, and the launch profile settings that would allow them."""

from __future__ import annotations

import re
from typing import Final

from tools_catalog.upstream.spec import LaunchSpec

_REFUSED: Final = re.compile(
    r"(?i)permission denied|EACCES|operation not permitted|\bEPERM\b|read-only file system|EROFS"
)
_PATH: Final = re.compile(r"""['"`]?(/[^\s'"`:,;()]+)""")
_NETWORK: Final = re.compile(
    r"(?i)EAI_AGAIN|name resolution|network is unreachable|ENETUNREACH|connect EACCES|dns error"
    r"|failed to (?:fetch|resolve)|could not resolve|ConnectError|getaddrinfo|ENOTFOUND|urlopen error|socket"
)


def hint(last_words: str, spec: LaunchSpec) -> str:
    """Return a sentence if the last stderr lines of a sandboxed child indicate a refusal; else nothing."""
    if spec.is_unconfined:
        return ""
    for line in reversed(last_words.splitlines()):
        if spec.network != spec.OPEN and _NETWORK.search(line):
            return "The child may not use the network; choose it in the launch profile if the program needs it."
        if refused := _REFUSED.search(line):
            # Shells name what was refused before the words, Python and Node after them.
            paths = _PATH.findall(line, refused.end()) or _PATH.findall(line[: refused.start()])
            if paths:
                named = paths[0] if _PATH.search(line, refused.end()) else paths[-1]
                return f"The child may not reach {named}; add it to the launch profile, to be read or written."
            return "The child was refused something; the launch profile says what it may read, write and reach."
    return ""
