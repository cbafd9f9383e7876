"""The messages of a program's process, and the ways in which a program ends. Pure.

The process may be in the hands of its program, so each message is checked as one of a stranger.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from mcphub.features.programs.running import ProgramOutput

_LONGEST_NAME = 2000
_LONGEST_WORDS = 2000
_MOST_PLACES = 3
_FRAME = re.compile(r"at (?:(\S{1,100}) \()?<input>:(\d{1,9})(?::(\d{1,9}))?")
"""A line of a stack. A program begins on the second line of its source."""
_OWN_FUNCTIONS = frozenset(
    {"HubCallError", "ask", "begin", "begun", "call", "call_tool", "describe", "print", "search", "settle"}
)
"""Of the prelude, whose lines are nobody's business."""
Asked = Literal["call", "search", "describe"]
_ADVICE = {
    "HubCallError": "Correct the call, or catch the error.",
    "ReferenceError": "A program has tools, call, search, describe, print, input and the language, nothing else.",
}
"""The next step after an exception, by its name."""


class ProgramFailed(StrEnum):
    """Stable codes of programs that did not end well."""

    SYNTAX = "program_syntax_error"
    EXCEPTION = "program_exception"
    STUCK = "program_stuck"
    TIMEOUT = "program_timeout"
    PROCESSOR = "program_processor_time"
    MEMORY = "program_out_of_memory"
    OUTPUT = "program_output_too_large"
    CALLS = "program_too_many_calls"
    NESTED = "program_in_program"
    BUSY = "program_limit_reached"
    BROKEN = "program_broken"


class ProgramFailure(Exception):
    """A program that did not end well. `call_code` is the code of the call whose failure it did not catch."""

    def __init__(self, kind: ProgramFailed, sentence: str, output: ProgramOutput, call_code: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.output = output
        self.call_code = call_code


class LineRejected(ValueError):
    """A line that is no message."""


@dataclass(frozen=True, slots=True)
class ProgramQuestion:
    """A request of a program to the hub. `given`: arguments of a call, or options of a search."""

    id: int
    what: Asked
    name: str
    given: dict[str, Json]

    @property
    def is_call(self) -> bool:
        return self.what == "call"


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    value: Json
    is_failure: bool = False

    @classmethod
    def failure(cls, code: str, message: str, details: Json = None) -> ProgramAnswer:
        return cls({"code": code, "message": message, "details": details}, is_failure=True)


@dataclass(frozen=True, slots=True)
class ProgramPrinted:
    text: str


@dataclass(frozen=True, slots=True)
class ProgramReturned:
    """`value` is JSON; None where nothing was returned."""

    value: str | None


@dataclass(frozen=True, slots=True)
class ProgramThrew:
    kind: ProgramFailed
    sentence: str
    code: str


ProgramMessage: TypeAlias = ProgramQuestion | ProgramPrinted | ProgramReturned | ProgramThrew


def said(line: bytes) -> ProgramMessage:
    """Return the message in a line. Raises LineRejected."""
    try:
        message = json.loads(line)
    except ParseError as error:
        raise LineRejected("A line is no JSON.") from error
    if not isinstance(message, dict):
        raise LineRejected("A line is no object.")
    if "ask" in message:
        return _question(message)
    if "print" in message:
        return ProgramPrinted(_text(message, "print"))
    if "done" in message:
        return ProgramReturned(None if message["done"] is None else _json(_text(message, "done")))
    if "failed" in message:
        return _threw(message)
    raise LineRejected("A line has no known member.")


def _question(message: dict[str, Json]) -> ProgramQuestion:
    id_, what, name = message.get("id"), message["ask"], _text(message, "name")
    if not isinstance(id_, int) or isinstance(id_, bool) or id_ < 0 or what not in get_args(Asked):
        raise LineRejected("A question has no number, or asks nothing known.")
    if len(name) > _LONGEST_NAME:
        raise LineRejected(f"A name has more than {_LONGEST_NAME} characters.")
    given = json.loads(_json(_text(message, "text")).encode())
    return ProgramQuestion(id_, what, name, given if isinstance(given, dict) else {"": given})


def _threw(message: dict[str, Json]) -> ProgramThrew:
    words, kind, code = _text(message, "failed"), _text(message, "kind"), message.get("code")
    first, _, rest = words.partition("\n")
    stack = _text(message, "stack") if "stack" in message else ""
    sentence = f"{' '.join(first.split())[:_LONGEST_WORDS].rstrip('.')}{_places(stack or rest)}."
    if kind == "NothingLeft":
        return ProgramThrew(
            ProgramFailed.STUCK,
            "It waits for something that never comes. Await only calls of tools, search and describe.",
            "",
        )
    if "out of memory" in words or kind == "null":
        return ProgramThrew(ProgramFailed.MEMORY, "It ran out of memory. Handle fewer data at once.", "")
    if kind == "SyntaxError":
        return ProgramThrew(ProgramFailed.SYNTAX, f"It was not run. {sentence} Send it again, corrected.", "")
    advice = _ADVICE.get(kind if isinstance(kind, str) else "", "Correct the program, and send it again.")
    return ProgramThrew(ProgramFailed.EXCEPTION, f"{sentence} {advice}", code[:100] if isinstance(code, str) else "")


def _places(stack: str) -> str:
    """Return the lines of the program in a stack, innermost first."""
    found = [
        f"line {int(frame[2]) - 1}" + (f", column {frame[3]}" if frame[3] else "")
        for frame in _FRAME.finditer(stack[:_LONGEST_WORDS])
        if frame[1] not in _OWN_FUNCTIONS
    ]
    return f" ({'; '.join(found[:_MOST_PLACES])})" if found else ""


def _text(message: dict[str, Json], name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str):
        raise LineRejected(f"{name} is no text.")
    return value


def _json(text: str) -> str:
    try:
        json.loads(text.encode("utf-8", "surrogatepass"))
    except (ParseError, UnicodeError) as error:
        raise LineRejected("A value is no JSON.") from error
    return text
