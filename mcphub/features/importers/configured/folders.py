"""Which folders the script of an interpreter needs beside itself: its modules. Pure, by the path alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from tools_catalog.upstream.scripts import ENDS

_BUILT: Final = frozenset({"dist", "build", "out", "lib", "src", "bin"})
"""Folders within a project: their neighbours belong to it."""
_LEAST_DEPTH: Final = 3
"""Of a folder below `/`: the home of a person, or `/srv/x`, is more than a script's modules."""


def beside(words: Sequence[str]) -> Iterator[str]:
    """Return the folder of the script that the words of a command name, as far as it is one project."""
    script = next((word for word in words if word.startswith("/") and word.endswith(ENDS)), "")
    if not script or ".." in PurePosixPath(script).parts:
        return
    path = PurePosixPath(script)
    modules = [parent for parent in path.parents if parent.name == "node_modules"]
    folder = modules[-1] if modules else path.parent
    while not modules and folder.name in _BUILT and len(folder.parent.parts) > _LEAST_DEPTH:
        folder = folder.parent
    if len(folder.parts) > _LEAST_DEPTH or modules:
        yield str(folder)
