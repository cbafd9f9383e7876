"""Read `requirements.md`: the demands of five documents on the product, and the faults of rows that cite code.

A row is `| number | what is asked | where | names | shown by | state |`:

    where      files, or names that a file defines: `path`, `path::Name`, `path::Name.attribute`
    names      what the code is asked for, not the text: see `NAMES`
    shown by   tests, `tests/path::test_name`
    state      `done`, `departs A1, B2` with numbers of docs/develop/decisions.md, or `missing`
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from django.apps import apps
from django.conf import settings
from django.core.exceptions import FieldDoesNotExist

from mcphub import routing
from mcphub.commands import serve
from mcphub.features.chat.endpoints import routes as chat
from mcphub.features.chat.errors import ERROR_CODES, TOOL_ERROR_CODES
from mcphub.features.remote_profile import endpoints as remote
from sessions_app.protocol.errors import MAPPED_CODES

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "tests" / "seeds" / "requirements.md"
DOCUMENTS = ("000", "001", "002", "003", "004")
STATES = ("done", "departs", "missing")
_ROW = re.compile(r"^\| (\d{3}-\S+) \|", re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    number: str
    asked: str
    where: tuple[str, ...]
    names: tuple[str, ...]
    tests: tuple[str, ...]
    state: str
    decisions: tuple[str, ...]

    @property
    def document(self) -> str:
        return self.number.partition("-")[0]


def read(text: str) -> list[Row]:
    """Return the rows of a page; raises ValueError for one that is none."""
    return [_row(line) for line in text.splitlines() if _ROW.match(line)]


def totals(rows: Iterable[Row]) -> dict[str, tuple[int, ...]]:
    """Return for each document how many items it has, and how many are in each state."""
    counted = Counter((row.document, row.state) for row in rows)
    states = {each: tuple(counted[each, state] for state in STATES) for each in DOCUMENTS}
    return {each: (sum(counts), *counts) for each, counts in states.items()}


def said_totals(text: str) -> dict[str, tuple[int, ...]]:
    """Return what the page's own summary says."""
    said = re.findall(r"^\| (\d{3}) \|[^|]*((?:\| *\d+ *){4})\|$", text, re.MULTILINE)
    return {document: tuple(int(each) for each in re.findall(r"\d+", counts)) for document, counts in said}


def misnumbered(rows: Iterable[Row]) -> Iterator[str]:
    """Return the numbers that are not the next of their document, or of a document that is out of its place."""
    wanted = dict.fromkeys(DOCUMENTS, 1)
    latest = ""
    for row in rows:
        next_one = f"{row.document}-{wanted.get(row.document, 0):02}"
        if row.document not in wanted or row.document < latest or row.number != next_one:
            yield row.number
        else:
            wanted[row.document] += 1
            latest = row.document


def complaints(row: Row) -> Iterator[str]:
    """Return what is wrong with a row, but for whether its tests are collected."""
    if row.state not in STATES:
        yield f"the state is {row.state!r}"
    if not row.asked:
        yield "nothing is asked"
    if row.state == "done" and not row.tests:
        yield "no test shows it"
    if row.state != "missing" and not row.where:
        yield "it stands nowhere"
    if (row.state == "departs") is not bool(row.decisions):
        yield "what departs names its decision, and nothing else does"
    yield from (f"there is no decision {each}" for each in row.decisions if each not in decisions())
    yield from (f"there is no {each}" for each in row.where if not stands(each))
    yield from (f"there is no test {each}" for each in row.tests if not is_test(each))
    for name in row.names:
        try:
            if not is_there(name):
                yield f"the code has no {name}"
        except ValueError as error:
            yield str(error)


def stands(place: str) -> bool:
    file, _, name = place.partition("::")
    return (ROOT / file).exists() and (not name or name in defined(file))


def is_test(test: str) -> bool:
    file, _, name = test.partition("::")
    return file.startswith("tests/") and name.startswith("test_") and (ROOT / file).is_file() and name in defined(file)


def is_there(name: str) -> bool:
    """Return whether the code has a name; raises ValueError for one that says of no kind what it is."""
    kind, _, rest = name.partition(" ")
    if rest:
        if kind not in NAMES:
            raise ValueError(f"{name!r} begins with none of {', '.join(NAMES)}")
        return rest in NAMES[kind]()
    field, _, value = name.partition("=")
    model, _, column = field.partition(".")
    if model not in _models():
        return False
    try:
        found = _models()[model]._meta.get_field(column)
    except FieldDoesNotExist:
        return not value and hasattr(_models()[model], column)
    return not value or value in {each for each, _ in getattr(found, "choices", None) or ()}


NAMES: Mapping[str, Callable[[], frozenset[str]]] = MappingProxyType(
    {
        "constraint": lambda: frozenset(each.name for model in _models().values() for each in model._meta.constraints),
        "error": lambda: frozenset(MAPPED_CODES),
        "query-error": lambda: frozenset({*ERROR_CODES, *TOOL_ERROR_CODES.values()}),
        "frame": lambda: frozenset(remote.CODES.values()),
        "setting": lambda: frozenset(name for name in dir(settings) if name.startswith("MCPHUB_")),
        "flag": lambda: _flags(),
        "address": lambda: frozenset({*routing.CONSUMERS, *(prefix for prefix, _ in chat.PREFIXES)}),
    }
)
"""First word of a name -> the closed list that it stands in. Without one: `Model.field`, or `Model.field=choice`."""


@cache
def decisions() -> frozenset[str]:
    page = (ROOT / "docs" / "develop" / "decisions.md").read_text()
    return frozenset(re.findall(r"^### ([A-Z]\d+)\. ", page, re.MULTILINE))


@cache
def defined(file: str) -> frozenset[str]:
    """Return what a file of Python defines at its top, and one level inside its classes."""
    path = ROOT / file
    return frozenset(_names(ast.parse(path.read_text()).body)) if path.suffix == ".py" else frozenset()


def _names(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name
            yield from _names(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (prefix + each.id for each in targets if isinstance(each, ast.Name))


def _row(line: str) -> Row:
    cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split(" | ")]
    if len(cells) != 6:
        raise ValueError(f"{cells[0]} has {len(cells)} cells, not 6")
    number, asked, where, names, tests, state = cells
    word, _, numbers = state.partition(" ")
    return Row(
        number,
        asked,
        *(tuple(_SPAN.findall(cell)) for cell in (where, names, tests)),
        word,
        tuple(re.findall(r"[A-Z]\d+", numbers)),
    )


@cache
def _models() -> Mapping[str, type]:
    """Models of the product by name; those of libraries would let a name pass that is not ours."""
    ours = ("sessions_app", "tools_catalog", "invocations", "mcphub")
    return {each.__name__: each for each in apps.get_models() if each.__module__.partition(".")[0] in ours}


@cache
def _flags() -> frozenset[str]:
    parser = argparse.ArgumentParser()
    serve.declare(parser)
    return frozenset(option for action in parser._actions for option in action.option_strings)
