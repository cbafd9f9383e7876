"""CONTRIBUTING promises that a class name means one thing in the whole product; `.ci/run`, what it can run."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks import house
from tests.forking import ROOT


def test_no_class_name_stands_for_two_things() -> None:
    assert house.repeated_names(house.sources()) == {}


def test_what_ci_runs_on_postgresql_is_there_and_needs_no_sqlite() -> None:
    """`tests.in_process` runs commands on a data directory's own database: a module that uses it cannot run there."""
    listed = re.search(r"^on_postgresql=\((.+?)^\)$", (ROOT / ".ci/run").read_text(), re.MULTILINE | re.DOTALL)
    assert listed is not None
    sources: list[Path] = []
    for path in map(ROOT.joinpath, listed[1].split()):
        assert path.exists(), path
        sources += path.rglob("test_*.py") if path.is_dir() else [path]
    assert [source.name for source in sources if "tests.in_process" in source.read_text()] == []
