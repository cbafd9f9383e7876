"""What a child that ended was refused, and what in its launch profile would allow it."""

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
    """Give a sentence where the last words of a confined child tell of a refusal; else nothing."""
    if spec.is_unconfined:
        return ""
    for line in reversed(last_words.splitlines()):
        if spec.network != spec.OPEN and _NETWORK.search(line):
            return "The child may not use the network; choose it in the launch profile if the program needs it."
        if _REFUSED.search(line):
            path = _PATH.search(line)
            if path is not None:
                return f"The child may not reach {path[1]}; add it to the launch profile, to be read or written."
            return "The child was refused something; the launch profile says what it may read, write and reach."
    return ""
