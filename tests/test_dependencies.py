"""What is installed with the hub is what the hub uses, and docs/develop/decisions.md says what for."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HOME = Path(__file__).parent.parent
PACKAGES = ("mcphub", "invocations", "tools_catalog", "sessions_app")

GIVEN = {"jsonschema"}
"""Of the owner's list, and not imported yet: docs/develop/decisions.md says why they are installed."""

PART_OF = {
    "annotated-types": "pydantic",
    "asgiref": "django",
    "drf-spectacular-sidecar": "drf-spectacular",
    "httpcore2": "httpx2",
    "pydantic-core": "pydantic",
    "requests": "youtube-transcript-api",
}
"""Packages whose types a declared package takes and gives: they come with it, in the version that it wants."""


def imported() -> Iterator[str]:
    """Return the names of modules that the product imports, or names as applications and middleware."""
    for package in PACKAGES:
        for source in (HOME / package).rglob("*.py"):
            for node in ast.walk(ast.parse(source.read_text())):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield node.module
    for node in ast.parse((HOME / "mcphub" / "settings.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("INSTALLED_APPS", "MIDDLEWARE"):
            yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))


def used() -> set[str]:
    """Return the distributions that the product uses."""
    distributions = packages_distributions()
    roots = {name.partition(".")[0] for name in imported()} - sys.stdlib_module_names - set(PACKAGES)
    return {name.lower().replace("_", "-") for root in roots for name in distributions.get(root, [])}


def declared() -> set[str]:
    project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
    return {re.split(r"[\[<>=~]", entry)[0] for entry in project["dependencies"]}


def extras() -> set[str]:
    """Return what the extras of operators install; `dev` is for who works on the hub."""
    project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
    of_operators = {name: entries for name, entries in project["optional-dependencies"].items() if name != "dev"}
    return {re.split(r"[\[<>=~]", entry)[0] for entries in of_operators.values() for entry in entries}


def test_what_is_declared_is_used() -> None:
    assert declared() - used() == GIVEN
    assert extras() - used() == set()


def test_what_is_used_is_declared() -> None:
    wanted = {PART_OF.get(name, name) for name in used()}
    # `opentelemetry` and `google` are names that many distributions share.
    shared = {name for name in wanted if name.startswith(("opentelemetry-", "googleapis-")) or name == "protobuf"}
    assert wanted - shared - declared() - extras() == set()


def test_no_extra_is_imported_before_it_is_needed() -> None:
    """A hub without extras starts: they are imported within functions."""
    names = {"botocore", "duckdb", "pyarrow", "opentelemetry", "google", "onelogin"}
    for package in PACKAGES:
        for source in (HOME / package).rglob("*.py"):
            for node in ast.parse(source.read_text()).body:
                modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not names & {module.partition(".")[0] for module in modules}, source


def test_every_runtime_dependency_has_its_reason() -> None:
    page = (HOME / "docs/develop/decisions.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)[^`]*` \| (.+) \|$", page, re.MULTILINE)
    assert len(rows) == len(dict(rows))
    assert set(dict(rows)) == declared() | extras()
