"""Programs and scripts that a command line names by relative paths. Pure, by the words alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

INTERPRETERS: Final = frozenset({"node", "python", "python3", "deno", "bun", "ruby", "php", "tsx", "ts-node"})
ENDS: Final = (".js", ".mjs", ".cjs", ".ts", ".py", ".rb", ".php")
_IS_CODE: Final = frozenset({"-m", "-c", "-e", "--eval", "-p", "--print"})


def script_of(words: Sequence[str]) -> str:
    """Return the script that an interpreter is given; empty for a module or code among the words."""
    for word in words:
        if word in _IS_CODE:
            return ""
        if word.endswith(ENDS) and not word.startswith("-") and "://" not in word:
            return word
    return ""


def without_folder(command: str, words: Sequence[str], directory: str) -> str:
    """Return the program or script whose relative path has no folder to start from; empty if there is none.

    The folder of a child without a directory is made for it, and has neither.
    """
    if directory:
        return ""
    if "/" in command and not command.startswith("/"):
        return command
    script = script_of(words) if command.rpartition("/")[2] in INTERPRETERS else ""
    return script if not script.startswith("/") else ""
