"""Conditions in CEL (Common Expression Language): checked when they are saved, compiled once, evaluated in bounds.

The library compiles and evaluates. Facts that it does not expose are read from the expression's tokens here: the
members of the context it names, so that a typing error is found before a call meets it, and its growth in cost with
the arguments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

MAX_CHARACTERS = 2_000
MAX_DEPTH = 40
"""Open brackets; the library's parser is recursive."""
MAX_NESTED_MACROS = 2
"""Each level multiplies the work by the number of values."""
MAX_MACROS = 8
MAX_SUMS_IN_MACROS = 4
"""`+` joins texts: within a macro each may double the size."""
HELD_NANOSECONDS = 20_000_000
"""An evaluation holds the interpreter's lock to its end. One that may take longer is made in another process."""

OPEN: frozenset[str] = frozenset()
"""Stands for a variable with members that are not known beforehand."""
CONTEXT: Mapping[str, frozenset[str]] = {
    "principal": frozenset({"id", "label", "groups", "claims"}),
    "tool": frozenset({"name", "connection", "annotations", "tags", "version", "read_only"}),
    "args": OPEN,
    "client": frozenset({"name", "version", "transport", "address"}),
    "time": OPEN,
    "recent": frozenset({"calls", "errors"}),
}
"""The readable context of a condition: variable -> its members."""
KEPT = frozenset({"principal", "tool"})
"""A condition that reads nothing else is decided once for each principal and version of a tool."""

MACROS = frozenset({"all", "exists", "exists_one", "map", "filter"})
FUNCTIONS = frozenset(
    {"size", "has", "int", "uint", "double", "string", "bytes", "timestamp", "duration", "dyn", "type"}
)
METHODS = frozenset(
    {
        *("contains", "startsWith", "endsWith", "matches", "size", *MACROS),
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    }
)
_WORDS = frozenset({"true", "false", "null", "in"})
_TYPES = frozenset({"int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type", "type"})

_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*)"
    r"|(?P<text>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<number>(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)[uU]?)"
    r"|(?P<mark>.)",
    re.DOTALL,
)
_PLACE = re.compile(r"<input>:(\d+):(\d+):\s*(.*)")


class ExpressionRejected(ValueError):
    """The text is not a supported condition; the sentence has the reason and the place."""


class RuleFailed(Exception):
    """A condition could not be evaluated; the sentence is the reason, without the arguments' values."""


