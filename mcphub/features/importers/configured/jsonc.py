"""JSON as people write it into files: with comments, and commas before a closing bracket. Pure."""

from __future__ import annotations

import json as plain
import re
from typing import Any, Final

from mcphub.features.importers.documents import MAX_DEPTH, DocumentRefused
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError

_TEXT: Final = r'"(?:[^"\\\n]|\\.)*+"?'
"""Also one that does not end, so that each character is looked at once."""
_TOKENS: Final = re.compile(_TEXT + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA: Final = re.compile(_TEXT + r"|,(?=\s*[}\]])", re.DOTALL)
_NOT_A_BREAK: Final = re.compile(r"[^\n]")


def loads(text: str) -> Any:
    """Decode; raises DocumentRefused, with the line."""
    bare = _TOKENS.sub(_without_comment, text)
    bare = _LAST_COMMA.sub(lambda found: " " if found[0] == "," else found[0], bare)
    try:
        return json.loads(bare.encode("utf-8", "surrogatepass"), max_depth=MAX_DEPTH)
    except ParseError as error:
        raise DocumentRefused(_told(bare, error)) from error


def _without_comment(found: re.Match[str]) -> str:
    """Leave texts as they are; of comments leave the lines, so that a line of an error is the file's."""
    return found[0] if found[0].startswith('"') else _NOT_A_BREAK.sub(" ", found[0])


def _told(bare: str, error: ParseError) -> str:
    try:
        plain.loads(bare)
    except plain.JSONDecodeError as fault:
        return f"Line {fault.lineno}, column {fault.colno}: this is not valid JSON: {fault.msg}."
    except (ValueError, RecursionError):
        pass
    return str(error).replace("The body", "The configuration")
