"""The questions that an operation answers, from its extension `x-examples`. Pure.

Other examples bear that name too, as values by media type. They are no questions, and stay out.
"""

from __future__ import annotations

from typing import Any

from mcphub.features.importers.candidates import words

EXTENSION = "x-examples"
MOST = 10
LONGEST = 200


def questions(given: Any) -> list[str]:
    """Return the texts of a list, or those of a list or object of examples with a summary or a description.

    Each is one line, cut at a word; repeated ones count once.
    """
    if isinstance(given, dict):
        given = [each for name, each in given.items() if "/" not in name]
    found: dict[str, None] = {}
    for each in given if isinstance(given, list) else ():
        line = _line(each)
        if line:
            found[line] = None
        if len(found) == MOST:
            break
    return list(found)


def _line(example: Any) -> str:
    if isinstance(example, dict):
        example = words(example.get("summary"), example.get("description"))
    if not isinstance(example, str):
        return ""
    line = " ".join("".join(sign for sign in example[: 4 * LONGEST] if sign.isprintable() or sign.isspace()).split())
    if len(line) <= LONGEST:
        return line
    return line[: LONGEST + 1].rpartition(" ")[0] or line[:LONGEST]
