"""Advice names commands at the command line and pages in the console; no door sends its reader to the other only."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessions_app.advice import Advice
from sessions_app.history.source import ADMIN, BUNDLE, CLI, REST, edits_via

ROOT = Path(__file__).parents[2]
PACKAGES = ("mcphub", "invocations", "tools_catalog", "sessions_app")
COMMAND = re.compile(r"`?\bmcphub [a-z]+")
PAGE = re.compile(r"\b(console|page|in the admin)\b", re.IGNORECASE)
OTHER_WAY = re.compile(r"\bmcphub [a-z]+ [a-z]+|MCPHUB_|let a login provider or a directory bring it")
"""In a text that names a page: a command, a setting, or somebody who needs neither."""
OWN_NAME = re.compile(r"^mcphub [a-z -]+:")
CONSOLE_ONLY = {
    "mcphub/commands/account.py": "issuers let people sign in by a browser",
    "mcphub/commands/client_config.py": "a client signs in by a browser",
    "mcphub/features/chat/commands/provider.py": "no command changes a provider",
    "mcphub/features/embeddings/command.py": "no command adds or enables a model",
}


def declared() -> Iterator[tuple[str, Advice]]:
    for path in [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]:
        if "= Advice(" in path.read_text():
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            for name, each in vars(module).items():
                if isinstance(each, Advice):
                    yield f"{module.__name__}.{name}", each


def texts(path: Path) -> Iterator[str]:
    """Yield the strings of a module without docstrings, those that are joined as one."""
    tree = ast.parse(path.read_text())
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(id(node.value))
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def modules_of_commands() -> list[Path]:
    found = [*ROOT.glob("mcphub/commands/*.py"), *ROOT.glob("mcphub/features/*/commands/*.py")]
    found += [*ROOT.glob("mcphub/features/*/command.py"), *ROOT.glob("mcphub/features/*/doctor.py")]
    return [*found, ROOT / "mcphub/process/doctor.py"]


def test_each_advice_has_a_form_for_its_door() -> None:
    found = dict(declared())
    assert len(found) >= 7
    for where, advice in found.items():
        assert COMMAND.search(advice.command) or "MCPHUB_" in advice.command, f"{where} names no command"
        assert not PAGE.search(advice.command) or OTHER_WAY.search(advice.command), where
        assert not COMMAND.search(advice.page) or OTHER_WAY.sub("", advice.page, 1) != advice.page, where
        assert not COMMAND.match(advice.page), f"{where} sends a person in the console to a command"
        assert not COMMAND.search(advice.neutral), f"{where} names a command to a reader who may have none"


@pytest.mark.parametrize(
    ("via", "expected"), [(ADMIN, "open it"), (CLI, "run one"), (REST, "do one"), (None, "do one")]
)
def test_the_door_that_shows_advice_decides_its_form(via: str | None, expected: str) -> None:
    advice = Advice(page="open {what}", command="run {what}", neutral="do {what}")
    what = expected.split()[1]
    if via is None:
        assert advice.words(what=what) == expected
        return
    with edits_via(via):
        assert advice.words(what=what) == expected
        with edits_via(BUNDLE):  # a bundle that a page or a command loads
            assert advice.words(what=what) == expected


def test_no_text_of_a_command_names_a_page_as_the_only_way() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in modules_of_commands()
        for text in texts(path)
        if PAGE.search(text) and len(text) > 20 and not OTHER_WAY.search(OWN_NAME.sub("", text))
        if str(path.relative_to(ROOT)) not in CONSOLE_ONLY
    ]
    assert wrong == []


def test_no_text_of_the_console_names_a_command_as_the_only_way() -> None:
    pages = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if "admin" in path.parts]
    pages += (ROOT / "mcphub/console").glob("*.py")
    assert len(pages) > 50
    wrong = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in pages
        for text in texts(path)
        if COMMAND.search(text) and not re.search(r"\bor\b", text)
    ]
    assert wrong == []