@dataclass(slots=True)
class _Scan:
    """The facts derived from the tokens."""

    tokens: int = 0
    paths: set[tuple[str, ...]] = field(default_factory=set)
    args: set[str] = field(default_factory=set)
    reads_all_args: bool = False
    macros: int = 0
    nested: int = 0
    searches: int = 0
    """Uses of `matches`, with work linear in the text."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    text: str
    variables: frozenset[str]
    """Which of the context it reads."""
    args: frozenset[str] | None
    """The members of `args` that it reads; None: any."""
    _program: Any
    _scan: _Scan

    @property
    def tool_paths(self) -> frozenset[tuple[str, ...]]:
        """The members of `tool` that it reads, each as a path; an empty one: all of it."""
        return frozenset(path[1:] for path in self._scan.paths if path[0] == "tool")

    @property
    def is_kept(self) -> bool:
        return self.variables <= KEPT

    def may_hold(self, characters: int) -> bool:
        """Return whether evaluation might take longer than `HELD_NANOSECONDS` for arguments of so many characters as
        JSON.
        """
        scan = self._scan
        if "args" not in self.variables:
            characters = 4_000  # groups, claims and tags
        work = 40 * characters + 200 * characters * scan.searches
        if scan.nested:
            work += 30 * scan.tokens * (characters // 2 + scan.tokens) ** scan.nested
        return work > HELD_NANOSECONDS

    def evaluate(self, context: Mapping[str, object]) -> bool:
        """Return whether the condition holds. Raises RuleFailed; nothing else."""
        try:
            # Handing over costs more than deciding, so only what is read is handed over.
            found = self._program.execute({name: context[name] for name in self.variables if name in context})
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise RuleFailed(_reason(error, self.text)) from None  # a panic of the library is no Exception
        if found is True or found is False:
            return found
        raise RuleFailed(f"the condition gave a value of type {type(found).__name__}, not true or false")


@functools.lru_cache(maxsize=1_000)
def compile(text: str) -> Expression:
    """Return a condition; raise ExpressionRejected for a text that is none, or none within the bounds."""
    import cel  # only a hub with rules pays for it

    if len(text) > MAX_CHARACTERS:
        raise ExpressionRejected(f"It has {len(text)} characters; {MAX_CHARACTERS} are allowed. Split it into rules.")
    scan = _scanned(text)
    try:
        program = cel.compile(text)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise ExpressionRejected(_syntax(str(error))) from None
    variables = frozenset(path[0] for path in scan.paths)
    return Expression(text, variables, None if scan.reads_all_args else frozenset(scan.args), program, scan)


def _scanned(text: str) -> _Scan:
    scan = _Scan()
    tokens = [(kind, word) for kind, word in _tokens(text) if kind != "skip"]
    scan.tokens = len(tokens)
    bound = _bound(tokens)
    if wrong := sorted(bound & CONTEXT.keys()):
        raise ExpressionRejected(f"{wrong[0]} is a variable of the context. Give the macro's variable another name.")
    opened: list[bool] = []
    maps = sums = 0
    for index, (kind, word) in enumerate(tokens):
        before = tokens[index - 1][1] if index else ""
        after = tokens[index + 1][1] if index + 1 < len(tokens) else ""
        if kind == "mark" and word in "([{":
            opened.append(word == "(" and before in MACROS and index > 1 and tokens[index - 2][1] == ".")
            if len(opened) > MAX_DEPTH:
                raise ExpressionRejected(f"It is nested deeper than {MAX_DEPTH} brackets. Split it into rules.")
            scan.nested = max(scan.nested, sum(opened))
        elif kind == "mark" and word in ")]}" and opened:
            opened.pop()
        elif kind == "mark" and word == "+" and any(opened):
            sums += 1
        elif kind == "name" and after == "(":
            _check_call(word, before == ".")
            scan.macros += word in MACROS and before == "."
            maps += word == "map" and before == "."
            scan.searches += word == "matches"
        elif kind == "name" and before != "." and word not in _WORDS | _TYPES | bound:
            path = tuple(_path(tokens, index))
            _note(scan, (*path, tokens[index - 2][1][1:-1]) if _is_looked_into(tokens, index, path) else path)
    if scan.nested > MAX_NESTED_MACROS or scan.macros > MAX_MACROS:
        raise ExpressionRejected(
            f"At most {MAX_MACROS} of {', '.join(sorted(MACROS))} are allowed, one inside the other "
            f"{MAX_NESTED_MACROS} times. Split it into rules."
        )
    if maps > 1 or sums > MAX_SUMS_IN_MACROS:
        raise ExpressionRejected(f"At most one map, and {MAX_SUMS_IN_MACROS} times + inside of macros, are allowed.")
    return scan


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for found in _TOKEN.finditer(text):
        yield found.lastgroup or "mark", found[0]


def _bound(tokens: list[tuple[str, str]]) -> frozenset[str]:
    """Return the names that macros bind: `x` of `list.all(x, …)`."""
    return frozenset(
        tokens[index + 2][1]
        for index in range(1, len(tokens) - 2)
        if tokens[index][1] in MACROS and tokens[index - 1][1] == "." and tokens[index + 1][1] == "("
    )


def _check_call(name: str, is_method: bool) -> None:
    known = METHODS if is_method else FUNCTIONS
    if name not in known:
        near = get_close_matches(name, known, 1)
        told = f"Do you mean {near[0]}?" if near else f"There are {', '.join(sorted(known))}."
        raise ExpressionRejected(f"There is no function {name}(). {told}")


def _path(tokens: list[tuple[str, str]], index: int) -> Iterator[str]:
    """Return a variable and the members that follow it: `a.b["c"].d` is a, b, c, d."""
    yield tokens[index][1]
    words = [word for _, word in tokens]
    index += 1
    while index + 1 < len(tokens):
        if words[index] == "." and tokens[index + 1][0] == "name" and words[index + 2 : index + 3] != ["("]:
            yield words[index + 1]
            index += 2
        elif words[index] == "[" and _is_plain(tokens[index + 1]) and words[index + 2 : index + 3] == ["]"]:
            yield words[index + 1][1:-1]
            index += 3
        else:
            return


def _is_looked_into(tokens: list[tuple[str, str]], index: int, path: tuple[str, ...]) -> bool:
    """Return whether all that is read of `args` is whether a member is there: `"x" in args`."""
    if path != ("args",) or index < 2 or tokens[index - 1][1] != "in" or not _is_plain(tokens[index - 2]):
        return False
    before = tokens[index - 3][1] if index > 2 else ""  # `"a" + "b" in args` asks for another member
    after = tokens[index + 1][1] if index + 1 < len(tokens) else ""
    return before in ("", "(", "&", "|", "!", "?", ":", ",") and after not in (".", "[")


def _is_plain(token: tuple[str, str]) -> bool:
    return token[0] == "text" and token[1][0] in "'\"" and "\\" not in token[1] and token[1][:3] not in ("'''", '"""')


def _note(scan: _Scan, path: tuple[str, ...]) -> None:
    if path[0] not in CONTEXT:
        near = get_close_matches(path[0], CONTEXT, 1)
        told = f"Do you mean {near[0]}?" if near else f"A condition reads {', '.join(CONTEXT)}."
        raise ExpressionRejected(f"There is no variable {path[0]}. {told}")
    members = CONTEXT[path[0]]
    if members and len(path) > 1 and path[1] not in members:
        near = get_close_matches(path[1], members, 1)
        told = f"Do you mean {path[0]}.{near[0]}?" if near else f"It has {', '.join(sorted(members))}."
        raise ExpressionRejected(f"{path[0]} has no member {path[1]}. {told}")
    scan.paths.add(path)
    if path[0] == "args":
        if len(path) > 1:
            scan.args.add(path[1])
        else:
            scan.reads_all_args = True


def _syntax(words: str) -> str:
    found = _PLACE.search(words)
    if found is None:
        return f"It is no CEL expression: {words[:200]}"
    return f"Line {found[1]}, column {found[2]}: {found[3][:200]}."


_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (KeyError, "a member that it reads is missing"),
    (ZeroDivisionError, "it divides by zero"),
    (OverflowError, "a number is too large"),
    (TypeError, "it compares or joins values of types that do not go together"),
    (ValueError, "a value cannot be converted"),
    (RuntimeError, "a function does not take such a value"),
)


def _reason(error: BaseException, text: str) -> str:
    """Return the reason of a failed evaluation without argument values: the record must not leak them."""
    if isinstance(error, KeyError) and error.args and str(error.args[0]) in text:
        return f"there is no {str(error.args[0])[:100]}"
    return next((words for kind, words in _REASONS if isinstance(error, kind)), "the evaluation broke off")


def completions(extra: Iterable[str] = ()) -> list[str]:
    """Return an editor's completions: paths of the context, functions and methods."""
    paths = [f"{name}.{member}" for name, members in CONTEXT.items() for member in sorted(members)]
    return [*CONTEXT, *paths, *extra, *(f"{name}(" for name in sorted(FUNCTIONS | METHODS))]
