"""What the house measures, counted from its source: lines, tables, names, signatures, rooms.

    python -m benchmarks.house [--names] [--signatures]

How each figure is made:

- *lines*: of the Python files of the four packages, without migrations.
- *tables*: models of our applications; beside them all tables, with those that Django makes and those of links.
- *class names used twice*: names that classes of two modules or more bear at the top of their modules. Nested classes
  (`Meta`, `Media`) are not counted. `--names` lists them.
- *signatures with Any*: functions, methods and nested functions that have `Any` in the annotation of a parameter or of
  the result. `--signatures` counts them by file. `Json`, which stands for relayed JSON, is an alias of `Any`: what has
  it and no `Any` is counted apart.
- *files in a root*: Python files beside each package's `__init__.py`, itself included; then the fullest rooms.

`python -m benchmarks.journeys` counts what a call crosses.
"""

from __future__ import annotations

import argparse
import ast
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import ROOT

PACKAGES = ("mcphub", "invocations", "tools_catalog", "sessions_app")
_FULLEST = 5


@dataclass(frozen=True, slots=True)
class Source:
    """One file of the product."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))


def sources() -> list[Source]:
    """Read the Python files of the four packages, without migrations."""
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    texts = ((file, file.read_text()) for file in files if "migrations" not in file.parts)
    return [Source(file, text, ast.parse(text)) for file, text in texts]


def repeated_names(files: list[Source]) -> dict[str, list[str]]:
    """Return the class names of two modules or more, with the modules."""
    found = defaultdict(list)
    for source in files:
        if "management/commands" in source.name:  # Django wants each called Command
            continue
        for name in {node.name for node in source.tree.body if isinstance(node, ast.ClassDef)}:
            found[name].append(source.name)
    return {name: modules for name, modules in sorted(found.items()) if len(modules) > 1}


def signatures(source: Source) -> Iterator[tuple[bool, bool, bool]]:
    """Return for each function: has it `Any`, has it `Any` elsewhere than in `*args` and `**kwargs`, has it `Json`?"""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            named = [each.annotation for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)] + [node.returns]
            gathered = [each.annotation for each in (given.vararg, given.kwarg) if each]
            is_named = any(_has(each, "Any") for each in named)
            yield (
                is_named or any(_has(each, "Any") for each in gathered),
                is_named,
                any(_has(each, "Json") for each in (*named, *gathered)),
            )


def _has(annotation: ast.expr | None, name: str) -> bool:
    return annotation is not None and any(
        (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Constant) and node.value == name)
        for node in ast.walk(annotation)
    )


def rooms() -> Counter[str]:
    """Count the Python files of each folder, migrations left out."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return Counter(str(file.parent.relative_to(ROOT)) for file in files if "migrations" not in file.parts)


def tables() -> tuple[int, int]:
    """Count the models of our applications, and all tables."""
    with tempfile.TemporaryDirectory(prefix="mcphub-house-") as folder:
        os.environ.update(MCPHUB_DATA_DIR=folder, DJANGO_SETTINGS_MODULE="mcphub.settings")
        import django
        from django.apps import apps

        django.setup()
        ours = [model for model in apps.get_models() if model.__module__.partition(".")[0] in PACKAGES]
        return len(ours), len({model._meta.db_table for model in apps.get_models(include_auto_created=True)})


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.house", description="Count lines, tables, names, rooms.")
    parser.add_argument("--names", action="store_true", help="list the class names used twice")
    parser.add_argument("--signatures", action="store_true", help="count the signatures with Any by file")
    options = parser.parse_args()
    files = sources()
    repeated = repeated_names(files)
    counted = {source.name: list(signatures(source)) for source in files}
    with_any = sum(any_at_all for each in counted.values() for any_at_all, _, _ in each)
    named_any = sum(named for each in counted.values() for _, named, _ in each)
    with_json = sum(json and not any_at_all for each in counted.values() for any_at_all, _, json in each)
    ours, everything = tables()
    in_rooms = rooms()
    roots = ", ".join(f"{package} {in_rooms[package]}" for package in PACKAGES)
    fullest = ", ".join(f"{room} {count}" for room, count in in_rooms.most_common(_FULLEST))
    lines = sum(len(source.text.splitlines()) for source in files)
    print(f"lines of the four packages      {lines:>6}  in {len(files)} files")
    print(f"tables                          {ours:>6}  of {everything} in the database")
    print(f"class names used twice          {len(repeated):>6}")
    print(f"# fmt: skip                     {sum(source.text.count('# fmt: skip') for source in files):>6}")
    print(
        f"signatures with Any             {with_any:>6}  of {sum(map(len, counted.values()))}; "
        f"{with_any - named_any} of them only in *args or **kwargs"
    )
    print(f"signatures with Json alone      {with_json:>6}")
    print(f"files in each package's root           {roots}")
    print(f"fullest rooms                          {fullest}")
    if options.names:
        for name, modules in repeated.items():
            print(f"  {name}: {', '.join(modules)}")
    if options.signatures:
        worst = sorted(((sum(found for found, _, _ in each), name) for name, each in counted.items()), reverse=True)
        for count, name in worst:
            if count:
                print(f"  {count:>4}  {name}")


if __name__ == "__main__":
    main()
