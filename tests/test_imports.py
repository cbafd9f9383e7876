"""What tests, rigs and benchmarks import of each other is there: a rig is started by name, and a rename may miss it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.forking import ROOT

FOLDERS = ("tests", "benchmarks")


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@cache
def _defined(file: Path) -> frozenset[str]:
    """Return the names that a module binds anywhere outside its functions and classes."""
    return frozenset(_bound(_parsed(file).body))


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name.partition(".")[0] for each in node.names)
        else:
            yield from (
                each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            )
            for part in ("body", "orelse", "finalbody"):
                yield from _bound(getattr(node, part, []))


def _missing(file: Path) -> Iterator[str]:
    for node in ast.walk(_parsed(file)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(tuple(f"{f}." for f in FOLDERS)):
            continue
        place = ROOT / str(node.module).replace(".", "/")
        module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        for each in node.names:
            is_module = (place / f"{each.name}.py").exists() or (place / each.name).is_dir()
            if not is_module and not (module.exists() and each.name in _defined(module)):
                yield f"{file.relative_to(ROOT)} imports {each.name} of {node.module}"


def test_each_name_that_is_imported_exists() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 500
    assert [line for file in files for line in _missing(file)] == []


@pytest.mark.program
@pytest.mark.parametrize("module", ["tests.conformance.upstream", "tests.conformance.signing"])
def test_the_client_of_upstreams_needs_no_settings(module: str) -> None:
    """The official suite starts these programs, without a hub."""
    subprocess.run([sys.executable, "-c", f"import {module}"], cwd=ROOT, check=True)
